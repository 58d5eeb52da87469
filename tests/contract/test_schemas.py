"""The committed JSON Schemas are those of the code."""

from pathlib import Path

import pytest

from rebalance_contract.schemas import ROWS, render

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.mark.parametrize("name", ROWS)
def test_the_committed_schema_is_current(name: str):
    """After a change of the contract run `make schemas`."""
    assert (FOLDER / f"{name}.schema.json").read_text() == render(ROWS[name])


def test_there_is_no_other():
    """A removed row leaves no schema behind."""
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.schema.json" for name in ROWS}
