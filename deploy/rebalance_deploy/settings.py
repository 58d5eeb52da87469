"""Loads settings: from a flag, else the environment, else the TOML file, else the default of the field.

    cluster = "prod"                       --set cluster=prod            REBALANCE_MONITOR_CLUSTER
    [kafka]                                (client properties, passed through)
    "sasl.username" = "monitor"            --set kafka.sasl.username=…   REBALANCE_MONITOR_KAFKA_SASL_USERNAME
    [stream]
    checkpoint = "/var/lib/monitor"        --set stream.checkpoint=…     REBALANCE_MONITOR_STREAM_CHECKPOINT

`kafka`, `cluster`, `topic_prefix` and `sources` are shared by all components; every other section belongs to one
component. An environment variable with `_FILE` appended names a file that holds the value. Secrets are refused as
flags, because every user of a machine can read them. Variables that Kubernetes sets for services are ignored.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from rebalance_deploy.errors import UserError
from rebalance_kafka.checks import SECRET_WORDS

ENV_PREFIX = "REBALANCE_MONITOR_"
KAFKA = "kafka"
#: Fields shared by all components; their keys have no section, except those in `_KEYS_OF_SHARED`.
SHARED = frozenset({KAFKA, "cluster", "topic_prefix", "reads_log"})
#: Section shared by all components, and the key in it for each shared field.
SOURCES = "sources"
_KEYS_OF_SHARED = {"reads_log": f"{SOURCES}.log"}
#: Variables read by other commands and other parts of the package; they are not settings of a component.
OTHER_VARIABLES = frozenset(
    f"{ENV_PREFIX}{name}"
    for name in ("CACHE", "CONFIG", "IVY_SETTINGS", "URL", "USER", "PASSWORD_FILE", "CA_FILE", "COMPLETE")
)
#: Variables that Kubernetes sets in every container for a service whose name begins with our prefix.
_SERVICE_VARIABLE = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
#: Maximum number of names listed in an error.
_LISTED_NAMES = 12
#: Minimum similarity (0 to 1) at which a known key is suggested for an unknown one.
_ALIKE = 0.6
#: Description of each type for error messages, by msgspec's name of the type.
_IN_WORDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
}
_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNITS: Mapping[str, str] = {"_ms": "milliseconds", "_seconds": "seconds", "_bytes": "bytes"}
#: Maximum of a duration in these units (10^9 s is about thirty years), and of any other number (exact in a float).
_TIMES, _LONGEST, _LARGEST = ("_seconds", "_minutes", "_hours"), 10**9, 2**53
_ALL_SETTINGS = "docs/configuration.md lists all"


class Component(Protocol):
    """A frozen dataclass of settings."""

    def validate(self) -> list[str]:
        """Return every problem found, each as a sentence."""


_C = TypeVar("_C", bound=Component)


@dataclass(frozen=True, slots=True)
class Sources:
    """The settings file, the environment and the flags, as given by the user."""

    file: Path | None = None
    environment: Mapping[str, str] | None = None
    flags: tuple[str, ...] = ()


def load(component: type[_C], section: str, sources: Sources, known: Mapping[str, type[Any]]) -> _C:
    """Build one component's settings from the section of its name and the shared keys.

    `known` maps every section to its dataclass, so that keys of other components are accepted. Raises UserError with
    all unknown keys or, if there are none, all bad values.
    """
    values = _read_file(sources.file)
    values |= _read_environment(sources.environment or {}, known)
    values |= _read_flags(sources.flags)
    problems = [*_unknown_keys(values, known), *_unknown_inside(values, known)]
    if problems:
        raise UserError("; ".join(problems))
    return _build(component, section, values)


def known_keys(known: Mapping[str, type[Any]]) -> list[str]:
    """Return every key that can be set; shared keys have no section."""
    keys = {
        _key(section, name) if not inner else f"{section}.{name}.{inner}"
        for section, component in known.items()
        for name, inners in _names(component).items()
        for inner in inners
    }
    return sorted(keys - {KAFKA})


def _names(component: type[Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of all fields, each with the names of its nested settings, or with ("",) if it has none."""
    hints = get_type_hints(component)
    return {
        each.name: tuple(inner.name for inner in fields(hints[each.name])) if is_dataclass(hints[each.name]) else ("",)
        for each in fields(component)
    }


def _key(section: str, name: str) -> str:
    return shared_key(name) if name in SHARED else f"{section}.{name}"


def shared_key(name: str) -> str:
    """Return the key of a field that components share."""
    return _KEYS_OF_SHARED.get(name, name)


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return _flatten(tomllib.loads(file.read_text("utf-8")))
    except OSError as error:
        raise UserError(f"cannot read {file} ({error.strerror}); check --config") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8, as TOML must be: see byte {error.start}") from None


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _read_environment(environment: Mapping[str, str], known: Mapping[str, type[Any]]) -> dict[str, Any]:
    by_variable = {ENV_PREFIX + key.upper().replace(".", "_"): key for key in known_keys(known)}
    values = {}
    for variable, text in environment.items():
        if not variable.startswith(ENV_PREFIX) or variable in OTHER_VARIABLES or _is_of_kubernetes(variable, text):
            continue
        # The names of some settings end with _FILE themselves.
        holds_value = variable in by_variable or not variable.endswith("_FILE")
        name = variable if holds_value else variable.removesuffix("_FILE")
        value = text if holds_value else _read_secret(variable, text)
        if name.startswith(f"{ENV_PREFIX}KAFKA_"):
            values[f"{KAFKA}.{_property_name(name.removeprefix(f'{ENV_PREFIX}KAFKA_'))}"] = value
        elif name in by_variable:
            values[by_variable[name]] = value
        else:
            raise UserError(f"unknown environment variable {variable}{_nearest(name, list(by_variable))}")
    return values


def _is_of_kubernetes(variable: str, text: str) -> bool:
    # Our own *_PORT settings are numbers; those of a Kubernetes service are addresses such as tcp://10.0.0.1:80.
    by_value = variable.endswith("_PORT") and _SERVICE_ADDRESS.match(text)
    return bool(by_value or _SERVICE_VARIABLE.search(variable))


def _property_name(name: str) -> str:
    """Return the client property of a variable: underscores become dots, except in oauth_cb."""
    return name.lower().replace("_", ".").replace("oauth.cb", "oauth_cb")


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise UserError(f"cannot read {path} named by {variable} ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} named by {variable} is not UTF-8") from None


def _read_flags(flags: Iterable[str]) -> dict[str, Any]:
    values = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals:
            raise UserError(f"--set takes KEY=VALUE, got {flag!r}")
        if key.startswith(f"{KAFKA}.") and any(word in key.lower() for word in SECRET_WORDS):
            variable = ENV_PREFIX + key.upper().replace(".", "_")
            raise UserError(
                f"{key} is a secret and flags can be read by others: use {variable}, {variable}_FILE "
                "or the [kafka] section of the file given with --config"
            )
        values[key] = value
    return values


def _unknown_keys(values: Mapping[str, Any], known: Mapping[str, type[Any]]) -> Iterator[str]:
    names, sections = known_keys(known), [*known, KAFKA, SOURCES]
    reported: set[str] = set()
    for key in values:
        section, dot, _ = key.partition(".")
        if key in names or section == KAFKA:
            continue
        if not dot or section in sections:
            yield f"unknown setting {key!r}{_nearest_key(key, names)}"
        elif section not in reported:
            reported.add(section)
            yield f"unknown section [{section}]{_nearest(section, sections, '[{}]')}"


def _unknown_inside(values: Mapping[str, Any], known: Mapping[str, type[Any]]) -> Iterator[str]:
    """Yield the unknown keys inside lists of tables, for all components."""
    for section, component in known.items():
        for name, hint in get_type_hints(component).items():
            yield from _unknown_fields(values.get(_key(section, name)), hint, _key(section, name))


def _unknown_fields(value: Any, hint: Any, place: str) -> Iterator[str]:
    if isinstance(value, list) and get_origin(hint) is tuple:
        for number, each in enumerate(value, start=1):
            yield from _unknown_fields(each, get_args(hint)[0], f"{place} number {number}")
    elif isinstance(value, dict) and get_origin(hint) in (Union, UnionType):
        for choice in get_args(hint):
            yield from _unknown_fields(value, choice, place)
    elif isinstance(value, dict) and is_dataclass(hint):
        names = [each.name for each in fields(hint)]
        yield from (f"unknown key {key!r} in {place}{_nearest(key, names)}" for key in value if key not in names)


def _nearest(name: str, names: list[str], form: str = "{!r}") -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {form.format(close[0])}?"
    return f"; known are {', '.join(names)}" if len(names) <= _LISTED_NAMES else f"; {_ALL_SETTINGS}"


def _nearest_key(key: str, names: list[str]) -> str:
    """Return the hint for an unknown key: the last part of the key counts more than its section.

    Keys with exactly this last part come first, then keys of the same section, then all others.
    """
    section, _, wanted = key.rpartition(".")

    def likeness(name: str) -> tuple[float, float]:
        last = difflib.SequenceMatcher(None, wanted, name.rpartition(".")[2]).ratio()
        return last, difflib.SequenceMatcher(None, key, name).ratio()

    namesakes = [name for name in names if name.rpartition(".")[2] == wanted]
    own = [name for name in names if section and name.startswith(f"{section}.")]
    for candidates in (namesakes, own, names):
        best = max(candidates, key=likeness, default="")
        if best and max(likeness(best)) >= _ALIKE:
            return f"; did you mean {best!r}?"
    return f"; {_ALL_SETTINGS}"


def _listed(value: Any, hint: Any) -> Any:
    """Return comma-separated text as a list if the setting is a list; flags and variables can only hold text."""
    if isinstance(value, str) and get_origin(hint) is tuple:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _text(value: Any) -> str:
    """Return a client property as text in the form that clients expect, from any TOML type."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


def _build(component: type[_C], section: str, values: Mapping[str, Any]) -> _C:
    own: dict[str, Any] = {KAFKA: {k.partition(".")[2]: _text(v) for k, v in values.items() if k.startswith("kafka.")}}
    hints, problems = get_type_hints(component), []
    for name, inners in _names(component).items():
        key = _key(section, name)
        inside = {inner: values[f"{key}.{inner}"] for inner in inners if inner and f"{key}.{inner}" in values}
        if key in values or inside:
            try:
                own[name] = msgspec.convert(_listed(values.get(key, inside), hints[name]), hints[name], strict=False)
            except msgspec.ValidationError as error:
                problems.append(_wrong(key, values.get(key, inside), _default(component, name), error))
    if problems:
        raise UserError("; ".join(problems))
    built = msgspec.convert(own, component)
    problems = [*_absurd_numbers(built, section), *built.validate()]
    if problems:
        raise UserError("; ".join(problems))
    return built


def _absurd_numbers(value: Any, place: str) -> Iterator[str]:
    """Yield a problem for each number that is NaN, infinite or too large; TOML allows `inf` and `nan`."""
    if is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            inner = shared_key(each.name) if each.name in SHARED else f"{place}.{each.name}"
            yield from _absurd_numbers(getattr(value, each.name), inner)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _absurd_numbers(each, f"{place}.{name}")
    elif isinstance(value, tuple):
        for number, each in enumerate(value, start=1):
            yield from _absurd_numbers(each, f"{place} number {number}")
    elif isinstance(value, int | float):
        most = _LONGEST if place.endswith(_TIMES) else _LARGEST
        # Also true for NaN, because every comparison with NaN is false.
        if not -most <= value <= most:
            yield f"{place} is {value}: use a number of at most {most:,}"


def _wrong(key: str, value: Any, default: Any, error: msgspec.ValidationError) -> str:
    """Return what a value must be; names the wrong part of a nested value, such as `stream.queries[0]`."""
    reason, _, path = str(error).partition(" - at ")
    path = path.strip("`").removeprefix("$")
    place, expected = key + path, _WRONG_TYPE.fullmatch(reason)
    if expected is None:
        return f"{place} cannot be used: {reason}"
    types = [each for each in expected[1].split(" | ") if each != "null"]
    words = " or ".join(_IN_WORDS.get(each, each) for each in types)
    if {"int", "float"} & set(types):
        words += "".join(f" of {unit}" for suffix, unit in _UNITS.items() if place.endswith(suffix))
    got, usual = _part(value, path), _part(default, path)
    example = f", for example {usual!r}" if isinstance(usual, int | float) and not isinstance(usual, bool) else ""
    return f"{place}{'' if got is None else f' is {got!r}'}: use {words}{example}"


def _default(component: type[Any], name: str) -> Any:
    """Return the default of a field, or None if it has none."""
    field = next(each for each in fields(component) if each.name == name)
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _part(value: Any, path: str) -> Any:
    """Return the part of a value at a path in msgspec's form, such as `[0].name`, or None if there is none."""
    for step in _STEP.finditer(path):
        name, index = step.groups()
        if index is not None:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return None if "[...]" in path else value
