"""Settings of the exporter: one frozen dataclass with defaults; all problems are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rebalance_contract.settings import (
    HEALTH_TEXT,
    WEB_CONFIG_TEXT,
    bootstrap_problems,
    listen_problems,
    setting,
    table,
)
from rebalance_exporters.errors import ExporterError
from rebalance_kafka.checks import librdkafka_problems
from rebalance_kafka.properties import JAVA, LIBRDKAFKA, librdkafka_view

#: Client properties that exporter and prober set themselves: other values would make them wrong or leave traces.
RESERVED_PROPERTIES = ("auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof")

#: Prefixes of the client properties that are credentials.
_CREDENTIALS = ("sasl.", "enable.sasl.", "oauth_cb", "ssl.key", "ssl.certificate.")


@dataclass(frozen=True, slots=True)
class FurtherCluster:
    """A cluster that an exporter shows in addition to that of `kafka`; it has its own stream and prober.

    `cluster` is its name, as in the settings of its stream and prober. `kafka` are the client properties that differ
    from the exporter's own; `kafka_files` names files with the values of further ones. The exporter's credentials are
    used if `same_credentials` is true; null: they are not, and it is an error if the cluster has none of its own.
    `topic_prefix` is that of the monitor's topics there.
    """

    cluster: str
    kafka: Mapping[str, str]
    topic_prefix: str = "rebalance-monitor."
    kafka_files: Mapping[str, str] = field(default_factory=dict)
    same_credentials: bool | None = None

    def properties(self, common: Mapping[str, str]) -> Mapping[str, str]:
        """Return all client properties, including those from `common`. Raises ExporterError for an unreadable file."""
        inherited = {name: value for name, value in common.items() if self.same_credentials or not _is_credential(name)}
        read = {name: self._read(name, path) for name, path in self.kafka_files.items()}
        return {**inherited, **self.kafka, **read}

    def problems(self, common: Mapping[str, str]) -> list[str]:
        """Return the problems of its settings, as sentences without its name."""
        if "bootstrap.servers" not in self.kafka:
            return ["name its brokers (kafka, bootstrap.servers)"]
        if twice := sorted(self.kafka.keys() & self.kafka_files.keys()):
            return [f"{twice[0]} stands in kafka and in kafka_files: leave one out"]
        try:
            properties = self.properties(common)
        except ExporterError as error:
            return [str(error)]
        own = {*self.kafka, *self.kafka_files}
        is_plain = librdkafka_view(properties).get("security.protocol", "PLAINTEXT") == "PLAINTEXT"
        if (
            self.same_credentials is None
            and not is_plain
            and any(map(_is_credential, common))
            and not any(map(_is_credential, own))
        ):
            return [
                "the credentials of [kafka] are not sent to its brokers unasked: name its own (kafka, kafka_files), or "
                "set same_credentials to true, or to false if it needs none"
            ]
        return kafka_problems(properties, "exporter")

    def _read(self, name: str, path: str) -> str:
        try:
            return Path(path).read_text("utf-8").strip()
        except OSError as error:
            reason = str(error.strerror)
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
        raise ExporterError(f"kafka_files names {path} for {name}, which cannot be read ({reason})")


def _is_credential(name: str) -> bool:
    return name.removeprefix(LIBRDKAFKA).removeprefix(JAVA).startswith(_CREDENTIALS)


@dataclass(frozen=True, slots=True)
class ExportConfig:
    """All settings of `rebalance-monitor export`."""

    kafka: Mapping[str, str] = table(
        "Client properties under librdkafka's names; `bootstrap.servers` is required. `group.id` may be set "
        "where ACLs ask for a certain name; no group is ever joined and no offset committed under it."
    )
    listen_host: str = setting(
        "0.0.0.0",  # noqa: S104  Prometheus scrapes from another machine
        "Address on which HTTP is served; all interfaces by default.",
    )
    listen_port: int = setting(9642, "HTTP port; 0 picks a free port.")
    topic_prefix: str = setting(
        "rebalance-monitor.", "Prefix of the names of the monitor's topics (`groups`, `rebalances` and so on)."
    )
    further_clusters: tuple[FurtherCluster, ...] = setting(
        (),
        "Clusters that are shown in addition to that of `[kafka]`: tables of `cluster` (its name), `kafka` (client "
        "properties that differ), `kafka_files` (files with the values of further properties) and `topic_prefix`. "
        "Credentials in `[kafka]` (`sasl.…`, client certificates and keys) are used for such a cluster only if "
        "`same_credentials` is true. Rows read from a cluster count for that cluster only.",
    )
    stale_after_seconds: float = setting(
        30.0,
        "After this time without rows from the stream the exporter is not ready, and lag and windows are not exported.",
    )
    group_expiry_seconds: float = setting(3600.0, "Time after the deletion of a group at which its series disappear.")
    limit_groups: int = setting(
        10_000, "Maximum number of groups with series. The groups known longest are kept; the others are counted."
    )
    limit_members_per_group: int = setting(
        100, "Maximum number of members per group with series, if `collect_members` is true."
    )
    keep_rebalances: int = setting(
        20_000,
        "Number of most recent rebalances, over all groups, that the API and `report` can show. 1,000 rebalances of "
        "groups with a few members take 2 to 4 MB of memory.",
    )
    collect_partitions: bool = setting(False, "Export lag per partition too.")
    collect_members: bool = setting(False, "Export heartbeat and poll series per member, for clients that report.")
    owners_file: str = setting(
        "",
        "TOML or YAML file that maps groups to the teams that own them. It is reloaded when it changes, and on SIGHUP. "
        "Empty: none.",
    )
    web_config_file: str = setting("", WEB_CONFIG_TEXT)
    health_without_password: bool = setting(False, HEALTH_TEXT)

    def validate(self) -> list[str]:
        """Return all problems, each as one sentence that names the key; empty if there are none."""
        return [
            *kafka_problems(self.kafka, "exporter"),
            *self._cluster_problems(),
            *listen_problems("export", self.listen_host, self.listen_port),
            *self._limit_problems(),
        ]

    def each_cluster(self) -> Iterator[tuple[str, Mapping[str, str], str]]:
        """Yield (name, client properties, topic prefix) of what is read; the first has no name and covers all others.

        Raises ExporterError if a file of client properties cannot be read.
        """
        yield "", self.kafka, self.topic_prefix
        for each in self.further_clusters:
            yield each.cluster, each.properties(self.kafka), each.topic_prefix

    def _cluster_problems(self) -> list[str]:
        names = [each.cluster for each in self.further_clusters]
        problems = [f"export.further_clusters names {name!r} twice" for name in names if names.count(name) > 1][:1]
        for each in self.further_clusters:
            if not each.cluster or "/" in each.cluster:
                problems.append(f"export.further_clusters: {each.cluster!r} is no name of a cluster")
            problems += [f"export.further_clusters, {each.cluster!r}: {text}" for text in each.problems(self.kafka)]
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
    """Return the problems of the client properties of a process that reads topics without a group."""
    reserved = [
        f"kafka.{name} is set by the {process} itself: leave it out"
        for name in RESERVED_PROPERTIES
        if name in librdkafka_view(kafka)
    ]
    return [*bootstrap_problems(kafka), *reserved, *librdkafka_problems(kafka)]
