"""The page that lists every setting, made from the components' dataclasses and what each field says of itself.

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

Every setting of every process. This page is generated from the dataclasses that hold them; change the texts there,
then run `make docs`.

One file serves all processes: each reads the shared keys and its own section, and an unknown key anywhere is an error
that names the nearest one. A flag beats the environment, which beats the file, which beats the default:

| where | how |
|---|---|
| flag | `--set export.listen_port=9642`; the usual ones have names of their own, see `--help` |
| environment | `{ENV_PREFIX}EXPORT_LISTEN_PORT=9642`; with `_FILE` appended, a file that holds the value |
| file | `--config FILE` or `{ENV_PREFIX}CONFIG`: TOML, a table per section |

The name of a duration ends in its unit (`_ms`, `_seconds`, `_minutes`, `_hours`). A list is separated by commas in a
flag or a variable. Secrets are refused as flags.

The commands that ask the exporter read `REBALANCE_MONITOR_URL`, `_USER`, `_PASSWORD_FILE` and `_CA_FILE` for `--url`,
`--user`, `--password-file` and `--ca-file`. `REBALANCE_MONITOR_CACHE` is the directory of jars
(`~/.cache/rebalance-monitor` without it), and `REBALANCE_MONITOR_IVY_SETTINGS` a file of Ivy settings for those behind
a mirror.

Variables that begin with `{ENV_PREFIX}` and are none of these are refused as errors, except those of other commands
({_OTHERS}) and those that Kubernetes makes of services
(`…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_PORT` with an address, `…_PORT_9092_TCP` and the like), which mean nothing here.
"""

_SHARED = """
## Shared

Outside the sections, because they mean one thing for the whole deployment.

"""

_KAFKA = f"""
`[kafka]` holds client properties under librdkafka's names (`security.protocol`, `ssl.ca.location`, `sasl.mechanism`,
…), which are translated for the other clients; `[kafka.java]` and `[kafka.librdkafka]` hold what only one of them
gets. In the environment `{ENV_PREFIX}KAFKA_SASL_PASSWORD` is `sasl.password`. Properties that would make a process
wrong, such as `enable.auto.commit`, and those that cannot work are refused with a sentence that says so. TLS, SASL,
OAUTHBEARER and MSK IAM, each with an example: [authentication.md](authentication.md).
"""

_OF = {
    "stream": "The Spark application: `rebalance-monitor stream`, or `spark-submit`.",
    "detect": "The diagnosis, part of the stream and of `replay`.",
    "probe": "`rebalance-monitor probe`.",
    "export": "`rebalance-monitor export`.",
    "log": "What `stream`, `probe`, `export` and `up` print: a line per event, on standard error.",
}

_THRESHOLDS = """
## [detect.thresholds]

What the rules of the diagnosis compare with. Which of them matter to which diagnosis, and what values for some groups
only look like, is described in [diagnoses.md](diagnoses.md). `[[detect.overrides]]` replaces them group by group.

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
    """Yield the fields that are settings, not tables of further ones."""
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
