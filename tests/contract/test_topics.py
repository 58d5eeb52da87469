"""The table of topics is used by all components, and its page agrees with it."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from rebalance_contract import QUERIES, topics
from rebalance_devtools.docs import flow
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.reporters.reporter import DEFAULT_TOPIC
from rebalance_exporters.state.view import TOPICS as EXPORTED
from rebalance_streaming.brokers.cluster import own_topics
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.recordings import line_reader

PAGE = Path(__file__).parents[2] / "docs" / "data-flow.md"
PREFIX = StreamConfig().topic_prefix

#: The largest batch of librdkafka by default (message.max.bytes), and the default limit of brokers for topics.
LIBRDKAFKA_BATCH_BYTES = 1_000_000


def test_the_page_is_what_the_table_says():
    """After a change of a topic write the page again."""
    assert PAGE.read_text("utf-8") == flow.render(), "python -m rebalance_devtools.docs.flow docs/data-flow.md"


@pytest.mark.parametrize(
    "name", [each.name for each in (*topics.TOPICS, *topics.OPTIONAL_TOPICS)] + list(topics.Participant)
)
def test_the_picture_shows_every_topic_and_process(name: str):
    """Every entry of the table is in the picture."""
    assert re.search(rf"(?<![\w-]){name}(?![\w-])", flow.PICTURE)


def test_the_chains_below_the_picture_are_those_of_the_table():
    """A chain is `topics ─▶ process ─▶ topics`, then perhaps `─▶ readers`."""
    table = {each.name: each for each in (*topics.TOPICS, *topics.OPTIONAL_TOPICS)}
    chains = [each for line in flow.PICTURE.splitlines()[-2:] for each in re.split(r" {3,}", line)]
    assert len(chains) == 4
    for chain in chains:
        parts = [re.split(r", ", part) for part in re.split(r" (?:─|··)▶ ", chain)]
        (at, process), *_ = [(at, part[0]) for at, part in enumerate(parts) if part[0] in list(topics.Participant)]
        assert {name for name, topic in table.items() if process in topic.writers} == set(parts[at + 1])
        if at > 0 and set(parts[at - 1]) <= table.keys():
            assert {name for name, topic in table.items() if process in topic.readers} == set(parts[at - 1])
        for name in parts[at + 1] if len(parts) > at + 2 else ():
            assert set(table[name].readers) == set(parts[at + 2])


def test_the_lines_of_the_picture_meet():
    """A line that leaves a row of the picture downwards continues in the row below."""
    down, up = set("┬┐┌│├┤"), set("│┴└┘├┤┼▼┬▲▶◀")
    for above, below in pairwise(flow.PICTURE.splitlines()):
        for column, sign in enumerate(above):
            if sign in down:
                assert below[column : column + 1] in up, (above, column)


def test_every_fact_has_one_writer():
    """Only the status topic has several writers, each with its own keys."""
    assert {each.name for each in topics.TOPICS if len(each.writers) != 1} == {"status"}


def test_every_topic_is_read_by_somebody():
    """A topic without readers would be useless."""
    assert all(each.readers for each in topics.TOPICS)


def test_no_query_reads_what_a_later_one_writes():
    """Data flow in one direction. The status topic is an exception: queries read their owner and progress from it."""
    order = {query: at for at, query in enumerate(QUERIES)}
    for topic in (each for each in topics.TOPICS if each != topics.STATUS):
        for writer in order.keys() & set(topic.writers):
            readers = [order[reader] for reader in topic.readers if reader in order]
            assert all(order[writer] <= reader for reader in readers), topic.name


@pytest.mark.parametrize("topic", [*topics.TOPICS, *topics.OPTIONAL_TOPICS], ids=lambda each: each.name)
def test_what_a_writer_sends_is_taken(topic: topics.Topic):
    """The limit leaves room for key and headers, and for whole batches if librdkafka is the writer."""
    assert topic.max_message_bytes >= topic.max_row_bytes + 65_536
    assert topic.writers == ("activity",) or topic.max_message_bytes >= LIBRDKAFKA_BATCH_BYTES


def test_what_others_write_is_measured_unpacked():
    """A broker that does not recompress batches would accept a message that decompresses to gigabytes."""
    every = (*topics.TOPICS, *topics.OPTIONAL_TOPICS)
    unpacked = {each.name for each in every if each.settings.get("compression.type") == "uncompressed"}
    assert unpacked == {each.name for each in every if not set(each.writers) <= set(QUERIES)}


def test_all_sides_use_the_names_of_the_table():
    """Each topic has one name everywhere."""
    created = {each.full_name(PREFIX) for each in topics.TOPICS}
    stream, prober = StreamConfig(), ProbeConfig()
    assert set(own_topics(stream)) == created
    used = {getattr(each, name) for each in (stream, prober) for name in dir(each) if name.endswith("_topic")}
    assert used - {stream.source_topic} <= created
    assert {PREFIX + name for name in EXPORTED} <= created
    assert topics.CLIENT_METRICS.full_name(PREFIX) == DEFAULT_TOPIC
    assert {PREFIX.rstrip(".") + suffix for suffix in line_reader.OWN_SUFFIXES} <= created
