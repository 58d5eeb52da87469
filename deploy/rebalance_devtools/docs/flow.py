"""The page on how data flow between the monitor's processes, made from the table of topics.

python -m rebalance_devtools.docs.flow docs/data-flow.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rebalance_contract.schemas import schema_names
from rebalance_contract.sets import Party
from rebalance_contract.topics import OPTIONAL_TOPICS, TOPICS, Topic

_INTRODUCTION = """\
# Data flow

How a record of the watched log becomes a figure on a page. This page is generated from the table in
`streaming/rebalance_contract/topics.py`; change it there, then run
`make docs`.

"""

PICTURE = """\
                       ┌────────────┐
__consumer_offsets ─┬─▶│ membership ├─▶ groups, rebalances ─┬───────────────────────▶┌──────────┐
probes ───────────┬─┼─▶│            │                       ▼                        │          │
                  │ │  └────────────┘                 ┌───────────┐                  │ exporter ├─▶ Prometheus,
                  │ │                                 │ diagnosis ├─▶ findings, ────▶│          │   page, terminal
                  │ │  ┌────────────┐                 └───────────┘   heartbeats,    │          │
                  │ └─▶│ activity   ├─▶ activity ───────────▲         lag, impact    │          │
                  └───▶│            │                                                │          │
client-metrics ───────▶│            │       status, of all three queries ───────────▶│          │
broker-logs ··········▶│            │                                                │          │
                       └────────────┘                                                └──────────┘
groups, activity ─▶ prober ─▶ probes        clients ─▶ client-metrics        brokers ··▶ broker-logs
terminal, page, pipelines ─▶ exporter ─▶ silences ─▶ all exporters, diagnosis
"""

_RULES = """
Data flow one way: a query reads only what stands left of it, and what people say: the diagnosis reads which deploys
were announced. Whoever reads a topic that it writes itself does so once, at a start, to go on from there. Two go on
reading: exporters, as silences that one of them was asked for are those of all, and queries the status of their own
kind, to learn that another stream took over. The prober reads which groups and topics there are, so that it asks the
brokers about those. Every fact has one writer, which a query's rows name with its epoch in the header
`rebalance-monitor-writer` (`rebalance_contract/epochs.py`); delivery is at least once, and a row that arrives again
replaces the earlier one of its key. The terminal reads no topic: it asks the exporter. What is dotted is there only
where a setting asks for it ([broker-logs.md](broker-logs.md)).
"""

_TABLE = """
## Topics

The size is that of the largest value, in bytes; what would be larger is cut by its writer and marked. A topic marked
`unpacked` is created with `compression.type=uncompressed`, so that the broker measures what a compressed batch really
holds and refuses one that would fill a reader's memory; `topics.py` says what was seen of that. Names are those behind
the prefix (`rebalance-monitor.`). Lag, totals of impact and firing findings of each group are written once a day even
where nothing changed, so that no retention drops what stands.

"""


def render(topics: Sequence[Topic] = (*TOPICS, *OPTIONAL_TOPICS)) -> str:
    """Return the page."""
    return "".join(
        (
            _INTRODUCTION,
            f"```\n{PICTURE}```\n",
            _RULES,
            _TABLE,
            _table(
                ("topic", "a row", "key", "writer", "readers", "size", "clean-up", "schema"),
                (_topic_row(topic) for topic in topics),
            ),
            "\n## Processes\n\n",
            _table(("process", "reads", "writes"), (_party_row(party, topics) for party in Party)),
            "\n## Settings\n\nWhat a missing topic is created with; the stream checks at a start that a topic it finds "
            "agrees.\n\n```\n",
            *(f"{topic.create_command('rebalance-monitor.')}\n" for topic in topics),
            "```\n",
        )
    )


def _topic_row(topic: Topic) -> tuple[str, ...]:
    writers, readers = ", ".join(topic.writers), ", ".join(topic.readers)
    size = f"{topic.max_row_bytes:,}" + (", unpacked" if topic.foreign else "")
    return (f"`{topic.name}`", topic.content, topic.key, writers, readers, size, _kept(topic), _schemas(topic))


def _kept(topic: Topic) -> str:
    return topic.cleanup_policy if topic.retention_ms is None else f"{topic.cleanup_policy}, {_days(topic)}"


def _days(topic: Topic) -> str:
    days = (topic.retention_ms or 0) // 86_400_000
    return "1 day" if days == 1 else f"{days} days"


def _schemas(topic: Topic) -> str:
    return ", ".join(f"[{name}](schemas/{name}.schema.json)" for name in schema_names(topic))


def _party_row(party: Party, topics: Sequence[Topic]) -> tuple[str, ...]:
    log = ["`__consumer_offsets`"] if party in (Party.MEMBERSHIP, Party.ACTIVITY) else []
    reads = [*log, *(f"`{topic.name}`" for topic in topics if party in topic.readers)]
    writes = [f"`{topic.name}`" for topic in topics if party in topic.writers]
    return (party, ", ".join(reads), ", ".join(writes))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), "utf-8")
