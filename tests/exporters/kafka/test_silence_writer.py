"""Silences on a real broker: one that was requested from one exporter holds in all, including later ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorized import AUTHORIZED
from exporters.contract_rows import SILENCE
from making_topics import create_topic
from rebalance_contract import topics
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.kafka.consumer import Source, TopicReader
from rebalance_exporters.kafka.silence_writer import SilenceWriter
from rebalance_exporters.state.view import SILENCES, TOPICS, View
from waiting import wait_for

pytestmark = pytest.mark.broker

PREFIX = "silences-test."


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give brokers a long time to answer."""
    for name, seconds in (("_DELIVERY_SECONDS", 60.0), ("_ASK_SECONDS", 15.0)):
        monkeypatch.setattr(f"rebalance_exporters.kafka.silence_writer.{name}", seconds)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def exporting(broker: EmbeddedKafka, prefix: str = PREFIX) -> Iterator[tuple[View, Callable[[], bool]]]:
    """An exporter's reader with its view, and whether it has read everything."""
    config = ExportConfig(kafka={"bootstrap.servers": broker.bootstrap}, topic_prefix=prefix)
    view = View(group_expiry_seconds=3600, keep_rebalances=0)
    reader = TopicReader(Source(config.kafka, config.topic_prefix), view, now_ms)
    reader.start()
    try:
        yield view, lambda: reader.progress.loaded
    finally:
        reader.stop()


def test_a_silence_of_one_is_a_silence_of_all(broker: EmbeddedKafka) -> None:
    """Two running exporters, and one that starts afterwards; ending one holds for all, too."""
    for name in TOPICS:
        create_topic(broker.bootstrap, PREFIX + name)
    writer = SilenceWriter({"bootstrap.servers": broker.bootstrap}, PREFIX + SILENCES)
    silence = replace(SILENCE, starts_at_ms=now_ms(), ends_at_ms=now_ms() + 600_000, created_at_ms=now_ms())
    ended = replace(silence, ends_at_ms=silence.starts_at_ms, expired_by="bob")
    key = (silence.cluster, silence.silence_id)
    with ExitStack() as stack:
        views = [stack.enter_context(exporting(broker))[0] for _ in range(2)]
        for reported in (silence, ended):
            writer.write(reported)
            for view in views:
                wait_for(
                    lambda view=view, reported=reported: view.fleet().silences.by_name.get(key) == reported,
                    str(reported),
                )
        late, is_loaded = stack.enter_context(exporting(broker))
        wait_for(is_loaded, "the late one to have read all")
        assert late.fleet().silences.by_name == {key: ended}


def test_an_exporter_does_without_the_topic(broker: EmbeddedKafka) -> None:
    """An older stream has not created it: everything else is shown, and the response to a silence says what to do."""
    prefix = "before-silences."
    for name in set(TOPICS) - {SILENCES}:
        create_topic(broker.bootstrap, prefix + name)
    with exporting(broker, prefix) as (_, is_loaded):
        wait_for(is_loaded, "all that is there")
    writer = SilenceWriter({"bootstrap.servers": broker.bootstrap}, prefix + topics.SILENCES.name)
    with pytest.raises(ExporterError, match="is missing: `rebalance-monitor stream` of this version creates it"):
        writer.write(SILENCE)


def test_whether_the_exporter_may_write_is_known_before(make_broker: Callable[..., EmbeddedKafka]) -> None:
    """For a writable topic, one without permission, and a missing one; the brokers are queried once."""
    broker = make_broker(**AUTHORIZED)
    for name in ("free", "guarded"):
        create_topic(broker.bootstrap, name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    allowed = [
        AclBinding(
            *(ResourceType.TOPIC, "guarded", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
            *(operation, AclPermissionType.ALLOW),
        )
        for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    ]
    for made in admin.create_acls(allowed).values():
        made.result(120)
    kafka = {"bootstrap.servers": broker.bootstrap}
    guarded = wait_for(lambda: SilenceWriter(kafka, "guarded").refusal(), "the right to be missing")
    assert guarded.startswith(
        "the exporter may not write to guarded; grant it: "
        "kafka-acls --bootstrap-server HOST:PORT --add --operation Write"
    )
    assert SilenceWriter(kafka, "free").refusal() is None
    writer = SilenceWriter(kafka, "missing")
    assert "is missing" in (writer.refusal() or "")
    broker.stop()
    assert "is missing" in (writer.refusal() or "")
    assert SilenceWriter(kafka, "free").refusal() is None


def test_brokers_that_are_away_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within some seconds, and the silence does not count as made."""
    monkeypatch.setattr("rebalance_exporters.kafka.silence_writer._DELIVERY_SECONDS", 0.5)
    with pytest.raises(ExporterError, match="could not be written"):
        SilenceWriter({"bootstrap.servers": "127.0.0.1:1"}, "t").write(SILENCE)
