"""A release has one version, defined in one place, and a section of the changelog."""

from __future__ import annotations

import re
import tomllib

from deploy.wheels import ROOT
from rebalance_deploy import __version__

#: A section of the changelog, with its date unless it is the unreleased one.
_SECTION = re.compile(r"^## (\S+)(?: \((\d{4}-\d{2}-\d{2})\))?$", re.MULTILINE)
_IMAGE = re.compile(r"\brebalance-monitor(?:-spark)?:(\d[\w.]*)")
#: The chart's versions are checked by its own test.
_NAMING = (
    "deploy/compose/compose.yaml",
    "deploy/container/Containerfile",
    "deploy/spark/README.md",
    "docs/operations.md",
)


def test_the_changelog_has_the_version_with_its_day() -> None:
    """Unreleased changes are collected above it."""
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = _SECTION.findall(text)
    assert len(sections) == text.count("\n## ")
    assert sections[0] == ("Unreleased", "")
    assert [name for name, day in sections if not day] == ["Unreleased"]
    assert sections[1][0] == __version__


def test_images_that_are_named_are_of_the_version() -> None:
    """A copied command uses the image of this release."""
    for name in _NAMING:
        assert set(_IMAGE.findall((ROOT / name).read_text())) == {__version__}, name


def test_the_version_of_a_wheel_is_that_of_the_package() -> None:
    """The version is not repeated anywhere."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert said["project"]["dynamic"] == ["version"]
    assert said["tool"]["hatch"]["version"]["path"] == "deploy/rebalance_deploy/__init__.py"
