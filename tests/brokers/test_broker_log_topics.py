"""Topics of broker logs are only read if a setting names them."""

import pytest

from rebalance_contract.topics import BROKER_LOGS, CLIENT_METRICS, TOPICS
from rebalance_streaming.brokers.cluster import own_topics
from rebalance_streaming.config import BrokerLogTopic, MetricTopic, StreamConfig
from rebalance_streaming.spark.inputs import inputs_of

OWN = "rebalance-monitor.broker-logs"
ALL_OWN = [each.full_name("rebalance-monitor.") for each in TOPICS]


def test_without_the_setting_nothing_is_read_or_made():
    """No topic is created, and no additional partition is read."""
    config = StreamConfig()
    assert OWN not in own_topics(config)
    assert inputs_of(config)["activity"] == (config.source_topic, config.probes_topic, config.metrics_topic)


def test_a_topic_that_is_named_is_an_input():
    """The monitor's own is created with the settings in the table; others are managed by their owner."""
    config = StreamConfig(broker_log_topics=(OWN, BrokerLogTopic("logs", "Europe/Berlin")))
    assert own_topics(config)[OWN] == BROKER_LOGS
    assert "logs" not in own_topics(config)
    assert inputs_of(config)["activity"][-2:] == (OWN, "logs")
    assert [each.time_zone for each in config.all_broker_log_topics] == ["UTC", "Europe/Berlin"]


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (BrokerLogTopic("logs", "CEST5"), "has the time zone 'CEST5' for logs, which is none"),
        (BrokerLogTopic("__consumer_offsets"), "names __consumer_offsets, which is the watched log: take it out"),
        (BrokerLogTopic("further"), "names further, which stream.metric_topics names, too: take it out of one of them"),
        *((BrokerLogTopic(name), f"names {name}, which is a topic of the monitor: take it out") for name in ALL_OWN),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(topic: BrokerLogTopic, said: str):
    """With the name of the setting."""
    config = StreamConfig(kafka={"bootstrap.servers": "b:1"}, broker_log_topics=(topic,), metric_topics=("further",))
    (problem,) = config.validate()
    assert problem.startswith("stream.broker_log_topics ")
    assert said in problem


def test_client_metrics_are_not_read_from_the_log_or_own_topics():
    """A row written for each batch would be read again, without end; the topic of client metrics may have a format."""
    own = [each.full_name("own.") for each in TOPICS if each != CLIENT_METRICS]
    for name in ("log", "own.broker-logs", *own):
        config = StreamConfig(
            kafka={"bootstrap.servers": "b:1"}, topic_prefix="own.", source_topic="log", metric_topics=("a", name)
        )
        (problem,) = config.validate()
        assert problem.startswith(f"stream.metric_topics names {name}, which is ")
        assert problem.endswith(": take it out, and name only topics to which clients write")
    named = MetricTopic("own.client-metrics", "otlp")
    config = StreamConfig(kafka={"bootstrap.servers": "b:1"}, topic_prefix="own.", metric_topics=("a", named))
    assert config.validate() == []
