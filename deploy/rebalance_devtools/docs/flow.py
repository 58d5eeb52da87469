"""Generates the page about the data flow between the monitor's processes, from the table of topics.

python -m rebalance_devtools.docs.flow docs/data-flow.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rebalance_contract.schemas import schema_names
from rebalance_contract.sets import Participant
from rebalance_contract.topics import OPTIONAL_TOPICS, TOPICS, Topic

_INTRODUCTION = """\
# Data flow

The topics of the monitor, and which process reads and writes them. This page is generated from
`streaming/rebalance_contract/topics.py`; change the table there, then run `make docs`.

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
groups, activity, lag ─▶ prober ─▶ probes        clients ─▶ client-metrics        brokers ··▶ broker-logs
terminal, page, pipelines ─▶ exporter ─▶ silences ─▶ exporter, diagnosis
"""

_RULES = """
- **Direction.** Data flows one way: a query reads only topics to its left. Two topics lead back to the queries, neither
  with a result of a later query: `silences`, from which the diagnosis learns of announced deploys, and `probes`.
- **Reading own topics.** A process that reads a topic it also writes does so once, at its start, to restore its state.
  Two cases read continuously: exporters read `silences`, so that a silence made on one of them holds on all; queries
  read the `status` of the same query, to notice that another stream took over.
- **Prober.** It reads the names of groups and topics from `groups`, `activity` and `lag`, and asks the brokers about
  those. It uses none of the figures in these rows, so `probes` contains only what the brokers answer.
- **Terminal.** It reads no topic; it queries the exporter's API.
- **Writers.** Each row has one writer. Rows of a query carry the query's epoch in the header `rebalance-monitor-writer`
  (`rebalance_contract/epochs.py`).
- **Delivery** is at least once. A row that arrives again replaces the earlier row with the same key.
- **Dotted lines** exist only if a setting enables them ([broker-logs.md](broker-logs.md)).
"""

_TABLE = """
## Topics

Names are given without the prefix (`rebalance-monitor.`). The size is the maximum size of a value, in bytes; the writer
truncates larger rows and marks them. A topic marked `uncompressed` is created with `compression.type=uncompressed`: the
broker then checks the uncompressed size of a batch, and rejects one that would fill a reader's memory (`topics.py` has
the details). The lag, the impact totals and the firing findings of each group are written once a day even if they did
not change, so that retention does not delete rows that are still valid.

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
                ("topic", "one row is", "key", "writer", "readers", "size", "cleanup", "schema"),
                (_topic_row(topic) for topic in topics),
            ),
            "\n## Processes\n\n",
            _table(
                ("process", "reads", "writes"), (_participant_row(participant, topics) for participant in Participant)
            ),
            "\n## Settings\n\nThe stream creates missing topics with these settings. At its start it checks "
            "the settings of topics that exist.\n\n```\n",
            *(f"{topic.create_command('rebalance-monitor.')}\n" for topic in topics),
            "```\n",
        )
    )


def _topic_row(topic: Topic) -> tuple[str, ...]:
    writers, readers = ", ".join(topic.writers), ", ".join(topic.readers)
    size = f"{topic.max_row_bytes:,}" + (", uncompressed" if topic.foreign else "")
    return (f"`{topic.name}`", topic.content, topic.key, writers, readers, size, _kept(topic), _schemas(topic))


def _kept(topic: Topic) -> str:
    return topic.cleanup_policy if topic.retention_ms is None else f"{topic.cleanup_policy}, {_days(topic)}"


def _days(topic: Topic) -> str:
    days = (topic.retention_ms or 0) // 86_400_000
    return "1 day" if days == 1 else f"{days} days"


def _schemas(topic: Topic) -> str:
    return ", ".join(f"[{name}](schemas/{name}.schema.json)" for name in schema_names(topic))


def _participant_row(participant: Participant, topics: Sequence[Topic]) -> tuple[str, ...]:
    log = ["`__consumer_offsets`"] if participant in (Participant.MEMBERSHIP, Participant.ACTIVITY) else []
    reads = [*log, *(f"`{topic.name}`" for topic in topics if participant in topic.readers)]
    writes = [f"`{topic.name}`" for topic in topics if participant in topic.writers]
    return (participant, ", ".join(reads), ", ".join(writes))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), "utf-8")
