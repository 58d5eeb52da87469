import pytest

from rebalance_exporters.config import RESERVED_PROPERTIES, ExportConfig, FurtherCluster

LOCAL = {"bootstrap.servers": "localhost:9092"}


def test_defaults_need_only_the_brokers() -> None:
    """Whoever names the brokers can start."""
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
    """Each wrong setting gives exactly one sentence, which begins with the key to change."""
    (problem,) = config.validate()
    assert problem.startswith(named)


def test_all_problems_are_reported_at_once() -> None:
    """Nobody repairs a configuration one start at a time."""
    config = ExportConfig(listen_port=99999, stale_after_seconds=-1, limit_groups=0)
    assert len(config.validate()) == 4


def test_a_port_of_zero_and_a_group_id_are_allowed() -> None:
    """Tests take any free port, and clusters with ACLs prescribe the name of the (unused) group."""
    assert ExportConfig(kafka={**LOCAL, "group.id": "ours"}, listen_port=0).validate() == []


def test_further_clusters_differ_in_what_they_say() -> None:
    """Their clients have the exporter's own properties but for those that are named: security need not be repeated."""
    own = {**LOCAL, "security.protocol": "SSL"}
    config = ExportConfig(kafka=own, further_clusters=(FurtherCluster("west", {"bootstrap.servers": "w:1"}, "m."),))
    assert config.validate() == []
    assert list(config.each_cluster()) == [
        ("", own, "rebalance-monitor."),
        ("west", {"bootstrap.servers": "w:1", "security.protocol": "SSL"}, "m."),
    ]


@pytest.mark.parametrize(
    ("further", "told"),
    [
        ((FurtherCluster("", LOCAL),), "'' is no name of a cluster"),
        ((FurtherCluster("a/b", LOCAL),), "'a/b' is no name of a cluster"),
        ((FurtherCluster("w", {}),), "name the brokers of 'w'"),
        ((FurtherCluster("w", LOCAL), FurtherCluster("w", LOCAL)), "names 'w' twice"),
        ((FurtherCluster("w", {**LOCAL, "enable.auto.commit": "x"}),), "kafka.enable.auto.commit"),
    ],
)
def test_what_no_further_cluster_may_be(further: tuple[FurtherCluster, ...], told: str) -> None:
    """One sentence each, as of other settings."""
    (problem,) = ExportConfig(kafka=LOCAL, further_clusters=further).validate()
    assert problem.startswith("export.further_clusters")
    assert told in problem
