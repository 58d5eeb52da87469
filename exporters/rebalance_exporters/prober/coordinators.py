"""Finds the brokers that coordinate groups; independent of whether the groups exist."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.errors import for_code
from kafka.protocol.metadata import FindCoordinatorRequest

from rebalance_exporters.prober.brokers import Answer, Brokers

#: First version that takes many groups per request (KIP-699; brokers from 3.0 on).
_MANY_COORDINATORS = 4


def find_coordinators(brokers: Brokers, groups: Sequence[str]) -> dict[str, int | Exception]:
    """Return the broker id of each group's coordinator, or the error if there is none."""
    if not groups:
        return {}
    if brokers.version_of(FindCoordinatorRequest) < _MANY_COORDINATORS:
        each = [FindCoordinatorRequest(key=group, key_type=0, max_version=_MANY_COORDINATORS - 1) for group in groups]
        rows = dict(zip(groups, brokers.ask({None: each})[None], strict=True))
    else:
        many = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups), min_version=_MANY_COORDINATORS)
        (answer,) = brokers.ask({None: [many]})[None]
        rows = (
            dict.fromkeys(groups, answer)
            if isinstance(answer, Exception)
            else {row.key: row for row in answer.coordinators}
        )
    return {group: _coordinator_of(row) for group, row in rows.items()}


def _coordinator_of(row: Answer | Exception) -> int | Exception:
    if isinstance(row, Exception):
        return row
    return for_code(row.error_code)() if row.error_code else int(row.node_id)
