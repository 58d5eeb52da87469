"""What is known of a text, as the API and the command line show it."""

from __future__ import annotations

from rebalance_contract.api_messages import MessagesAnswer
from rebalance_exporters.messages.loglines import read_origin
from rebalance_exporters.messages.matching import LONGEST_TEXT, Matcher


def answer(text: str, matcher: Matcher) -> MessagesAnswer:
    """Return what is known of lines of a log, or of a piece of one; what is beyond the limit is not looked at."""
    text = text[:LONGEST_TEXT]
    found = matcher.search(text)
    origin = read_origin(text, found.hits)
    return MessagesAnswer(found.match, origin.group, origin.client, tuple(each.message.row() for each in found.hits))
