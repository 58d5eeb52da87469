import pytest

from rebalance_exporters.config import RESERVED_PROPERTIES, ExportConfig

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
        (ExportConfig(kafka=LOCAL, stale_after_seconds=float("nan")), "stale_after_seconds"),
        (ExportConfig(kafka=LOCAL, group_expiry_seconds=-5), "group_expiry_seconds"),
        (ExportConfig(kafka=LOCAL, limit_groups=0), "limit_groups"),
        (ExportConfig(kafka=LOCAL, limit_members_per_group=0), "limit_members_per_group"),
        (ExportConfig(kafka=LOCAL, keep_rebalances=-1), "keep_rebalances"),
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
