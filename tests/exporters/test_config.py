from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rebalance_exporters.config import RESERVED_PROPERTIES, ExportConfig, FurtherCluster

LOCAL = {"bootstrap.servers": "localhost:9092"}


def test_defaults_need_only_the_brokers() -> None:
    """Only the brokers are required."""
    assert ExportConfig(kafka=LOCAL).validate() == []


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (ExportConfig(), "kafka.bootstrap.servers"),
        (ExportConfig(kafka={"bootstrap.servers": " "}), "kafka.bootstrap.servers"),
        (ExportConfig(kafka=LOCAL, listen_host=""), "export.listen_host"),
        (ExportConfig(kafka=LOCAL, listen_port=-1), "export.listen_port"),
        (ExportConfig(kafka=LOCAL, listen_port=65536), "export.listen_port"),
        (ExportConfig(kafka=LOCAL, stale_after_seconds=float("nan")), "export.stale_after_seconds is "),
        (ExportConfig(kafka=LOCAL, group_expiry_seconds=-5), "export.group_expiry_seconds is "),
        (ExportConfig(kafka=LOCAL, limit_groups=0), "export.limit_groups is "),
        (ExportConfig(kafka=LOCAL, limit_members_per_group=0), "export.limit_members_per_group is "),
        (ExportConfig(kafka=LOCAL, keep_rebalances=-1), "export.keep_rebalances is "),
        *[(ExportConfig(kafka={**LOCAL, name: "x"}), f"kafka.{name}") for name in RESERVED_PROPERTIES],
    ],
)
def test_a_problem_names_its_key(config: ExportConfig, named: str) -> None:
    """Each wrong setting gives exactly one sentence, which begins with its key."""
    (problem,) = config.validate()
    assert problem.startswith(named)


def test_all_problems_are_reported_at_once() -> None:
    """So that users need not fix one at a time."""
    config = ExportConfig(listen_port=99999, stale_after_seconds=-1, limit_groups=0)
    assert len(config.validate()) == 4


def test_a_port_of_zero_and_a_group_id_are_allowed() -> None:
    """Tests take any free port, and clusters with ACLs may prescribe the (unused) group id."""
    assert ExportConfig(kafka={**LOCAL, "group.id": "ours"}, listen_port=0).validate() == []


def test_further_clusters_differ_in_what_they_say() -> None:
    """Their clients use the exporter's own properties except the overridden ones, and credentials."""
    own = {**LOCAL, "security.protocol": "SSL"}
    config = ExportConfig(kafka=own, further_clusters=(FurtherCluster("west", {"bootstrap.servers": "w:1"}, "m."),))
    assert config.validate() == []
    assert list(config.each_cluster()) == [
        ("", own, "rebalance-monitor."),
        ("west", {"bootstrap.servers": "w:1", "security.protocol": "SSL"}, "m."),
    ]


#: The exporter's credentials.
MONITOR = {
    **LOCAL,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "east",
    "sasl.password": "secret",
}


def west(**changes: Any) -> FurtherCluster:
    """A further cluster at w:1."""
    kafka = {"bootstrap.servers": "w:1", **changes.pop("kafka", {})}
    return FurtherCluster("west", kafka, **changes)


def properties_of(cluster: FurtherCluster, kafka: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties of its client."""
    config = ExportConfig(kafka=kafka, further_clusters=(cluster,))
    assert config.validate() == []
    _, (_, properties, _) = config.each_cluster()
    return properties


def test_credentials_go_to_no_other_brokers_unasked() -> None:
    """A PLAIN password would be sent to brokers of another cluster; missing credentials are an error."""
    (problem,) = ExportConfig(kafka=MONITOR, further_clusters=(west(),)).validate()
    assert "'west': the credentials of [kafka] are not sent to its brokers unasked" in problem
    assert properties_of(west(same_credentials=True), MONITOR) == {**MONITOR, "bootstrap.servers": "w:1"}
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "w", "sasl.password": "other"}
    assert properties_of(west(kafka=login), MONITOR) == {
        "bootstrap.servers": "w:1",
        "security.protocol": "SASL_SSL",
        **login,
    }


def test_a_cluster_without_a_login_needs_none() -> None:
    """Without TLS, or if brokers request no certificate."""
    plain = {"security.protocol": "PLAINTEXT"}
    assert properties_of(west(kafka=plain), MONITOR) == {"bootstrap.servers": "w:1", **plain}
    tls = {"security.protocol": "SSL"}
    assert properties_of(west(kafka=tls, same_credentials=False), MONITOR) == {"bootstrap.servers": "w:1", **tls}


def test_a_login_that_lacks_a_part_takes_none_over() -> None:
    """A user name with the password of another one is useless."""
    (problem,) = ExportConfig(kafka=MONITOR, further_clusters=(west(kafka={"sasl.username": "w"}),)).validate()
    assert "'west': kafka.sasl.mechanism is missing" in problem


@pytest.mark.parametrize(
    "name", ["sasl.username", "librdkafka.oauth_cb", "java.sasl.jaas.config", "ssl.key.pem", "ssl.certificate.location"]
)
def test_what_a_credential_is(name: str) -> None:
    """With the names of either client."""
    common = {"client.id": "m", "ssl.ca.location": "ca.pem", name: "x"}
    assert west().properties(common) == {"bootstrap.servers": "w:1", "client.id": "m", "ssl.ca.location": "ca.pem"}


def test_passwords_of_further_clusters_come_from_files(tmp_path: Path) -> None:
    """As for the first cluster, so that the settings file may be readable by many. The line end is stripped."""
    file = tmp_path / "password"
    file.write_text("of west\n")
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "w"}
    cluster = west(kafka=login, kafka_files={"sasl.password": str(file)})
    assert properties_of(cluster, MONITOR)["sasl.password"] == "of west"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the property it is for; a property that is given twice is reported as well."""
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "w"}
    missing = west(kafka=login, kafka_files={"sasl.password": str(tmp_path / "none")})
    (problem,) = ExportConfig(kafka=MONITOR, further_clusters=(missing,)).validate()
    assert f"kafka_files names {tmp_path / 'none'} for sasl.password, which cannot be read (No such file" in problem
    odd = tmp_path / "odd"
    odd.write_bytes(b"\xff")
    (problem,) = ExportConfig(
        kafka=MONITOR, further_clusters=(west(kafka_files={"sasl.password": str(odd)}),)
    ).validate()
    assert "(it is not UTF-8)" in problem
    twice = west(kafka={**login, "sasl.password": "x"}, kafka_files={"sasl.password": str(odd)})
    (problem,) = ExportConfig(kafka=MONITOR, further_clusters=(twice,)).validate()
    assert "sasl.password stands in kafka and in kafka_files" in problem


@pytest.mark.parametrize(
    ("further", "reported"),
    [
        ((FurtherCluster("", LOCAL),), "'' is no name of a cluster"),
        ((FurtherCluster("a/b", LOCAL),), "'a/b' is no name of a cluster"),
        ((FurtherCluster("w", {}),), "'w': name its brokers"),
        ((FurtherCluster("w", LOCAL), FurtherCluster("w", LOCAL)), "names 'w' twice"),
        ((FurtherCluster("w", {**LOCAL, "enable.auto.commit": "x"}),), "kafka.enable.auto.commit"),
    ],
)
def test_what_no_further_cluster_may_be(further: tuple[FurtherCluster, ...], reported: str) -> None:
    """One sentence each, as for other settings."""
    (problem,) = ExportConfig(kafka=LOCAL, further_clusters=further).validate()
    assert problem.startswith("export.further_clusters")
    assert reported in problem
