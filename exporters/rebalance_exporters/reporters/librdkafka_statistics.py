"""Shortens librdkafka's statistics until they fit into a record.

Receives the text from librdkafka, about 700 bytes per partition; returns a text that is small enough, without its
largest parts. Parsing several MB as a whole takes ten times as much memory and blocks the program meanwhile. So the
parts to remove are cut from the text, and only the rest is parsed, to check the cut.

The cut relies on the order in which librdkafka writes its one object (`rd_kafka_stats_emit_all` in rdkafka.c): client
fields, `brokers`, `topics`, `cgrp`, totals. A text in another order is parsed as a whole.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: An entry of a broker's list of partitions, with the comma after it; topic names need no escapes.
_LISTED_PARTITION = re.compile(r'(?<!\\)"[^"\\]*":\s*\{\s*"topic":\s*"[^"\\]*",\s*"partition":\s*\d+\s*\}\s*,?\s*')
#: Upper bound of the number of blanks between two fields.
_BLANKS = 8


def slim_statistics(text: str, largest: int) -> str:
    """Return statistics of at most `largest` characters: if needed without topics, then also without brokers.

    Lists of partitions by broker are removed with the topics; the coordinator stays. Raises ValueError if a text that
    has to be parsed is not JSON.
    """
    if len(text) <= largest:
        return text
    cut = _cut_topics(text)
    if cut is not None and len(cut) <= largest:
        return cut
    statistics = json.loads(text if cut is None else cut)
    statistics["topics"] = {}
    brokers = statistics.get("brokers", {})
    for broker in brokers.values():
        broker.pop("toppars", None)
    if len(slim := _write(statistics)) <= largest:
        return slim
    # The coordinator stays, because heartbeats are counted there.
    statistics["brokers"] = {name: value for name, value in brokers.items() if name == "GroupCoordinator"}
    return _write(statistics)


def _cut_topics(text: str) -> str | None:
    """Return statistics without topics and lists of partitions; null if their text is not in the expected form.

    The text contains names that others chose, so both cuts are verified to lie between two fields of the outermost
    object: the part before `topics` becomes an object with `"topics":{}}`, and the part from `cgrp` on with `{`. If a
    cut were inside a string, the first quote would end that string; deeper in the object a bracket would be missing.
    """
    start, end = text.find('"topics":'), text.rfind('"cgrp":')
    if start < 0 or end < start or not text[max(start, end - _BLANKS) : end].rstrip().endswith(","):
        return None
    head, tail = _LISTED_PARTITION.sub("", text[:start]) + '"topics":{}', text[end:]
    if _fields(head + "}")[-2:] != ["brokers", "topics"] or _fields("{" + tail)[:1] != ["cgrp"]:
        return None
    return f"{head}, {tail}"


def _fields(text: str) -> list[str]:
    """Return the names of an object's fields in their order; empty for text that is no JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return list(found) if isinstance(found, dict) else []


def _write(statistics: dict[str, Any]) -> str:
    return json.dumps(statistics, separators=(",", ":"))
