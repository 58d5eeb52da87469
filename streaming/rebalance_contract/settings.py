"""Declares settings of components: fields of a frozen dataclass with a default and a description.

The command line fills these dataclasses, and docs/configuration.md is generated from them. Settings that several
components share are described and checked here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any, TypeVar

T = TypeVar("T")
_DESCRIPTION = "description"
_HIGHEST_PORT = 65535

#: Default and description of `sources.log`, a setting that stream and prober share.
READS_LOG = True
READS_LOG_TEXT = (
    "Whether the stream may read `__consumer_offsets`. With `false` it uses only probes, client metrics and brokers' "
    "logs, and all counts are lower bounds; see [without-the-log.md](without-the-log.md)."
)
#: Descriptions of the settings of every process's HTTP server.
WEB_CONFIG_TEXT = (
    "File with TLS and basic-auth settings, in the format of Prometheus's exporter-toolkit. It is reloaded when it or "
    "a file that it names changes, and on SIGHUP. Empty: neither TLS nor passwords."
)
HEALTH_TEXT = "If true, `/-/healthy` and `/-/ready` need no password even where `web_config_file` requires one."


def setting(default: T, description: str) -> T:
    """Return a dataclass field for a setting with this default. `description` is Markdown, one or a few sentences."""
    declared: T = field(default=default, metadata={_DESCRIPTION: description})
    return declared


def table(description: str) -> Mapping[str, str]:
    """Return a dataclass field for a setting that is a table of texts by name, empty by default."""
    declared: Mapping[str, str] = field(default_factory=dict, metadata={_DESCRIPTION: description})
    return declared


def description_of(declared: Field[Any]) -> str:
    """Return a setting's description; empty for a field that is not a setting."""
    return str(declared.metadata.get(_DESCRIPTION, ""))


def bootstrap_problems(kafka: Mapping[str, str]) -> list[str]:
    """Return problems of the broker addresses in client properties."""
    if kafka.get("bootstrap.servers", "").strip():
        return []
    return ["kafka.bootstrap.servers is not set: pass --bootstrap-server HOST:PORT"]


def cluster_problems(cluster: str) -> list[str]:
    """Return problems of the name of the watched cluster, which is the first part of every key."""
    if cluster and "/" not in cluster:
        return []
    return [f"cluster must be a name without '/', got {cluster!r}"]


def listen_problems(section: str, host: str, port: int) -> list[str]:
    """Return problems of the listen address of a process's HTTP server."""
    problems = []
    if not host:
        problems.append(
            f"{section}.listen_host is empty: use 0.0.0.0 for every interface or 127.0.0.1 for this machine"
        )
    if not 0 <= port <= _HIGHEST_PORT:
        problems.append(f"{section}.listen_port is {port}: use 0 (any free port) to {_HIGHEST_PORT}")
    return problems


def authority(host: str, port: int) -> str:
    """Return `host:port` for a URL, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
