"""Topics of broker logs are only read if a setting names them."""

import pytest

from rebalance_contract.topics import BROKER_LOGS
from rebalance_streaming.brokers.cluster import own_topics
from rebalance_streaming.config import BrokerLogTopic, StreamConfig
from rebalance_streaming.spark.inputs import inputs_of

OWN = "rebalance-monitor.broker-logs"


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
        (BrokerLogTopic("rebalance-monitor.client-metrics"), "which is read as something else already"),
        (BrokerLogTopic("__consumer_offsets"), "which is read as something else already"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(topic: BrokerLogTopic, said: str):
    """With the name of the setting."""
    config = StreamConfig(kafka={"bootstrap.servers": "b:1"}, broker_log_topics=(topic,))
    (problem,) = config.validate()
    assert problem.startswith("stream.broker_log_topics ")
    assert said in problem
