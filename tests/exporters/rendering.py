"""Renders expositions of views, and parses their samples."""

from collections.abc import Iterable

from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from exporters.contract_rows import (
    NOW_MS,
)
from rebalance_contract import (
    GroupTiming,
    MemberTiming,
    encode,
)
from rebalance_contract.api import Readiness
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import HEARTBEATS, Row, View

READY = Readiness(True, "ready")
LOADED = ReadProgress(loaded=True)
OPENMETRICS, TEXT = Style.OPENMETRICS, Style.TEXT


def expose(
    view: View, style: Style = TEXT, *, exposition: Exposition | None = None, now_ms: int = NOW_MS, limit: int = 100
) -> str:
    """The body of /metrics for a view."""
    exposition = exposition or Exposition(limit_groups=limit, version="1.2.3")
    return exposition.render(view.fleet(), LOADED, READY, now_ms, style).decode()


def parse(text: str, style: Style = TEXT) -> list[Family]:
    """The metric families as parsed by prometheus-client."""
    return list(parse_openmetrics(text) if style is OPENMETRICS else parse_text(text))


def samples_of(families: Iterable[Family]) -> list[Sample]:
    """All samples in order."""
    return [sample for family in families for sample in family.samples]


def value_of(text: str, name: str, **labels: str) -> float | None:
    """The value of the only series of that name with these labels, or null if there is none."""
    found = [s.value for s in samples_of(parse(text)) if s.name == name and labels.items() <= s.labels.items()]
    assert len(found) < 2, found
    return found[0] if found else None


def timing_row(members: int, at_ms: int = NOW_MS) -> Row:
    """Heartbeats of some members, one of which reports no poll."""
    reported = tuple(
        MemberTiming(None, f"c-{i}", "h", "java", at_ms, 1_000.0 * i, 0.5, poll_age_ms=None if i == 0 else 2_000.0)
        for i in reversed(range(members))
    )
    return Row(HEARTBEATS, b"prod/payments", encode(GroupTiming("prod", "payments", at_ms, {}, reported)))
