"""Where settings come from: flag, else environment, else TOML file, else the default beside the field.

    cluster = "prod"                       --set cluster=prod            REBALANCE_MONITOR_CLUSTER
    [kafka]                                (client properties, passed through)
    "sasl.username" = "monitor"            --set kafka.sasl.username=…   REBALANCE_MONITOR_KAFKA_SASL_USERNAME
    [stream]
    checkpoint = "/var/lib/monitor"        --set stream.checkpoint=…     REBALANCE_MONITOR_STREAM_CHECKPOINT

`kafka`, `cluster` and `topic_prefix` are shared by all components; the rest belongs to the component its section
names. An environment variable with `_FILE` appended names a file that holds the value. Secrets are refused as flags,
which every user of a machine can read.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_origin, get_type_hints

import msgspec

from rebalance_deploy.errors import UserError

ENV_PREFIX = "REBALANCE_MONITOR_"
KAFKA = "kafka"
#: Mean one thing for the whole deployment, so they stand outside the sections.
SHARED = frozenset({KAFKA, "cluster", "topic_prefix"})
#: Read by other parts of the package, not settings of a component.
_OTHER_VARIABLES = frozenset({f"{ENV_PREFIX}CACHE", f"{ENV_PREFIX}CONFIG"})
_SECRET_WORDS = ("password", "secret", "jaas", "key.pem", "token")


class Component(Protocol):
    """A frozen dataclass of settings."""

    def validate(self) -> list[str]:
        """Return every problem as a sentence."""


_C = TypeVar("_C", bound=Component)


@dataclass(frozen=True, slots=True)
class Sources:
    """The three places values can come from, as given by the user."""

    file: Path | None = None
    environment: Mapping[str, str] | None = None
    flags: tuple[str, ...] = ()


def load(component: type[_C], section: str, sources: Sources, known: Mapping[str, type[Any]]) -> _C:
    """Build one component's settings from the section of its name and the shared keys.

    `known` maps every section to its dataclass, so that a key of another component is no error. Raises UserError
    that names all unknown keys and all bad values at once.
    """
    values = _read_file(sources.file)
    values |= _read_environment(sources.environment or {}, known)
    values |= _read_flags(sources.flags)
    names = known_keys(known)
    problems = [_unknown(key, names) for key in values if key not in names and not key.startswith(f"{KAFKA}.")]
    if problems:
        raise UserError("; ".join(problems))
    return _build(component, section, values)


def known_keys(known: Mapping[str, type[Any]]) -> list[str]:
    """Return every key that may be set, shared ones without section."""
    keys = {
        _key(section, name) if not inner else f"{section}.{name}.{inner}"
        for section, component in known.items()
        for name, inners in _names(component).items()
        for inner in inners
    }
    return sorted(keys - {KAFKA})


def _names(component: type[Any]) -> dict[str, tuple[str, ...]]:
    """Return each field's name with those of its own settings, if it is a dataclass of settings itself."""
    hints = get_type_hints(component)
    return {
        each.name: tuple(inner.name for inner in fields(hints[each.name])) if is_dataclass(hints[each.name]) else ("",)
        for each in fields(component)
    }


def _key(section: str, name: str) -> str:
    return name if name in SHARED else f"{section}.{name}"


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return _flatten(tomllib.loads(file.read_text()))
    except OSError as error:
        raise UserError(f"cannot read {file} ({error.strerror}); check --config") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML: {error}") from None


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _read_environment(environment: Mapping[str, str], known: Mapping[str, type[Any]]) -> dict[str, Any]:
    by_variable = {ENV_PREFIX + key.upper().replace(".", "_"): key for key in known_keys(known)}
    values = {}
    for variable, text in environment.items():
        if not variable.startswith(ENV_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        name = variable.removesuffix("_FILE")
        value = _read_secret(variable, text) if variable.endswith("_FILE") else text
        if name.startswith(f"{ENV_PREFIX}KAFKA_"):
            values[f"{KAFKA}.{name.removeprefix(f'{ENV_PREFIX}KAFKA_').lower().replace('_', '.')}"] = value
        elif name in by_variable:
            values[by_variable[name]] = value
        else:
            raise UserError(f"unknown environment variable {variable}{_nearest(name, list(by_variable))}")
    return values


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise UserError(f"cannot read {path} named by {variable} ({error.strerror})") from None


def _read_flags(flags: Iterable[str]) -> dict[str, Any]:
    values = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals:
            raise UserError(f"--set takes KEY=VALUE, got {flag!r}")
        if key.startswith(f"{KAFKA}.") and any(word in key for word in _SECRET_WORDS):
            variable = ENV_PREFIX + key.upper().replace(".", "_")
            raise UserError(
                f"{key} is a secret and flags can be read by others: use {variable}, {variable}_FILE "
                "or the [kafka] section of the file given with --config"
            )
        values[key] = value
    return values


def _unknown(key: str, names: list[str]) -> str:
    return f"unknown setting {key!r}{_nearest(key, names)}"


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names)}"


def _listed(value: Any, hint: Any) -> Any:
    """Return a list where one is wanted and a flag or variable can only give text: separated by commas."""
    if isinstance(value, str) and get_origin(hint) is tuple:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _build(component: type[_C], section: str, values: Mapping[str, Any]) -> _C:
    own: dict[str, Any] = {KAFKA: {k.partition(".")[2]: str(v) for k, v in values.items() if k.startswith("kafka.")}}
    hints = get_type_hints(component)
    for name, inners in _names(component).items():
        key = _key(section, name)
        inside = {inner: values[f"{key}.{inner}"] for inner in inners if inner and f"{key}.{inner}" in values}
        if key in values or inside:
            own[name] = _listed(values.get(key, inside), hints[name])
    try:
        built = msgspec.convert(own, component, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"bad setting in {section}: {error}") from None
    problems = built.validate()
    if problems:
        raise UserError("; ".join(problems))
    return built
