"""JSON as written by clients: strict JSON is read fast, bare tokens NaN and Infinity, which some write, are accepted.

Receives bytes of bounded size; returns plain values of limited depth, or raises UndecodableError.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError

MAX_NESTING = 32

# Python's own conversion: msgspec's takes 20 us for a number near the largest, a hundred times as long.
_decoder = msgspec.json.Decoder(float_hook=float)

_BRACES_ONLY = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


def read_json(text: bytes) -> Any:
    """Parse JSON, with or without bare NaN and infinities. Raises UndecodableError (malformed, too_deep)."""
    try:
        try:
            document = _decoder.decode(text)
        except (msgspec.MsgspecError, ValueError):
            document = _read_python_json(text)
    except (ValueError, OverflowError) as error:
        raise UndecodableError(Reason.MALFORMED, f"The value starts like JSON and is none: {error}.") from None
    except RecursionError:
        raise _too_deep() from None
    if not _looks_shallow(text) and not _is_shallow(document):
        raise _too_deep()
    return document


def _read_python_json(text: bytes) -> Any:
    document = json.loads(text.decode("utf-8-sig"))
    if b"\\u" in text:
        # Python's parser accepts half of a surrogate pair, which could not be written again by any later stage.
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _too_deep() -> UndecodableError:
    return UndecodableError(Reason.TOO_DEEP, f"The value is nested deeper than {MAX_NESTING} levels.")


def _looks_shallow(text: bytes) -> bool:
    """Judge by brackets alone, one level at a time from inside. Brackets in strings count too: false is no proof."""
    left = text.translate(_BRACES_ONLY, _NO_BRACKETS)
    for _ in range(MAX_NESTING):
        if not left:
            return True
        left = left.replace(b"{}", b"")
    return not left


def _is_shallow(document: Any) -> bool:
    level = [document]
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in _children(node)]
        if not level:
            return True
    return False


def _children(node: Any) -> list[Any]:
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [value for value in values if isinstance(value, dict | list)]
