"""Reads the counts of classic groups from /metrics, for comparison with a broker's own log."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client.parser import text_string_to_metric_families

from rebalance_deploy.broker_log import GroupTruth

_PREFIX = "kafka_rebalance_"


@dataclass(frozen=True, slots=True)
class Counted:
    """One group's current generation and its totals since the monitor started."""

    generation: int
    completed: int
    aborted: int

    def __str__(self) -> str:
        return f"generation {self.generation}, {self.completed} completed, {self.aborted} aborted"


def expected(truth: GroupTruth) -> Counted:
    """Return the counts /metrics must show for a group whose entire history is in the broker's log."""
    completed = len(truth.completed)
    return Counted(truth.generation, completed, truth.generation - completed)


def read_counts(url: str) -> dict[str, Counted]:
    """Return the counts of every group on the /metrics page under `url`; empty if it does not answer."""
    status, text = fetch(f"{url}/metrics")
    return counts_in(text) if status == HTTPStatus.OK else {}


def counts_in(text: str) -> dict[str, Counted]:
    """Return the counts of every group in the text of a /metrics page."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if group := sample.labels.get("group"):
                what = sample.name.removeprefix(_PREFIX) + sample.labels.get("outcome", "")
                sums[group, what] += sample.value
    return {
        group: Counted(
            generation=int(sums[group, "group_generation"]),
            completed=int(sums[group, "generations_totalcompleted"]),
            aborted=int(sums[group, "generations_totalaborted"]),
        )
        for group in {group for group, _ in list(sums)}
    }


def fetch(url: str, *, accept: str = "*/*", timeout_seconds: float = 5.0) -> tuple[int, str]:
    """Return the status and text of a page, or status 0 and the reason if there is no answer."""
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310  http to this machine
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:  # noqa: S310
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()
    except OSError as error:
        return 0, str(error)
