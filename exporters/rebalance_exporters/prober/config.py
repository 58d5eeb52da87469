"""Settings of the prober: one frozen dataclass, defaults beside the fields, all problems reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalance_contract import topics
from rebalance_contract.settings import (
    HEALTH_TEXT,
    READS_LOG,
    READS_LOG_TEXT,
    WEB_CONFIG_TEXT,
    cluster_problems,
    listen_problems,
    setting,
    table,
)
from rebalance_exporters.config import kafka_problems
from rebalance_kafka.properties import MECHANISMS, librdkafka_view

_SLOWEST_PERIOD_SECONDS = 5.0
_MECHANISMS = (*MECHANISMS, "GSSAPI")


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """All settings of `rebalance-monitor probe`."""

    kafka: Mapping[str, str] = table("Client properties under librdkafka's names; `bootstrap.servers` is required.")
    cluster: str = setting("default", "Same as the stream's.")
    topic_prefix: str = setting("rebalance-monitor.", "Same as the stream's.")
    reads_log: bool = setting(READS_LOG, READS_LOG_TEXT)
    period_seconds: float = setting(
        2.0,
        "Interval at which unstable groups are listed. The start of a classic rebalance is known to within this time.",
    )
    full_list_seconds: float = setting(30.0, "Interval at which all groups are listed.")
    offsets_seconds: float = setting(5.0, "Interval at which end offsets are fetched.")
    starts_seconds: float = setting(
        30.0,
        "Interval at which the start offsets of partitions are fetched, to find records that were deleted before they "
        "were read.",
    )
    zookeeper: str = setting(
        "", "`host:port[,host:port…][/chroot]` of the ensemble of ZooKeeper-based consumer groups. Empty: none."
    )
    listen_host: str = setting(
        "0.0.0.0",  # noqa: S104  Prometheus scrapes from another machine
        "Address on which the prober serves its own endpoints.",
    )
    listen_port: int = setting(
        9643, "Port of `/-/healthy`, `/-/ready` and the prober's own `/metrics`; 0 picks a free port."
    )
    web_config_file: str = setting("", WEB_CONFIG_TEXT)
    health_without_password: bool = setting(False, HEALTH_TEXT)
    topic_replication_factor: int = setting(
        -1, "Replication factor of the probes topic if the prober creates it; -1 uses the broker's default."
    )

    @property
    def probes_topic(self) -> str:
        """Topic of probes; written."""
        return topics.PROBES.full_name(self.topic_prefix)

    @property
    def groups_topic(self) -> str:
        """Compacted topic of group snapshots; read."""
        return topics.GROUPS.full_name(self.topic_prefix)

    @property
    def lag_topic(self) -> str:
        """Compacted topic of lag; read for the topics of all groups that ever committed."""
        return topics.LAG.full_name(self.topic_prefix)

    @property
    def activity_topic(self) -> str:
        """Topic of new commits; read."""
        return topics.ACTIVITY.full_name(self.topic_prefix)

    def validate(self) -> list[str]:
        """Return every problem, each as one sentence that names the key; empty if the settings are valid."""
        clients = [*kafka_problems(self.kafka, "prober"), *_kafka_python_problems(self.kafka)]
        return [
            *clients,
            *cluster_problems(self.cluster),
            *listen_problems("probe", self.listen_host, self.listen_port),
            *self._time_problems(),
        ]

    def _time_problems(self) -> list[str]:
        problems = [
            f"probe.{name} is {getattr(self, name)}: it must be greater than 0"
            for name in ("full_list_seconds", "offsets_seconds", "starts_seconds")
            if not getattr(self, name) > 0
        ]
        if not 0 < self.period_seconds <= _SLOWEST_PERIOD_SECONDS:
            problems.append(
                f"probe.period_seconds is {self.period_seconds}: it must be greater than 0 and at most "
                f"{_SLOWEST_PERIOD_SECONDS:g}, or short rebalances are missed"
            )
        return problems


def _kafka_python_problems(kafka: Mapping[str, str]) -> list[str]:
    """Return the problems with settings that kafka-python does not support, beside those of any client."""
    view = librdkafka_view(kafka)
    mechanism = view.get("sasl.mechanism", "PLAIN")
    if mechanism not in _MECHANISMS:
        return [f"kafka.sasl.mechanism {mechanism} cannot be used here: use one of {', '.join(_MECHANISMS)}"]
    grant = view.get("sasl.oauthbearer.grant.type", "client_credentials")
    if mechanism == "OAUTHBEARER" and grant != "client_credentials" and "oauth_cb" not in view:
        return [
            f"kafka.sasl.oauthbearer.grant.type {grant} is nothing the prober can do: use client_credentials, or name "
            "a function that fetches tokens with oauth_cb under [kafka.librdkafka]"
        ]
    return []
