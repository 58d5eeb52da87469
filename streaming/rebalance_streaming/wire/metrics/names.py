"""Canonical metric names: one name per metric for all spellings of JMX, KIP-714, Micrometer or Prometheus exporters.

Receives names as clients and agents write them; returns Kafka's own words joined by `_`. Where an agent lets its user
choose prefixes, a name is recognised by its ending. Every cache is bounded in entries and in the size of an entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from rebalance_streaming.wire.metrics.report import Temporality

#: No metric of Kafka has a longer name; longer ones are refused and not cached.
LONGEST_NAME = 512
_CACHED = 4096

_LETTERS_AND_DIGITS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_TO_SPACES = {code: " " for code in range(128) if chr(code) not in _LETTERS_AND_DIGITS}
_BETWEEN = re.compile(r"[^a-z0-9]+")
# `domain:key=value,...` or the JMX exporter's `domain<key=value, ...>`, then a separator and the attribute.
_VALUE = r'(?:"[^"]*"|[^,:"]*?)'
_JMX = re.compile(
    rf"[\w.\-]+:(?P<colon>[\w.\-]+={_VALUE}(?:,[\w.\-]+={_VALUE})*)(?:[:/ ](?P<after>[\w.\-]*))?"
    r"|[\w.\-]+<(?P<angle>[^<>]*)>(?:<[^<>]*>)?[:/ ]?(?P<behind>[\w.\-]*)"
)
# A key begins only where no other key continues: a long text without `=` is read once, not once per character.
_PROPERTY = re.compile(r'(?<![\w.\-])([\w.\-]+)=("[^"]*"|[^,]*)')
_NODE_GROUP = re.compile(r"(.*node-metrics)\.node-(.+)", re.IGNORECASE)

_COORDINATOR = (
    *("last_heartbeat_seconds_ago", "heartbeat_rate", "heartbeat_total", "heartbeat_response_time_max"),
    *(f"{phase}_{what}" for phase in ("join", "sync") for what in ("rate", "total", "time_avg", "time_max")),
    *("rebalance_total", "rebalance_rate_per_hour", "failed_rebalance_total", "failed_rebalance_rate_per_hour"),
    *("rebalance_latency_avg", "rebalance_latency_max", "rebalance_latency_total", "last_rebalance_seconds_ago"),
    *("assigned_partitions", "commit_rate", "commit_total", "commit_latency_avg", "commit_latency_max"),
    *(f"partition_{what}_latency_{of}" for what in ("revoked", "assigned", "lost") for of in ("avg", "max")),
)
_FETCH_MANAGER = (
    *("fetch_rate", "fetch_total", "fetch_latency_avg", "fetch_latency_max", "records_per_request_avg"),
    *("records_consumed_rate", "records_consumed_total", "bytes_consumed_rate", "bytes_consumed_total"),
    *("records_lag", "records_lag_avg", "records_lag_max"),
)
_OTHER = (
    *("last_poll_seconds_ago", "time_between_poll_avg", "time_between_poll_max", "poll_idle_ratio_avg"),
    *("time_between_network_thread_poll_avg", "time_between_network_thread_poll_max"),
    *("node_request_latency_avg", "node_request_latency_max"),
)

#: Endings of known names, with or without their group's name -> the canonical name.
_ENDINGS: Mapping[str, str] = MappingProxyType(
    {name: name for name in _OTHER}
    | {form: f"coordinator_{name}" for name in _COORDINATOR for form in (name, f"coordinator_{name}")}
    | {form: f"fetch_manager_{name}" for name in _FETCH_MANAGER for form in (name, f"fetch_manager_{name}")}
)
#: Names of the metrics that the rules know.
KNOWN = frozenset(_ENDINGS.values())
_MOST_WORDS = max(name.count("_") + 1 for name in _ENDINGS)
_LAST_WORDS = frozenset(name.rpartition("_")[2] for name in _ENDINGS)

_OF_CONSUMERS = frozenset(("kafka", "consumer", "coordinator"))
# These have metrics with the same last words.
_OF_OTHERS = frozenset(("producer", "admin", "stream", "streams", "share", "server", "controller"))


def canonical(name: str) -> str:
    """Return a metric's canonical name; empty for a name without letters and digits, or a name that is too long.

    A JMX object name with its attribute is treated as the value of its `type` and the attribute.
    """
    return "" if len(name) > LONGEST_NAME else _canonical(name)


@lru_cache(_CACHED)
def _canonical(name: str) -> str:
    said = _words(_without_jmx(name))
    kept: list[str] = []
    for word in said[2:] if said[:2] == ["org", "apache"] else said:
        repeats = word == "consumer" and kept[-1:] == ["consumer"]
        if word not in ("kafka", "metrics") and not repeats:
            kept.append(word)
    return "_".join(kept[1:] if kept[:1] == ["consumer"] else kept)


def _words(name: str) -> list[str]:
    lowered = name.lower()
    return (lowered.translate(_TO_SPACES) if lowered.isascii() else _BETWEEN.sub(" ", lowered)).split()


def recognise(name: str) -> str:
    """Return the canonical name of a metric whose prefix an agent's user may have chosen.

    If the name refers to consumers, its longest known ending decides; all others follow the plain rule.
    """
    return "" if len(name) > LONGEST_NAME else _recognise(name)


@lru_cache(_CACHED)
def _recognise(name: str) -> str:
    whole = _canonical(name)
    if not may_be_known(whole):
        return whole
    said = set(_words(name))
    if not said & _OF_CONSUMERS or said & _OF_OTHERS:
        return whole
    return known_ending(whole) or whole


def may_be_known(name: str) -> bool:
    """Return, by the last word, whether a canonical name may end in a known one; most names from agents do not."""
    return name.rpartition("_")[2] in _LAST_WORDS


def known_ending(name: str) -> str | None:
    """Return the longest known canonical name that a name in canonical form ends in; null for none."""
    if not may_be_known(name):
        return None
    words = name.split("_")[-_MOST_WORDS:]
    endings = ("_".join(words[start:]) for start in range(len(words)))
    return next((_ENDINGS[ending] for ending in endings if ending in _ENDINGS), None)


def is_of_producer(name: str) -> bool:
    """Return whether a canonical name is a producer's."""
    return name.startswith("producer_")


def temporality_of(name: str) -> Temporality:
    """Return the temporality of a metric if the format has none, from Kafka's names for cumulative metrics."""
    return Temporality.CUMULATIVE if name.endswith("_total") else Temporality.GAUGE


def _without_jmx(name: str) -> str:
    found = _JMX.fullmatch(name) if "=" in name else None
    if found is None:
        return name
    kind = _properties(found["colon"] or found["angle"] or "").get("type", "")
    return f"{kind}.{found['after'] or found['behind'] or ''}"


def _properties(text: str) -> dict[str, str]:
    return {key: value.strip('" ') for key, value in _PROPERTY.findall(text)}


@lru_cache(_CACHED)
def _split_group(group: str) -> tuple[str, Mapping[str, str]]:
    found = _JMX.fullmatch(group)
    if found is not None:
        properties = _properties(found["colon"] or found["angle"] or "")
        return properties.pop("type", ""), MappingProxyType(properties)
    name, _, rest = group.partition(",")
    node = _NODE_GROUP.fullmatch(name)
    properties = _properties(rest) | ({"node_id": node[2]} if node else {})
    return (node[1] if node else name), MappingProxyType(properties)


def split_group(group: str) -> tuple[str, Mapping[str, str]]:
    """Return a metric group's name and the properties that it contains.

    Three forms: kafka-python's `consumer-node-metrics.node-<id>`, a group followed by its tags as in
    `consumer-fetch-manager-metrics,topic=orders`, and a JMX object name.
    """
    return ("", {}) if len(group) > LONGEST_NAME else _split_group(group)
