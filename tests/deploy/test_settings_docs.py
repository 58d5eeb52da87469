"""docs/configuration.md lists and explains every setting."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rebalance_contract.settings import description_of
from rebalance_deploy.components import SECTIONS
from rebalance_deploy.settings import SHARED, known_keys, shared_key
from rebalance_devtools.docs import settings as settings_docs

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_what_the_code_says() -> None:
    """After a change of a setting write the page again."""
    assert PAGE.read_text("utf-8") == settings_docs.render(), (
        "python -m rebalance_devtools.docs.settings docs/configuration.md"
    )


@pytest.mark.parametrize("component", SECTIONS.values(), ids=lambda each: each.__name__)
def test_every_setting_says_what_it_decides(component: type[Any]) -> None:
    """Every field has a description, except the table whose keys are described in the catalogue."""
    assert {each.name for each in fields(component) if not description_of(each)} <= {"thresholds"}


def test_every_key_stands_on_the_page() -> None:
    """Every setting can be looked up."""
    rows = {line.split("`")[1] for line in settings_docs.render().splitlines() if line.startswith("| `")}
    shared = set(map(shared_key, SHARED))
    keys = {key if key in shared else key.rpartition(".")[2] for key in known_keys(SECTIONS)}
    assert keys - {"thresholds"} <= rows
