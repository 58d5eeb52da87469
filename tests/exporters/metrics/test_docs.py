from pathlib import Path

from rebalance_devtools.docs import metrics as metrics_docs

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_of_metrics_is_what_the_table_says() -> None:
    """docs/metrics.md is generated: after a change of a metric write the page again."""
    assert PAGE.read_text("utf-8") == metrics_docs.render(), "python -m rebalance_devtools.docs.metrics docs/metrics.md"


def test_every_metric_stands_on_the_page_once() -> None:
    """The page explains every exported metric."""
    rows = [line for line in metrics_docs.render().splitlines() if line.startswith("| `")]
    names = [line.split("`")[1] for line in rows]
    assert len(names) == len(set(names))
    assert {"rebalances_total", "state_seconds_total", "member_poll_age_seconds", "monitor_build_info"} <= set(names)
