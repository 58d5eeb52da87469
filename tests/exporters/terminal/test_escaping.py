"""Text from others is shown as text in a terminal, in Markdown and in JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.terminal.clusters import HOSTILE
from rebalance_exporters.terminal.escaping import markdown_code, safe, safe_json, safe_markdown


@pytest.mark.generated
@given(st.text())
def test_all_that_comes_out_can_be_seen(text):
    """No control codes, line breaks or direction marks; and escaping twice changes nothing."""
    assert safe(text).isprintable()
    assert safe(safe(text)) == safe(text)


@pytest.mark.parametrize("name", ["payments-enricher", "grüße", "注文", "a b", "back\\slash", ""])
def test_names_that_can_be_seen_stay_as_they_are(name):
    """In any script."""
    assert safe(name) == name


def test_what_cannot_be_seen_is_spelt_out():
    """So that two names that look alike can be distinguished."""
    assert safe(HOSTILE) == "\\x1b[2J\\x1b]0;owned\\x07\\nall is well\\u202e\\x9b31m\\u2028<script>|x`"


@pytest.mark.generated
@given(st.text())
def test_json_is_visible_ascii_and_loses_nothing(text):
    """It is safe on a terminal, and a program reads back the original."""
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
    """No markup, no HTML, no extra table cell; rules and arrows stay readable."""
    assert safe_markdown(text) == written


def test_code_ends_where_it_should():
    """Even if the text contains the delimiters of code."""
    assert markdown_code("explain a") == "`explain a`"
    assert markdown_code("explain '``'") == "``` explain '``' ```"
