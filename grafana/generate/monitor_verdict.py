"""The first row of the monitor's own dashboard: one tile for each problem that makes other dashboards wrong."""

from __future__ import annotations

from grafana.generate.links import to_readiness
from grafana.generate.panels import (
    BAD,
    GOOD,
    WORSE,
    About,
    Steps,
    show_stat,
)
from grafana.generate.queries import max_growth, max_of_exporter, max_of_query, of_clusters, of_exporters
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import NO_EXPORTER, NO_PROBE, NO_STREAM

_ANY_IS_BAD: Steps = ((None, GOOD), (1, BAD))
#: Outcomes of records that could not be read.
NOT_DECODED = 'outcome=~"unsupported|corrupt"'


def show_verdict() -> tuple[dashboard.Panel, ...]:
    """Return the tiles in order."""
    return (
        _show_ready(),
        _show_alive(),
        _show_unread(),
        _show_probed(),
        _show_undecoded(),
        _show_left_out(),
        _show_dropped(),
        _show_complained(),
    )


def _show_ready() -> dashboard.Panel:
    return show_stat(
        "Ready",
        About(
            "Per exporter: whether what is exported is complete and fresh.", "ready.", "click: /-/ready says why not."
        ),
        max_of_exporter("ready"),
        unit=units.Number,
        empty=NO_EXPORTER,
        steps=((None, BAD), (1, GOOD)),
        texts={"0": "not ready", "1": "ready"},
        links=(to_readiness(),),
        legend="{{instance}}",
    )


def _show_alive() -> dashboard.Panel:
    return show_stat(
        "Sign of life",
        About(
            "Time since the quietest query last reported anything.",
            "a few times its trigger at most.",
            "it grows: the stream is down; see the end of its log.",
        ),
        f"ceil(max({of_clusters('monitor_status_age_seconds')}))",
        unit=units.DurationSeconds,
        empty=NO_STREAM,
        steps=((None, GOOD), (60, WORSE), (180, BAD)),
    )


def _show_unread() -> dashboard.Panel:
    return show_stat(
        "Unread",
        About(
            "Log positions that no query has processed yet, an upper bound of records.",
            "near 0, or falling after a start.",
            "it rises: more cores, or a longer stream.activity_trigger_ms.",
        ),
        f"sum({max_of_query('source_lag_records')})",
        unit=units.Short,
        empty=NO_STREAM,
    )


def _show_probed() -> dashboard.Panel:
    return show_stat(
        "Newest probe",
        About(
            "Age of the newest probe of the cluster that was probed longest ago.",
            "a few probe intervals at most.",
            "it grows: lag, coordinators and states within a rebalance are old; see the prober's log.",
        ),
        f"ceil(time() - min({of_clusters('monitor_last_probe_timestamp_seconds')}))",
        unit=units.DurationSeconds,
        empty=NO_PROBE,
        steps=((None, GOOD), (300, WORSE)),
    )


def _show_undecoded() -> dashboard.Panel:
    records = of_clusters("monitor_records_total", NOT_DECODED)
    undecodable = max_growth(records, "cluster, query, type, version, outcome")
    return show_stat(
        "Not decoded",
        About(
            "Records of the offsets topic in the time shown that could not be decoded.",
            "0.",
            "part of the log is not understood: the panel Records not decoded says which type and version.",
        ),
        f"round(sum({undecodable})) or 0 * max({of_clusters('monitor_caught_up')})",
        unit=units.Short,
        empty=NO_STREAM,
        steps=_ANY_IS_BAD,
    )


def _show_left_out() -> dashboard.Panel:
    return show_stat(
        "Rows left out",
        About(
            "Rows of the stream's topics in the time shown that the exporter could not understand.",
            "0.",
            "update the exporter, or find what else writes to the topic.",
        ),
        f"round(sum({max_growth(of_exporters('monitor_contract_errors_total'), 'instance, topic, reason')}))",
        unit=units.Short,
        empty=NO_EXPORTER,
        steps=_ANY_IS_BAD,
    )


def _show_dropped() -> dashboard.Panel:
    return show_stat(
        "Over a limit",
        About(
            "Series left out in the time shown because of a limit.",
            "0.",
            "something is not watched: raise export.limit_groups or export.limit_members_per_group.",
        ),
        f"round(sum({max_growth(of_exporters('monitor_dropped_series_total'), 'instance, limit')}))",
        unit=units.Short,
        empty=NO_EXPORTER,
        steps=_ANY_IS_BAD,
    )


def _show_complained() -> dashboard.Panel:
    return show_stat(
        "Kafka errors",
        About(
            "Errors that the exporters' Kafka clients reported in the time shown.",
            "0, or a few while a broker restarts.",
            "/-/ready shows the latest one while the exporter is not ready.",
        ),
        f"round(sum({max_growth(of_exporters('monitor_kafka_errors_total'), 'instance')}))",
        unit=units.Short,
        empty=NO_EXPORTER,
        steps=((None, GOOD), (1, WORSE)),
    )
