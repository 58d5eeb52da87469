"""Where settings come from and what is said about wrong ones."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rebalance_deploy.errors import UserError
from rebalance_deploy.settings import Sources, known_keys, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    kafka: dict[str, str] = field(default_factory=dict)
    cluster: str = "default"
    speed_ms: int = 500

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
    """The order that every user of such tools expects."""
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
    """One file serves all processes of a deployment."""
    assert load_engine(flags=("lamp.port=9",)) == Engine()


def test_an_unknown_key_is_answered_with_the_nearest_one():
    """A typing error must not silently leave a default in force."""
    with pytest.raises(UserError, match=r"unknown setting 'engine.sped_ms'; did you mean 'engine.speed_ms'\?"):
        load_engine(flags=("engine.sped_ms=1",))
    with pytest.raises(UserError, match="did you mean 'REBALANCE_MONITOR_CLUSTER'"):
        load_engine(environment={"REBALANCE_MONITOR_CLUSTR": "x"})


def test_a_value_of_the_wrong_type_is_named():
    """The message says which setting and what was expected."""
    with pytest.raises(UserError, match=r"bad setting in engine: .*int.*speed_ms"):
        load_engine(flags=("engine.speed_ms=fast",))


def test_a_components_own_checks_are_reported():
    """Values of the right type can still be nonsense."""
    with pytest.raises(UserError, match="must be positive"):
        load_engine(flags=("engine.speed_ms=0",))


def test_secrets_are_refused_as_flags():
    """Other users of a machine can read every process's arguments."""
    with pytest.raises(UserError, match="REBALANCE_MONITOR_KAFKA_SASL_PASSWORD_FILE"):
        load_engine(flags=("kafka.sasl.password=hunter2",))


def test_a_secret_can_come_from_a_file(tmp_path: Path):
    """Mounted secrets need no copy in the environment."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    environment = {"REBALANCE_MONITOR_KAFKA_SASL_PASSWORD_FILE": str(secret)}
    assert load_engine(environment=environment).kafka == {"sasl.password": "hunter2"}


@pytest.mark.parametrize(("content", "message"), [("not toml", "not valid TOML"), (None, "cannot read")])
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, content: str | None, message: str):
    """A missing or broken file says which and why."""
    file = tmp_path / "m.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=message):
        load_engine(file)


def test_shared_keys_stand_outside_the_sections():
    """What means one thing for the whole deployment is set once."""
    assert known_keys(KNOWN) == ["cluster", "engine.speed_ms", "lamp.port"]
