"""librdkafka's statistics, made to fit into a record.

Receives the text that librdkafka handed out, some 700 bytes for each partition; hands on a text that is small enough,
without what is largest in it. To read several MB as a whole takes ten times that, and holds up the program meanwhile.
So what is left out is cut from the text, and only what stays is read, to see whether the cut was right.

The cut relies on the order in which librdkafka writes its one object (`rd_kafka_stats_emit_all` in rdkafka.c): what the
client is, `brokers`, `topics`, `cgrp`, totals. A text that is not so is read as a whole.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: A partition as it is listed for its broker, with the comma after it; names of topics need no escapes.
_LISTED_PARTITION = re.compile(r'(?<!\\)"[^"\\]*":\s*\{\s*"topic":\s*"[^"\\]*",\s*"partition":\s*\d+\s*\}\s*,?\s*')
#: More than there are blanks between two fields.
_BLANKS = 8


def slim_statistics(text: str, largest: int) -> str:
    """Return statistics of at most so many characters: without topics, then without brokers, where they would not fit.

    Lists of partitions by broker go with the topics. Raises ValueError for what has to be read and is no JSON.
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
    # Heartbeats are counted at the coordinator.
    statistics["brokers"] = {name: value for name, value in brokers.items() if name == "GroupCoordinator"}
    return _write(statistics)


def _cut_topics(text: str) -> str | None:
    """Return statistics without topics and without lists of partitions; null where their text is not as expected.

    Names of strangers are in it, so both cuts are proved to be between two fields of the outermost object: the part
    before `topics` becomes an object by `"topics":{}}`, and the part from `cgrp` on by `{`. Inside of a string the
    first quote would end it, and deeper in the object a bracket would be missing.
    """
    start, end = text.find('"topics":'), text.rfind('"cgrp":')
    if start < 0 or end < start or not text[max(start, end - _BLANKS) : end].rstrip().endswith(","):
        return None
    head, tail = _LISTED_PARTITION.sub("", text[:start]) + '"topics":{}', text[end:]
    if _fields(head + "}")[-2:] != ["brokers", "topics"] or _fields("{" + tail)[:1] != ["cgrp"]:
        return None
    return f"{head}, {tail}"


def _fields(text: str) -> list[str]:
    """Return the names of an object's fields in their order, none for what is no object."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return list(found) if isinstance(found, dict) else []


def _write(statistics: dict[str, Any]) -> str:
    return json.dumps(statistics, separators=(",", ":"))
