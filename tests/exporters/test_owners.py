from pathlib import Path

import pytest

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.owners import load_owners

TOML = """
[[owners]]
group = "payments-.*"
cluster = "test.*"
team = "quality"

[[owners]]
group = "payments-.*"
team = "payments"

[[owners]]
group = ".*"
team = "platform"
"""
YAML = """
owners:
  - group: payments-.*
    cluster: test.*
    team: quality
  - {group: payments-.*, team: payments}
  - {group: .*, team: platform}
"""


def write(folder: Path, text: str, name: str = "owners.yml") -> str:
    """Write an owner file and return its path."""
    file = folder / name
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(("name", "text"), [("owners.toml", TOML), ("owners.yml", YAML)])
def test_the_first_match_wins(tmp_path: Path, name: str, text: str) -> None:
    """Both forms of the file agree: patterns match the whole name, and the first match applies."""
    owners = load_owners(write(tmp_path, text, name))
    groups = [("test-1", "payments-eu"), ("prod", "payments-eu"), ("prod", "my-payments-eu"), ("prod", "new\nline")]
    assert [owners.team_of(*group) for group in groups] == ["quality", "payments", "platform", "platform"]


def test_without_a_file_nobody_owns_anything() -> None:
    """No file and an empty one are no error."""
    assert load_owners("").team_of("prod", "payments") is None


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("owner: []", "unknown key owner, did you mean owners?"),
        ("owners: {a: b}", "owners must be a list"),
        (
            "owners: [{group: a, taem: b}]",
            r"unknown key owners\[0\].taem, did you mean team\?; owners\[0\].team is missing",
        ),
        ("owners: [{team: b}]", r"owners\[0\].group is missing"),
        ("owners: [{group: '(', team: b}]", r"owners\[0\].group is no regular expression"),
        ("owners: [a]", r"owners\[0\] must be a table"),
        ("- a", "must hold a table"),
        ("a: [", "is not valid YAML"),
        ("owners: []\nowners: []", "a key stands twice"),
    ],
)
def test_a_wrong_file_is_reported_with_a_hint(tmp_path: Path, text: str, reported: str) -> None:
    """Nothing in the file is ignored silently; the error has the file, the place and a suggestion."""
    with pytest.raises(ExporterError, match=reported) as caught:
        load_owners(write(tmp_path, text))
    assert "owners.yml" in str(caught.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """The error has the path."""
    with pytest.raises(ExporterError, match=r"cannot read .*nowhere.toml"):
        load_owners(str(tmp_path / "nowhere.toml"))
