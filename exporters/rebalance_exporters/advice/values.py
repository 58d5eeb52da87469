"""Reads the values that findings propose, which are text for people. Pure."""

from __future__ import annotations

import re

from rebalance_contract import Advice

#: Milliseconds at the beginning of a proposal; neither a percentage nor the beginning of a word.
_MILLISECONDS = re.compile(r"(\d{1,9})(?![\d.]|\s*%)\b")
_SHARE, _MOST, _NUMBER = re.compile(r"(\d{1,2})\s?%"), re.compile(r"at most (\d{1,9})\b"), re.compile(r"\d{1,9}")


def read_ms(advice: Advice) -> int | None:
    """Return the proposed value in milliseconds, null if no number is proposed."""
    found = _MILLISECONDS.match(advice.proposed)
    return None if found is None else int(found[1])


def read_share(advice: Advice) -> int | None:
    """Return the proposed value in percent of the current one; null without a percentage or both numbers."""
    if (share := _SHARE.match(advice.proposed)) is not None:
        return max(1, int(share[1]))
    most, now = _MOST.match(advice.proposed), _NUMBER.fullmatch(advice.current or "")
    if most is None or now is None or not int(now[0]):
        return None
    return max(1, min(100, 100 * int(most[1]) // int(now[0])))
