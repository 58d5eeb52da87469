"""Whatever a stranger wrote, a terminal, a Markdown reader and a JSON reader see it as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.terminal.clusters import HOSTILE
from rebalance_exporters.terminal.escaping import markdown_code, safe, safe_json, safe_markdown


@pytest.mark.generated
@given(st.text())
def test_all_that_comes_out_can_be_seen(text):
    """No control code, no line break, no mark that turns the direction; and escaping twice changes nothing."""
    assert safe(text).isprintable()
    assert safe(safe(text)) == safe(text)


@pytest.mark.parametrize("name", ["payments-enricher", "grüße", "注文", "a b", "back\\slash", ""])
def test_names_that_can_be_seen_stay_as_they_are(name):
    """Of any script."""
    assert safe(name) == name


def test_what_cannot_be_seen_is_spelt_out():
    """So that two names that look alike can be distinguished."""
    assert safe(HOSTILE) == "\\x1b[2J\\x1b]0;owned\\x07\\nall is well\\u202e\\x9b31m\\u2028<script>|x`"


@pytest.mark.generated
@given(st.text())
def test_json_is_visible_ascii_and_loses_nothing(text):
    """A terminal may show it, a program reads back what was there."""
    written = safe_json({"name": text})
    assert written.isascii()
    assert written.isprintable()
    assert json.loads(written) == {"name": text}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)>"),
        ("a|b", "a\\|b"),
        ("[here](http://evil)", "\\[here](http://evil)"),
        ("**loud** _words_ `code`", "\\*\\*loud\\*\\* \\_words\\_ \\`code\\`"),
        ("poll_overrun", "poll_overrun"),
        ("# title", "\\# title"),
        ("> quote", "\\> quote"),
        ("a\n# title", "a\\\\n# title"),
        ("&lt;", "&amp;lt;"),
        ("12 -> 11", "12 -> 11"),
    ],
)
def test_markdown_shows_the_text_itself(text, written):
    """No markup, no HTML, no cell of its own; rules and arrows stay readable."""
    assert safe_markdown(text) == written


def test_code_ends_where_it_should():
    """Also when the text holds the quotes that end code."""
    assert markdown_code("explain a") == "`explain a`"
    assert markdown_code("explain '``'") == "``` explain '``' ```"
