"""Where settings come from, and the errors about wrong ones."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rebalance_contract import QUERIES
from rebalance_deploy.cli import cli
from rebalance_deploy.components import SECTIONS, detect_config, export_config, probe_config, stream_config
from rebalance_deploy.errors import UserError
from rebalance_deploy.settings import Sources, known_keys, load
from rebalance_exporters.config import ExportConfig
from rebalance_streaming.detect.config import DetectConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    kafka: dict[str, str] = field(default_factory=dict)
    cluster: str = "default"
    speed_ms: int = 500
    factor: float = 1.0
    is_loud: bool = False

    def validate(self) -> list[str]:
        return ["engine.speed_ms must be positive"] if self.speed_ms < 1 else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Lamp:
    kafka: dict[str, str] = field(default_factory=dict)
    cluster: str = "default"
    port: int = 1

    def validate(self) -> list[str]:
        return []


KNOWN: dict[str, type] = {"engine": Engine, "lamp": Lamp}


def load_engine(
    file: Path | None = None, environment: dict[str, str] | None = None, flags: tuple[str, ...] = ()
) -> Engine:
    return load(Engine, "engine", Sources(file, environment, flags), KNOWN)


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path):
    """The usual order of precedence."""
    file = tmp_path / "m.toml"
    file.write_text('cluster = "file"\n[engine]\nspeed_ms = 1\n[kafka]\n"client.id" = "file"\n')
    environment = {"REBALANCE_MONITOR_ENGINE_SPEED_MS": "2", "REBALANCE_MONITOR_KAFKA_CLIENT_ID": "env", "HOME": "/"}
    assert load_engine() == Engine()
    assert load_engine(file).speed_ms == 1
    assert load_engine(file, environment).speed_ms == 2
    assert load_engine(file, environment, ("engine.speed_ms=3",)).speed_ms == 3
    assert load_engine(file, environment).kafka == {"client.id": "env"}
    assert load_engine(file, environment).cluster == "file"


def test_another_components_key_is_no_error():
    """One file is for all processes of a deployment."""
    assert load_engine(flags=("lamp.port=9",)) == Engine()


def test_an_unknown_key_is_answered_with_the_nearest_one():
    """A misspelt key must not silently leave a default in force."""
    with pytest.raises(UserError, match=r"unknown setting 'engine.sped_ms'; did you mean 'engine.speed_ms'\?"):
        load_engine(flags=("engine.sped_ms=1",))
    with pytest.raises(UserError, match="did you mean 'REBALANCE_MONITOR_CLUSTER'"):
        load_engine(environment={"REBALANCE_MONITOR_CLUSTR": "x"})


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("probe.interval_seconds", "did you mean 'probe.period_seconds'?"),
        ("export.checkpoint", "did you mean 'stream.checkpoint'?"),
        ("foo", "docs/configuration.md lists all"),
    ],
)
def test_a_key_of_the_same_section_is_nearer_than_one_of_another(key: str, hint: str):
    """Unless another section has exactly that name; without similar keys there is no proposal."""
    with pytest.raises(UserError) as caught:
        stream_config(Sources(flags=(f"{key}=1",)))
    assert str(caught.value) == f"unknown setting {key!r}; {hint}"


def test_values_of_the_wrong_type_are_named_at_once():
    """The error has the names of the settings, the given values, and the expected types."""
    with pytest.raises(UserError) as caught:
        load_engine(flags=("engine.speed_ms=fast", "engine.factor=x", "engine.is_loud=maybe"))
    assert str(caught.value) == (
        "engine.speed_ms is 'fast': use a whole number of milliseconds, for example 500; "
        "engine.factor is 'x': use a number, for example 1.0; engine.is_loud is 'maybe': use true or false"
    )


def test_what_is_wrong_inside_a_value_is_named(tmp_path: Path):
    """For lists and tables the error says which entry is wrong, and what is missing in it."""
    file = tmp_path / "m.toml"
    file.write_text('[[stream.metric_topics]]\nname = "a"\n[[stream.metric_topics]]\nformat = "otlp"\n')
    with pytest.raises(UserError, match=r"^stream\.metric_topics\[1\] cannot be used: .*missing.*`name`$"):
        stream_config(Sources(file))
    file.write_text('[detect.thresholds]\nbarrier_ms = "long"\n')
    with pytest.raises(UserError) as caught:
        detect_config(Sources(file))
    assert str(caught.value) == (
        "detect.thresholds.barrier_ms is 'long': use a whole number of milliseconds, for example 10000"
    )


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("[detect]\nignore = 5", "detect.ignore is 5: use a list"),
        ("[detect]\nignore = [5]", "detect.ignore[0] is 5: use text"),
        (
            "[[detect.silences]]\nuntil_ms = 'x'",
            "detect.silences[0].until_ms is 'x': use a whole number of milliseconds",
        ),
        (
            "[[detect.overrides]]\ngroup = 'a'\nthresholds = { stalled_ms = 'x' }",
            "detect.overrides[0].thresholds[...]: use a number",
        ),
    ],
)
def test_a_part_of_the_wrong_type_is_named_with_its_value(tmp_path: Path, text: str, reported: str):
    """For lists and tables too, in terms of the settings file and not of the parsing library."""
    file = tmp_path / "m.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        detect_config(Sources(file))
    assert str(caught.value) == reported


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[stream]\nforget_groups_after_hours = inf",
            "stream.forget_groups_after_hours is inf: use a number of at most",
        ),
        ("[stream]\nstop_timeout_seconds = nan", "stream.stop_timeout_seconds is nan: use a number of at most"),
        (
            "[stream]\nstall_seconds = 1e10",
            "stream.stall_seconds is 10000000000.0: use a number of at most 1,000,000,000",
        ),
        ("[detect]\nwindow_scale = inf", "detect.window_scale is inf"),
        ("[detect.thresholds]\nskew_factor = inf", "detect.thresholds.skew_factor is inf"),
        (
            '[[detect.overrides]]\ngroup = "g"\nthresholds = {barrier_ms = inf}',
            "detect.overrides number 1.thresholds.barrier_ms is inf",
        ),
    ],
)
def test_a_number_without_end_is_refused(tmp_path: Path, text: str, said: str):
    """An infinite value is rejected at start-up, before a batch, a thread or a rule fails because of it."""
    file = tmp_path / "m.toml"
    file.write_text(f'[kafka]\n"bootstrap.servers" = "b:9092"\n{text}\n')
    configured = detect_config if text.startswith(("[detect", "[[detect")) else stream_config
    with pytest.raises(UserError) as refused:
        configured(Sources(file))
    assert said in str(refused.value)


def test_a_components_own_checks_are_reported():
    """Values of the right type can still be invalid."""
    with pytest.raises(UserError, match="must be positive"):
        load_engine(flags=("engine.speed_ms=0",))


def test_secrets_are_refused_as_flags():
    """Other users of a machine can read every process's arguments."""
    with pytest.raises(UserError, match="REBALANCE_MONITOR_KAFKA_SASL_PASSWORD_FILE"):
        load_engine(flags=("kafka.sasl.password=hunter2",))


def test_a_secret_can_come_from_a_file(tmp_path: Path):
    """Mounted secrets need not be copied into the environment."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    environment = {"REBALANCE_MONITOR_KAFKA_SASL_PASSWORD_FILE": str(secret)}
    assert load_engine(environment=environment).kafka == {"sasl.password": "hunter2"}


@pytest.mark.parametrize(("content", "message"), [("not toml", "not valid TOML"), (None, "cannot read")])
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, content: str | None, message: str):
    """The error for a missing or broken file has its name and the reason."""
    file = tmp_path / "m.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=message):
        load_engine(file)


def test_shared_keys_stand_outside_the_sections():
    """A setting of the whole deployment is set once."""
    assert known_keys(KNOWN) == ["cluster", "engine.factor", "engine.is_loud", "engine.speed_ms", "lamp.port"]


def kubernetes(service: str, *ports: tuple[str, int]) -> dict[str, str]:
    """The variables that Kubernetes sets in a container for one service."""
    name = service.upper().replace("-", "_")
    found = {f"{name}_SERVICE_HOST": "10.0.0.1", f"{name}_SERVICE_PORT": "9092", f"{name}_PORT": "tcp://10.0.0.1:9092"}
    for port_name, port in ports:
        one = f"{name}_PORT_{port}_TCP"
        found |= {
            f"{name}_SERVICE_PORT_{port_name.upper().replace('-', '_')}": str(port),
            one: f"tcp://10.0.0.1:{port}",
            f"{one}_PROTO": "tcp",
            f"{one}_PORT": str(port),
            f"{one}_ADDR": "10.0.0.1",
        }
    return found


@pytest.mark.parametrize("configured", [stream_config, probe_config, export_config])
def test_every_process_starts_among_kubernetes_services(configured: Callable[[Sources], Any]):
    """Kubernetes sets variables for all services in each container: none is a setting or a client property."""
    environment = {"REBALANCE_MONITOR_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"}
    plain = configured(Sources(environment=environment))
    for service in (
        "rebalance-monitor",
        "rebalance-monitor-kafka",
        "rebalance-monitor-kafka-bootstrap",
        "rebalance-monitor-export",
        "rebalance-monitor-export-listen",
        "rebalance-monitor-probe-file",
    ):
        environment |= kubernetes(service, ("http-metrics", 9642), ("file", 443))
    assert configured(Sources(environment=environment)) == plain


def test_variables_of_other_commands_are_no_settings():
    """They are documented, and may be in the environment of any process."""
    names = ("CACHE", "CONFIG", "IVY_SETTINGS", "URL", "USER", "PASSWORD_FILE", "CA_FILE")
    assert load_engine(environment={f"REBALANCE_MONITOR_{name}": "/x" for name in names}) == Engine()


def test_a_misspelt_port_is_no_service():
    """Only a valid address shows that Kubernetes wrote the variable."""
    with pytest.raises(UserError, match="did you mean 'REBALANCE_MONITOR_LAMP_PORT'"):
        load_engine(environment={"REBALANCE_MONITOR_LMP_PORT": "9642"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[detect.silences]]\ngrup = "x"', "unknown key 'grup' in detect.silences number 1; did you mean 'group'?"),
        (
            '[[detect.overrides]]\ngroup = "x"\n[detect.overrides.threshold]\nstalled_ms = 1',
            "unknown key 'threshold' in detect.overrides number 1; did you mean 'thresholds'?",
        ),
        (
            '[stream]\nmetric_topics = ["a", {name = "b", formt = "otlp"}]',
            "unknown key 'formt' in stream.metric_topics number 2; did you mean 'format'?",
        ),
        (
            '[stream]\nbroker_log_topics = ["a", {name = "b", timezone = "UTC"}]',
            "unknown key 'timezone' in stream.broker_log_topics number 2; did you mean 'time_zone'?",
        ),
        ('[kafak]\n"client.id" = "x"\n"client.rack" = "y"', "unknown section [kafak]; did you mean [kafka]?"),
        ("[xyzzy]\na = 1", "unknown section [xyzzy]; known are stream, detect, probe, export, log, kafka, sources"),
        ("[detect]\nstalled_m = 1", "unknown setting 'detect.stalled_m'; did you mean 'detect.thresholds.stalled_ms'?"),
        ("[export]\nlistn_port = 1", "unknown setting 'export.listn_port'; did you mean 'export.listen_port'?"),
        ("[export]\nqqqq = 1", "unknown setting 'export.qqqq'; docs/configuration.md lists all"),
    ],
)
def test_an_unknown_key_is_one_sentence_wherever_it_stands(tmp_path: Path, text: str, said: str):
    """In lists of tables too, and for a process that does not use the key."""
    file = tmp_path / "m.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load(ExportConfig, "export", Sources(file), SECTIONS)
    assert str(caught.value) == said


def test_known_keys_inside_lists_of_tables_are_taken(tmp_path: Path):
    """The check accepts all keys of the settings."""
    file = tmp_path / "m.toml"
    file.write_text(
        '[[detect.silences]]\ngroup = "g"\nrule = "poll_overrun"\nuntil_ms = 5\n'
        '[[detect.overrides]]\ngroup = "g"\n[detect.overrides.thresholds]\nstalled_ms = 1\n'
        '[stream]\nmetric_topics = ["a", {name = "b", format = "otlp", defaults = {host = "h"}}]'
    )
    loaded = load(DetectConfig, "detect", Sources(file), SECTIONS)
    assert (loaded.silences[0].until_ms, loaded.overrides[0].thresholds) == (5, {"stalled_ms": 1})


def test_a_file_in_another_encoding_is_named(tmp_path: Path):
    """As saved by an editor on Windows."""
    file = tmp_path / "m.toml"
    file.write_bytes('cluster = "ü"'.encode("latin-1"))
    with pytest.raises(UserError, match=r"m\.toml is not UTF-8, as TOML must be: see byte 11"):
        load_engine(file)


def test_client_properties_keep_their_form(tmp_path: Path):
    """TOML has booleans, lists and tables, client properties are text."""
    file = tmp_path / "m.toml"
    file.write_text(
        '[kafka]\nbootstrap.servers = ["a:1", "b:2"]\n"enable.ssl.certificate.verification" = false\n'
        '[kafka.java]\n"max.request.size" = 9\n[kafka.librdkafka]\noauth_cb = "m:f"'
    )
    assert load_engine(file, {"REBALANCE_MONITOR_KAFKA_JAVA_CLIENT_RACK": "r"}).kafka == {
        "bootstrap.servers": "a:1,b:2",
        "enable.ssl.certificate.verification": "false",
        "java.max.request.size": "9",
        "librdkafka.oauth_cb": "m:f",
        "java.client.rack": "r",
    }


@pytest.mark.parametrize("key", ["kafka.SASL.PASSWORD", "kafka.java.sasl.jaas.config", "kafka.librdkafka.ssl.key.pem"])
def test_secrets_are_refused_as_flags_however_written(key: str):
    """In any table and case; the value is not repeated."""
    with pytest.raises(UserError, match="is a secret") as caught:
        load_engine(flags=(f"{key}=hunter2",))
    assert "hunter2" not in str(caught.value)


def test_what_librdkafka_would_refuse_is_reported_before_anything_starts():
    """A misspelt property is reported in the same words by each process."""
    sources = Sources(flags=("kafka.bootstrap.servers=b:1", "kafka.client.rac=r"))
    for configured in (stream_config, probe_config, export_config):
        with pytest.raises(UserError, match=r"there is no kafka\.client\.rac, did you mean kafka\.client\.rack\?"):
            configured(sources)


def test_the_queries_to_choose_from_are_those_that_there_are():
    """The command line lists them itself, because its help imports no other library."""
    (queries,) = (each for each in cli.commands["stream"].params if each.name == "queries")
    assert tuple(queries.type.choices) == QUERIES


def test_what_processes_have_in_common_is_refused_in_the_same_words():
    """Blank broker addresses, a cluster name that is invalid in keys, and an address that cannot be bound."""
    places = {stream_config: "stream", probe_config: "probe", export_config: "export"}
    for configured, section in places.items():
        flags = ("kafka.bootstrap.servers= ", "cluster=a/b", f"{section}.listen_port=65536", f"{section}.listen_host=")
        with pytest.raises(UserError) as caught:
            configured(Sources(flags=flags))
        # The exporter has several clusters.
        named = [] if section == "export" else ["cluster must be a name without '/', got 'a/b'"]
        assert sorted(str(caught.value).split("; ")) == sorted(
            [
                "kafka.bootstrap.servers is not set: pass --bootstrap-server HOST:PORT",
                f"{section}.listen_host is empty: use 0.0.0.0 for every interface or 127.0.0.1 for this machine",
                f"{section}.listen_port is 65536: use 0 (any free port) to 65535",
                *named,
            ]
        )


EXAMPLES = re.findall(
    r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "authentication.md").read_text("utf-8"), re.DOTALL
)


@pytest.mark.waits
@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_documented_ways_to_log_in_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str):
    """Each example is accepted unchanged, except for its file names."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "msk.py").write_text("def token(region):\n    return region, 0")
    file = tmp_path / "m.toml"
    file.write_text(re.sub(r'"ssl\.\w+\.location" = .*\n|extra_jars = .*\n', "", example), "utf-8")
    # librdkafka takes a second for each that fetches a token.
    with ThreadPoolExecutor() as pool:
        made = [pool.submit(configured, Sources(file)) for configured in (stream_config, probe_config, export_config)]
    assert all(each.result().kafka["bootstrap.servers"] for each in made)


def test_a_setting_that_is_a_file_is_no_file_that_holds_one():
    """Its name ends like those of settings that name a file with the value."""
    environment = {
        "REBALANCE_MONITOR_KAFKA_BOOTSTRAP_SERVERS": "b:1",
        "REBALANCE_MONITOR_EXPORT_OWNERS_FILE": "/etc/owners.toml",
        "REBALANCE_MONITOR_STREAM_WEB_CONFIG_FILE": "/etc/web.yml",
    }
    assert export_config(Sources(environment=environment)).owners_file == "/etc/owners.toml"
    assert stream_config(Sources(environment=environment)).web_config_file == "/etc/web.yml"
