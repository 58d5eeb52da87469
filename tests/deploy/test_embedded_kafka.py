"""Embedded brokers: their files before the start, and how real ones start, restart and stop."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from making_topics import create_topic
from rebalance_deploy import ports as ports_module
from rebalance_deploy.embedded import DEFAULT_VERSION, VERSIONS
from rebalance_deploy.embedded import kafka as kafka_module
from rebalance_deploy.embedded.kafka import SHORT_SESSION, EmbeddedKafka, render_properties
from rebalance_deploy.embedded.server import JavaServer, reason_line
from rebalance_deploy.errors import UserError
from rebalance_deploy.ports import find_free_port, find_free_ports, is_free
from rebalance_devtools.stories.stage import find_coordinator
from waiting import is_alive, wait_for

MakeBroker = Callable[..., EmbeddedKafka]


def parse(properties: str) -> dict[str, str]:
    """Return the settings of a rendered server.properties."""
    return dict(line.split("=", 1) for line in properties.splitlines())


# --- without a broker ---


def test_settings_go_over_defaults_but_not_over_ports_and_data() -> None:
    """A caller may override any default except the addresses and the data directory."""
    wanted = {"offsets.topic.num.partitions": "4", "auto.create.topics.enable": "true", "log.dirs": "/elsewhere"}
    settings = parse(render_properties(1, 1, 2, Path("/data"), wanted))
    assert settings["offsets.topic.num.partitions"] == "4"
    assert settings["auto.create.topics.enable"] == "true"
    assert settings["log.dirs"] == "/data"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"


def test_broker_listens_on_this_machine_only() -> None:
    """The demo cannot be reached from the network."""
    settings = parse(render_properties(1, 1, 2, Path("/data"), {}))
    for name in ("listeners", "advertised.listeners"):
        assert all("//127.0.0.1:" in listener for listener in settings[name].split(","))


def test_broker_1_controls_the_others() -> None:
    """All have the same controller, each its own id and port; a caller cannot change ids and roles."""
    first, second = (
        parse(render_properties(node, 10 + node, 2, Path("/data"), {"node.id": "9", "process.roles": "controller"}))
        for node in (1, 2)
    )
    assert first["controller.quorum.voters"] == second["controller.quorum.voters"] == "1@127.0.0.1:2"
    assert (first["node.id"], first["process.roles"]) == ("1", "broker,controller")
    assert (second["node.id"], second["process.roles"]) == ("2", "broker")
    assert second["listeners"] == second["advertised.listeners"] == "PLAINTEXT://127.0.0.1:12"


def test_every_internal_topic_fits_one_broker() -> None:
    """All replication factors are 1; a topic with more could not be created."""
    settings = parse(render_properties(1, 1, 2, Path("/data"), {}))
    factors = {name: value for name, value in settings.items() if name.endswith(("replication.factor", "min.isr"))}
    assert len(factors) == 5
    assert set(factors.values()) == {"1"}


def test_free_ports_are_below_the_kernels_own() -> None:
    """An outgoing connection cannot take a broker's port while the broker is down."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert find_free_port() < first


def test_ports_chosen_together_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """No port is bound yet, so the same one could be found twice; too few free ports are an error."""
    assert len(set(find_free_ports(100))) == 100
    monkeypatch.setattr(ports_module, "_PORTS", range(20_000, 20_200))
    monkeypatch.setattr(ports_module, "is_free", lambda port: port < 20_003)
    assert set(find_free_ports(3)) == {20_000, 20_001, 20_002}
    with pytest.raises(UserError, match="no free port between 20000 and 20199"):
        find_free_ports(4)


def test_no_port_is_given_twice_while_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may be bound only later, as by a broker with a test's own listeners."""
    monkeypatch.setattr(ports_module, "_PORTS", range(20_000, 20_200))
    monkeypatch.setattr(ports_module, "is_free", lambda port: port < 20_100)
    monkeypatch.setattr(ports_module, "_given", set[int]())
    assert len({find_free_port() for _ in range(100)}) == 100


def test_the_last_cause_is_the_reason(tmp_path: Path) -> None:
    """The root cause of a stack trace is shown; without one, the last line; without a log, a sentence that says so."""
    log = tmp_path / "log"
    assert reason_line(log) == "it wrote no log"
    log.write_text("INFO starting\n")
    assert reason_line(log) == "INFO starting"
    log.write_text("ERROR failed\nCaused by: java.net.BindException: taken\n\tat here\nINFO closing\n")
    assert reason_line(log) == "Caused by: java.net.BindException: taken"


def test_unknown_version_names_the_known_ones() -> None:
    """The error for an unpinned version lists the pinned ones."""
    with pytest.raises(UserError, match=r"Kafka 2.8.0 cannot be embedded: choose one of 4.3.1, 3.9.2"):
        EmbeddedKafka(kafka_version="2.8.0")


def test_taken_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is in use is reported before anything is started, so that no other server is used by mistake."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(kafka_module, "find_free_ports", lambda count: [port + 1, port][:count])
        broker = EmbeddedKafka()
        with pytest.raises(UserError, match=f"port {port} is in use"):
            broker.__enter__()
    assert not broker.directory.exists()


# --- with a real one ---


def write(bootstrap: str, topic: str, value: bytes) -> None:
    """Write one record to partition 0."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value, partition=0)
    assert producer.flush(120) == 0


def read_first(bootstrap: str, topic: str) -> bytes | None:
    """Return the value of the first record of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def read() -> Message | None:
            # A broker that has just started may not lead the partition yet, which is returned as an error.
            message = consumer.poll(1)
            return message if message is not None and message.error() is None else None

        message = wait_for(read, f"the first record of {topic}")
        assert message is not None
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()


@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_broker_serves_and_stops(make_broker: MakeBroker, version: str) -> None:
    """Both versions start, log to their file, keep port and records over a restart, and stop completely."""
    broker = make_broker(kafka_version=version)
    assert f"Kafka version: {version}" in broker.log_path.read_text()
    address, first_pids = broker.bootstrap, broker.pids
    create_topic(address, "kept")
    write(address, "kept", b"before")
    broker.restart()
    assert broker.bootstrap == address
    assert broker.pids != first_pids
    assert read_first(address, "kept") == b"before"
    (last_pid,) = broker.pids
    broker.stop()
    assert not is_alive(last_pid)
    assert not broker.is_running
    assert broker.directory.exists()
    broker.close()
    assert not broker.directory.exists()


@pytest.mark.broker
def test_data_outlive_a_crash_and_the_broker(tmp_path: Path) -> None:
    """An unclean shutdown loses neither the port nor acknowledged records; a given directory is kept."""
    with EmbeddedKafka(tmp_path / "kafka", config=SHORT_SESSION) as broker:
        address = broker.bootstrap
        create_topic(address, "kept")
        write(address, "kept", b"before")
        broker.kill()
        assert not broker.is_running
        broker.start()
        assert (broker.bootstrap, read_first(address, "kept")) == (address, b"before")
    with EmbeddedKafka(tmp_path / "kafka") as again:
        assert read_first(again.bootstrap, "kept") == b"before"


@pytest.mark.broker
def test_a_second_start_finds_the_classes_of_the_first(tmp_path: Path) -> None:
    """The class data archive that a JVM writes at its exit is used by the next start."""
    loaded = []
    for number in range(2):
        server = JavaServer(
            "a tool",
            tmp_path / f"{number}" / "tool.log",
            jar_set=f"broker-{DEFAULT_VERSION}",
            jvm_options=("-Xlog:class+load:file=classes.txt",),
            archives=tmp_path / "archives",
        )
        server.start("kafka.tools.StorageTool", "random-uuid")
        wait_for(lambda: not server.is_running, server.log_path.read_text)  # noqa: B023
        server.stop(0)
        assert "[warning]" not in server.log_path.read_text()
        loaded.append((tmp_path / f"{number}" / "classes.txt").read_text())
    (archive,) = (tmp_path / "archives").iterdir()
    assert archive.suffix == ".jsa"
    assert ["shared objects file (top)" in each for each in loaded] == [False, True]
    assert not (tmp_path / "1" / "classes.jsa").exists()


@pytest.mark.broker
def test_what_a_killed_jvm_has_written_is_not_kept(tmp_path: Path) -> None:
    """It may be an incomplete archive, which would prevent a complete one."""
    # So the JVM is suspended until the file is removed.
    paused = f"-XX:PauseAtStartupFile={tmp_path / 'paused'}"
    log, archives = tmp_path / "tool.log", tmp_path / "archives"
    server = JavaServer(
        "a tool",
        log,
        jar_set=f"broker-{DEFAULT_VERSION}",
        jvm_options=("-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup", paused),
        archives=archives,
    )
    server.start("kafka.tools.StorageTool", "random-uuid")
    wait_for((tmp_path / "paused").exists, log.read_text)
    (tmp_path / "classes.jsa").write_bytes(b"the beginning")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.stop(20)
    assert not archives.exists()


@pytest.mark.broker
def test_settings_reach_the_broker(make_broker: MakeBroker) -> None:
    """The broker runs with a test's settings; unknown topics are errors."""
    broker = make_broker(**{"offsets.topic.num.partitions": "3"})
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(broker.bootstrap, "any")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "first", "log_level": 0})
    # The first member of the first group makes the broker create its offsets topic.
    consumer.subscribe(["any"])
    try:
        wait_for(
            lambda: consumer.poll(0.1) is None and "__consumer_offsets" in client.list_topics(timeout=60).topics,
            "the offsets topic exists",
        )
    finally:
        consumer.close()
    assert len(client.list_topics(timeout=60).topics["__consumer_offsets"].partitions) == 3
    assert client.list_topics(topic="misspelt", timeout=60).topics["misspelt"].error is not None


@pytest.mark.broker
def test_broker_that_dies_at_start_says_why() -> None:
    """The error has the broker's last log message, and the log can still be read."""
    broker = EmbeddedKafka(config={"num.io.threads": "many"})
    with pytest.raises(
        UserError, match=r"Invalid value many for configuration num.io.threads.*\(log: (.*)\)"
    ) as raised:
        broker.__enter__()
    log = Path(str(raised.value).rsplit("(log: ", 1)[1].removesuffix(")"))
    assert "num.io.threads" in log.read_text()
    log.unlink()
    assert not broker.directory.exists()


# The other signals are tested with cheaper processes (tests/deploy/test_processes.py).
@pytest.mark.broker
@pytest.mark.parametrize(
    "last_signal",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGINT))],
)
def test_no_broker_outlives_its_parent(tmp_path: Path, last_signal: signal.Signals) -> None:
    """However the Python process that started a broker ends, the broker ends with it."""
    reported = tmp_path / "pid"
    # Children of a runner started in the background ignore SIGINT.
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from rebalance_deploy.embedded.kafka import EmbeddedKafka
with EmbeddedKafka(Path({str(tmp_path / "kafka")!r})) as broker:
    Path({str(reported)!r}).write_text(f"{{broker.pids[0]}}\\n")
    signal.alarm(300)
    signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as parent:
        wait_for(lambda: reported.exists() and reported.read_text().endswith("\n"), "the broker answers", 300)
        pid = int(reported.read_text())
        assert is_alive(pid)
        os.kill(parent.pid, last_signal)
        parent.wait(120)
    wait_for(lambda: not is_alive(pid), "the broker is gone")


@pytest.mark.broker
def test_shared_broker_answers(broker: EmbeddedKafka) -> None:
    """The broker shared by the tests of all folders is up and has the default version."""
    assert broker.is_running
    assert AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).brokers.keys() == {1}


# --- with several, and with a ZooKeeper ---


def admin_of(cluster: EmbeddedKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "error_cb": lambda _: None})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """Two brokers that replicate the offsets topic; each test leaves both running."""
    config = {"offsets.topic.replication.factor": "2", "offsets.topic.num.partitions": "2"}
    with EmbeddedKafka(tmp_path_factory.mktemp("cluster"), brokers=2, config=config) as running:
        yield running


@pytest.mark.broker
def test_partitions_lie_where_they_are_put(cluster: EmbeddedKafka) -> None:
    """Clients see every broker, and a topic's leader is the chosen one."""
    admin = admin_of(cluster)
    wait_for(lambda: sorted(admin.list_topics(timeout=60).brokers) == [1, 2], "both brokers")
    admin.create_topics([NewTopic("placed", 1, replica_assignment=[[2]])])["placed"].result(120)
    wait_for(lambda: _leaders(admin, "placed") == {0: 2}, "the leader")


def _leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    described = admin.list_topics(topic, timeout=60).topics[topic]
    return {number: each.leader for number, each in described.partitions.items()}


@pytest.mark.broker
def test_groups_move_when_their_broker_stops_and_live_on_when_it_is_back(cluster: EmbeddedKafka) -> None:
    """The other broker coordinates them meanwhile; afterwards both brokers are there again."""
    names = [f"g{number}" for number in range(50)]
    group = wait_for(
        lambda: next((name for name in names if find_coordinator(cluster.bootstrap, name) == 2), None),
        "a group that broker 2 coordinates",
    )
    assert group is not None
    cluster.stop(2)
    assert not cluster.is_running
    assert len(cluster.pids) == 1
    wait_for(lambda: find_coordinator(cluster.bootstrap, group) == 1, "broker 1 to coordinate the group")
    cluster.start(2)
    assert cluster.is_running
    admin = admin_of(cluster)
    wait_for(lambda: sorted(admin.list_topics(timeout=60).brokers) == [1, 2], "both brokers")


@pytest.mark.broker
def test_nothing_runs_after_the_end(tmp_path: Path) -> None:
    """Leaving the context ends every process, including ZooKeeper; logs are kept in a given directory."""
    with EmbeddedKafka(tmp_path, brokers=2, zookeeper=True) as cluster:
        pids, zookeeper_port = cluster.pids, int(cluster.zookeeper.partition(":")[2])
        assert len(pids) == 2
        assert not is_free(zookeeper_port)
        client = KazooClient(cluster.zookeeper)
        client.start(timeout=120)
        # Old clients watch these ZooKeeper nodes.
        for path in ("/brokers/ids", "/brokers/topics"):
            # A busy machine may lose the session.
            assert client.retry(client.exists, path)
        client.stop()
        client.close()
    assert not any(is_alive(pid) for pid in pids)
    assert is_free(zookeeper_port)
    assert all(log.stat().st_size > 0 for log in cluster.log_paths)


def test_without_a_zookeeper_there_is_no_address(tmp_path: Path) -> None:
    """A prober recognises by this that there is none."""
    assert EmbeddedKafka(tmp_path).zookeeper == ""
