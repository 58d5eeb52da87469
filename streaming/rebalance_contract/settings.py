"""How a component declares a setting: a field of a frozen dataclass with its default and what it decides.

The command line fills such dataclasses, and docs/configuration.md is made of them. What several components have among
theirs is described and checked here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any, TypeVar

T = TypeVar("T")
_DESCRIPTION = "description"
_HIGHEST_PORT = 65535

#: A setting that stream and prober share, `sources.log`: its default and what it decides.
READS_LOG = True
READS_LOG_TEXT = (
    "Whether the stream may read `__consumer_offsets`. With `false` it uses only probes, client metrics and brokers' "
    "logs, and all counts are lower bounds; see [without-the-log.md](without-the-log.md)."
)
#: What the settings of every process's pages decide.
WEB_CONFIG_TEXT = (
    "File with TLS and basic-auth settings, in the format of Prometheus's exporter-toolkit. It is reloaded when it or "
    "a file that it names changes, and on SIGHUP. Empty: neither TLS nor passwords."
)
HEALTH_TEXT = "If true, `/-/healthy` and `/-/ready` need no password even where `web_config_file` requires one."


def setting(default: T, description: str) -> T:
    """Declare a setting: a field with this default. `description` is Markdown, a sentence or a few."""
    declared: T = field(default=default, metadata={_DESCRIPTION: description})
    return declared


def table(description: str) -> Mapping[str, str]:
    """Declare a setting that is a table of text by name, empty unless it is given."""
    declared: Mapping[str, str] = field(default_factory=dict, metadata={_DESCRIPTION: description})
    return declared


def description_of(declared: Field[Any]) -> str:
    """Return what a setting decides; empty for a field that was not declared as one."""
    return str(declared.metadata.get(_DESCRIPTION, ""))


def bootstrap_problems(kafka: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the brokers that client properties name."""
    if kafka.get("bootstrap.servers", "").strip():
        return []
    return ["kafka.bootstrap.servers is not set: pass --bootstrap-server HOST:PORT"]


def cluster_problems(cluster: str) -> list[str]:
    """Return what is wrong with the name of the watched cluster, with which every key begins."""
    if cluster and "/" not in cluster:
        return []
    return [f"cluster must be a name without '/', got {cluster!r}"]


def listen_problems(section: str, host: str, port: int) -> list[str]:
    """Return what is wrong with where a process serves its pages."""
    problems = []
    if not host:
        problems.append(
            f"{section}.listen_host is empty: use 0.0.0.0 for every interface or 127.0.0.1 for this machine"
        )
    if not 0 <= port <= _HIGHEST_PORT:
        problems.append(f"{section}.listen_port is {port}: use 0 (any free port) to {_HIGHEST_PORT}")
    return problems


def authority(host: str, port: int) -> str:
    """Return host and port as they stand in an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
