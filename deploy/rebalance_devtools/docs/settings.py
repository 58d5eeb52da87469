"""Generates the page that lists every setting, from the components' dataclasses and the descriptions of their fields.

python -m rebalance_devtools.docs.settings docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from rebalance_contract.settings import description_of
from rebalance_deploy.components import SECTIONS
from rebalance_deploy.settings import ENV_PREFIX, KAFKA, OTHER_VARIABLES, SHARED, shared_key
from rebalance_streaming.detect.catalogue import THRESHOLD_TEXTS, in_words
from rebalance_streaming.detect.thresholds import Thresholds

_OTHERS = ", ".join(f"`{name}`" for name in sorted(OTHER_VARIABLES))

_INTRODUCTION = f"""\
# Configuration

All settings of all processes. This page is generated from the dataclasses of the settings; change the texts there, then
run `make docs`.

All processes can use the same file: each reads the shared keys and its own section. An unknown key anywhere in it is an
error; the message suggests a similar key if there is one. A flag overrides the environment, which overrides the file,
which overrides the default:

| where | how |
|---|---|
| flag | `--set export.listen_port=9642`; common settings have flags of their own, see `--help` |
| environment | `{ENV_PREFIX}EXPORT_LISTEN_PORT=9642`; with `_FILE` appended, the path of a file that holds the value |
| file | `--config FILE` or `{ENV_PREFIX}CONFIG`: TOML, a table per section |

Names of durations end in the unit (`_ms`, `_seconds`, `_minutes`, `_hours`). In a flag or a variable, separate the
elements of a list with commas. Secrets cannot be given as flags.

The commands that query the exporter read `REBALANCE_MONITOR_URL`, `_USER`, `_PASSWORD_FILE`, `_CA_FILE` and `_CLUSTER`
for `--url`, `--user`, `--password-file`, `--ca-file` and `--cluster`. `REBALANCE_MONITOR_CACHE` is the directory of
jars (default: `~/.cache/rebalance-monitor`). `REBALANCE_MONITOR_IVY_SETTINGS` is a file with Ivy settings, such as a
Maven mirror.

Any other variable that begins with `{ENV_PREFIX}` is an error. Exceptions: the variables of other commands
({_OTHERS}), and the variables that Kubernetes sets for services
(`…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_PORT` with an address, `…_PORT_9092_TCP` and the like), which are ignored.
"""

_SHARED = """
## Shared

Top-level keys, outside the sections. They have the same value for the whole deployment.

"""

_KAFKA = f"""
`[kafka]` holds client properties under librdkafka's names (`security.protocol`, `ssl.ca.location`, `sasl.mechanism`,
…). They are translated for the other clients. `[kafka.java]` holds properties for the Java client only,
`[kafka.librdkafka]` properties for librdkafka and kafka-python only. The environment variable
`{ENV_PREFIX}KAFKA_SASL_PASSWORD` sets `sasl.password`. Properties that the monitor must control, such as
`enable.auto.commit`, and properties that cannot work are rejected with an error message. TLS, SASL, OAUTHBEARER and MSK
IAM, each with an example: [authentication.md](authentication.md).
"""

_OF = {
    "stream": "The Spark application: `rebalance-monitor stream`, or `spark-submit`.",
    "detect": "The diagnosis, which the stream and `replay` run.",
    "probe": "`rebalance-monitor probe`.",
    "export": "`rebalance-monitor export`.",
    "log": "Log of `stream`, `probe`, `export` and `up`: a line per event, on standard error.",
}

_THRESHOLDS = """
## [detect.thresholds]

Thresholds of the diagnosis. [diagnoses.md](diagnoses.md) says which diagnosis uses which threshold, and has an
example of values for some groups only. `[[detect.overrides]]` replaces them for the groups that it names.

| key | default | what it decides |
|---|---|---|
"""


def render() -> str:
    """Return the page."""
    shared: dict[str, tuple[type[Any], Field[Any]]] = {}
    for component in SECTIONS.values():
        for each in _settings(component):
            shared.setdefault(each.name, (component, each))

    parts = [_INTRODUCTION, _SHARED, _HEADER]
    parts += [_row(*shared[name]) for name in sorted(SHARED & shared.keys() - {KAFKA})]
    parts += [_KAFKA]
    for section, component in SECTIONS.items():
        parts += [f"\n## [{section}]\n\n{_OF[section]}\n\n", _HEADER]
        parts += [_row(component, each) for each in _settings(component) if each.name not in SHARED]
    defaults = Thresholds()
    parts += [_THRESHOLDS]
    parts += [
        f"| `{name}` | {_threshold(name, getattr(defaults, name))} | {text} |\n"
        for name, text in THRESHOLD_TEXTS.items()
    ]
    return "".join(parts)


_HEADER = "| key | type | default | |\n|---|---|---|---|\n"


def _settings(component: type[Any]) -> Iterator[Field[Any]]:
    """Yield the fields that are settings themselves, without the table of thresholds."""
    hints = get_type_hints(component)
    return (each for each in fields(component) if hints[each.name] is not Thresholds)


def _row(component: type[Any], each: Field[Any]) -> str:
    kind = _type_name(get_type_hints(component)[each.name])
    return "| `{}` | {} | {} | {} |\n".format(
        shared_key(each.name), kind, _default(each), description_of(each).replace("|", "\\|")
    )


def _type_name(hint: Any) -> str:
    names: Mapping[Any, str] = {str: "text", int: "integer", float: "number", bool: "boolean"}
    return names.get(hint, "list")


def _default(each: Field[Any]) -> str:
    value = each.default if each.default is not MISSING else ""
    if value in ("", ()):
        return "empty"
    return f"`{msgspec.json.encode(value).decode()}`"


def _threshold(name: str, value: float) -> str:
    words = in_words(name, value)
    return f"`{value}`" if words == f"{value:g}" else f"`{value}` ({words})"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
