import difflib

import pytest

from rebalance_exporters.api.requests import names_like

#: As many as one exporter shows; most begin and end alike.
NAMES = [
    f"team-{number % 40}.{kind}-{number}" for number in range(2_500) for kind in ("orders", "audit", "search", "mail")
]


@pytest.mark.parametrize(
    "name",
    [
        "team-17.search-2457x",
        "eam-17.search-2457",
        "tema-17.search-2457",
        "team-17.serach-2457",
        "team-17.search-245",
        "Team-17.search-2457",
        "search-2457",
    ],
)
def test_a_name_among_ten_thousand_is_found_wherever_the_mistake_is(name: str) -> None:
    """The first letter is mistyped as often as any other."""
    assert "team-17.search-2457" in names_like(name, NAMES)


def test_few_names_are_compared_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated requests for groups that do not exist do not slow down the exporter."""
    compared: list[int] = []
    find = difflib.get_close_matches

    def count(name: str, names: list[str]) -> list[str]:
        compared.append(len(names))
        return find(name, names)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    assert names_like("team-17.serach-2457", NAMES)[0] == "team-17.search-2457"
    assert compared == [100]


@pytest.mark.parametrize("name", ["", "x", "\n", "y" * 70_000])
def test_what_nobody_mistyped_is_like_no_name(name: str) -> None:
    """It has no suggestion, and a name of any length costs little time."""
    assert names_like(name, [*NAMES, "", "z" * 30_000]) == []
