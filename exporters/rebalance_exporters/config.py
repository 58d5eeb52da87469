"""Settings of the exporter: one frozen dataclass, defaults beside the fields, all problems reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rebalance_contract.settings import (
    HEALTH_TEXT,
    WEB_CONFIG_TEXT,
    bootstrap_problems,
    listen_problems,
    setting,
    table,
)
from rebalance_kafka.checks import librdkafka_problems
from rebalance_kafka.properties import librdkafka_view

#: Client properties that exporter and prober set themselves, because another value would make it wrong or leave traces.
RESERVED_PROPERTIES = ("auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof")


@dataclass(frozen=True, slots=True)
class FurtherCluster:
    """A cluster that an exporter shows beside that of `kafka`; its own stream and prober watch it.

    `cluster` is its name, as those two have it in their settings. `kafka` are the client properties that differ from
    the exporter's own; `topic_prefix` is that of the monitor's topics there.
    """

    cluster: str
    kafka: Mapping[str, str]
    topic_prefix: str = "rebalance-monitor."


@dataclass(frozen=True, slots=True)
class ExportConfig:
    """All settings of `rebalance-monitor export`."""

    kafka: Mapping[str, str] = table(
        "Client properties under librdkafka's names; `bootstrap.servers` is required. `group.id` may be set "
        "where ACLs ask for a certain name; no group is ever joined and no offset committed under it."
    )
    listen_host: str = setting(
        "0.0.0.0",  # noqa: S104  Prometheus scrapes from another machine
        "Where HTTP is served; every interface by default, as exporters do.",
    )
    listen_port: int = setting(9642, "Port of HTTP; 0 takes any free one.")
    topic_prefix: str = setting(
        "rebalance-monitor.", "What stands before `groups`, `rebalances` and the other names of the monitor's topics."
    )
    further_clusters: tuple[FurtherCluster, ...] = setting(
        (),
        "Clusters that are shown beside the one of `kafka`, each with its name (`cluster`), the client properties that "
        "differ (`kafka`) and its `topic_prefix`. What is read there is taken for that cluster only.",
    )
    stale_after_seconds: float = setting(
        30.0, "Without news from the stream for that long, readiness says so, and lag and windows are no longer shown."
    )
    group_expiry_seconds: float = setting(3600.0, "A deleted group's series vanish that long after the deletion.")
    limit_groups: int = setting(
        10_000, "The most groups that get series; those known longest stay, and the rest is counted."
    )
    limit_members_per_group: int = setting(
        100, "The most members of a group that get series, where `collect_members` is on."
    )
    keep_rebalances: int = setting(
        20_000,
        "How many of the latest rebalances the API can show, over all groups; `report` reaches back as far. 1,000 of "
        "groups with a few members take 2 to 4 MB.",
    )
    collect_partitions: bool = setting(False, "A lag series per partition too.")
    collect_members: bool = setting(False, "Heartbeat and poll series per member, where clients report.")
    owners_file: str = setting(
        "",
        "Which team owns which group, a TOML or YAML file of patterns; read again when it changes, and at SIGHUP. "
        "Empty: none.",
    )
    web_config_file: str = setting("", WEB_CONFIG_TEXT)
    health_without_password: bool = setting(False, HEALTH_TEXT)

    def validate(self) -> list[str]:
        """Return every problem found, each as one sentence that names the key; empty when all is well."""
        return [
            *kafka_problems(self.kafka, "exporter"),
            *self._cluster_problems(),
            *listen_problems("export", self.listen_host, self.listen_port),
            *self._limit_problems(),
        ]

    def each_cluster(self) -> Iterator[tuple[str, Mapping[str, str], str]]:
        """Yield (name, client properties, topic prefix) of what is read; the first has no name: whatever is there."""
        yield "", self.kafka, self.topic_prefix
        for each in self.further_clusters:
            yield each.cluster, {**self.kafka, **each.kafka}, each.topic_prefix

    def _cluster_problems(self) -> list[str]:
        names = [each.cluster for each in self.further_clusters]
        problems = [f"export.further_clusters names {name!r} twice" for name in names if names.count(name) > 1][:1]
        for each in self.further_clusters:
            if not each.cluster or "/" in each.cluster:
                problems.append(f"export.further_clusters: {each.cluster!r} is no name of a cluster")
            if "bootstrap.servers" not in each.kafka:
                problems.append(f"export.further_clusters: name the brokers of {each.cluster!r} (bootstrap.servers)")
            problems += [
                f"export.further_clusters, {each.cluster!r}: {text}"
                for text in kafka_problems({**self.kafka, **each.kafka}, "exporter")
            ]
        return problems

    def _limit_problems(self) -> list[str]:
        positive = (
            "stale_after_seconds",
            "group_expiry_seconds",
            "limit_groups",
            "limit_members_per_group",
        )
        problems = [
            f"export.{name} is {getattr(self, name)}: it must be greater than 0"
            for name in positive
            if not getattr(self, name) > 0
        ]
        if self.keep_rebalances < 0:
            problems.append(f"export.keep_rebalances is {self.keep_rebalances}: it must be 0 (keep none) or more")
        return problems


def kafka_problems(kafka: Mapping[str, str], process: str) -> list[str]:
    """Return what is wrong with the client properties of a process that reads topics without a group."""
    reserved = [
        f"kafka.{name} is set by the {process} itself: leave it out"
        for name in RESERVED_PROPERTIES
        if name in librdkafka_view(kafka)
    ]
    return [*bootstrap_problems(kafka), *reserved, *librdkafka_problems(kafka)]
