"""README agrees with the code and the other pages on topics, diagnoses and modes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rebalance_contract import topics
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.catalogue import DIAGNOSES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("demo", "without-the-log"))]


def test_every_topic_is_named() -> None:
    """The permanent topics, and those that a setting enables."""
    (paragraph,) = re.findall(r"^\*\*Topics\*\*.*$", README, re.MULTILINE)
    always, _, asked_for = paragraph.partition(";")
    prefix = re.escape(StreamConfig().topic_prefix.rstrip("."))
    assert set(re.findall(rf"`(?:{prefix})?\.([a-z-]+)`", always)) == {each.name for each in topics.TOPICS}
    assert set(re.findall(r"`\.([a-z-]+)`", asked_for)) == {each.name for each in topics.OPTIONAL_TOPICS}


def test_the_catalogue_is_as_large_as_it_is() -> None:
    """The numbers of diagnoses in README, both seen on real clients and experimental."""
    ((seen, experimental),) = re.findall(r"of (\d+) diagnoses that were seen .* and (\d+) experimental", README)
    marked = sum(each.experimental for each in DIAGNOSES.values())
    assert (int(seen) + int(experimental), int(experimental)) == (len(DIAGNOSES), marked)


def test_what_it_costs_is_said_before_what_it_can() -> None:
    """Before the first command, and with the alternative without the log."""
    start = README.partition("## See it")[0]
    assert "**What it costs**" in start
    assert "docs/without-the-log.md" in start


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To files and pictures, and to headings of Markdown pages."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w\s-]", "", each.lower()).replace(" ", "-") for each in headings}, target
