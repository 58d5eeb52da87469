"""Answers what is known of a text, for the API and the command line."""

from __future__ import annotations

from rebalance_contract.api_messages import MessagesAnswer
from rebalance_exporters.messages.loglines import read_origin
from rebalance_exporters.messages.matching import LONGEST_TEXT, Matcher


def answer(text: str, matcher: Matcher) -> MessagesAnswer:
    """Return the entries for a text, and the group and client it names. Text beyond LONGEST_TEXT is ignored."""
    text = text[:LONGEST_TEXT]
    found = matcher.search(text)
    origin = read_origin(text, found.hits)
    return MessagesAnswer(found.match, origin.group, origin.client, tuple(each.message.row() for each in found.hits))
