"""The documentation's screenshots of the dashboards, and how they are made."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard_pictures import DOCS, SHOWN, SITUATIONS, Picture, address, describe
from dashboards_for_grafana_9 import hide_marks, translate

ROOT = Path(__file__).parents[2]
PICTURE = pytest.mark.parametrize("picture", SHOWN, ids=lambda picture: picture.name)


def test_every_picture_is_shown_and_every_one_shown_is_made() -> None:
    """README and the page of the dashboards show exactly the screenshots that the command takes."""
    named = {
        Path(target).stem
        for page in (ROOT / "README.md", ROOT / "grafana" / "README.md")
        for target in re.findall(r"\]\(([^)]*dashboard-[^)]*\.png)\)", page.read_text())
        if (page.parent / target).exists()
    }
    assert named == {picture.name for picture in SHOWN} == {file.stem for file in DOCS.glob("dashboard-*.png")}


@PICTURE
def test_a_picture_has_the_size_it_is_taken_in(picture: Picture) -> None:
    """No file has another size."""
    head = (DOCS / f"{picture.name}.png").read_bytes()[:24]
    assert struct.unpack(">II", head[16:]) == picture.size


@PICTURE
def test_how_a_picture_is_made_is_said(picture: Picture) -> None:
    """`make pictures GRAFANA=URL` lists each file after the command that produces its data."""
    said = "\n".join(describe("http://grafana"))
    before = said.partition(f"{picture.name}.png")[0]
    assert before.rpartition("OF=")[2].startswith(picture.situation)
    assert SITUATIONS[picture.situation].command in before


@PICTURE
def test_a_picture_ends_with_its_data(picture: Picture) -> None:
    """It shows the 15 minutes before the given moment, whenever it is taken."""
    asked = parse_qs(urlsplit(address("http://grafana", picture, 2_000, "storm")).query)
    assert (asked["from"], asked["to"], asked["var-datasource"]) == (["1100000"], ["2000000"], ["storm"])


def test_grafana_9_finds_the_kind_of_cells_under_its_own_name() -> None:
    """In panels of collapsed rows too; nothing else changes."""
    cells = {"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}}
    width = {"id": "custom.width", "value": 75}
    table = {"fieldConfig": {"overrides": [{"properties": [cells, width]}]}}
    translate([{"type": "row", "panels": [table]}])
    assert cells == {"id": "custom.displayMode", "value": "color-background-solid"}
    assert width == {"id": "custom.width", "value": 75}


def test_grafana_9_draws_no_mark_that_is_for_some_panels() -> None:
    """It would draw them over every panel."""
    for_some, for_all = {"enable": True, "filter": {"ids": [1]}}, {"enable": True}
    hide_marks({"annotations": {"list": [for_some, for_all]}})
    assert (for_some["enable"], for_all["enable"]) == (False, True)
