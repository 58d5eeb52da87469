"""The dashboard of the monitor itself: whether the data of the other dashboards is complete and current, or why not."""

from __future__ import annotations

from grafana.generate import colours
from grafana.generate.board import Board, BoardRow, side_by_side
from grafana.generate.links import MONITOR
from grafana.generate.monitor_verdict import NOT_DECODED, show_verdict
from grafana.generate.panels import (
    BAD,
    GOOD,
    PER_SECOND,
    WORSE,
    About,
    Query,
    TableColumn,
    show_lines,
    show_table,
)
from grafana.generate.queries import max_growth, max_of_exporter, max_of_query, of_clusters, of_exporters
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import NO_EXPORTER, NO_STREAM

_QUERY = "{{cluster}} / {{query}}"


def make() -> Board:
    """Return the dashboard."""
    return Board(
        uid=MONITOR,
        description="Whether the monitor keeps up, understands what it reads, and shows all of it.",
        rows=(
            BoardRow("Verdict", 4, side_by_side(3, *show_verdict())),
            BoardRow(
                "Does it keep up",
                8,
                (
                    *side_by_side(
                        12,
                        _show_lag(),
                        _show_delay(),
                        _show_batches(),
                        _show_batch_records(),
                        _show_ages(),
                        _show_diagnosis(),
                    ),
                    *side_by_side(8, _show_reading(), _show_lost(), _show_inputs()),
                ),
            ),
            BoardRow("Does it understand", 8, _show_understanding()),
            BoardRow(
                "Does it show all",
                8,
                side_by_side(6, _show_groups(), _show_diagnosed(), _show_series(), _show_drops()),
            ),
            BoardRow(
                "What runs",
                8,
                side_by_side(12, _show_state(), _show_memory(), _show_queries(), _show_exporters()),
            ),
        ),
    )


def _show_lag() -> dashboard.Panel:
    return show_lines(
        "Unread log positions",
        About(
            "Positions between a query's last batch and the end of the log.",
            "flat and low; falling after a start.",
            "rising for long: the stream needs more cores, or stream.activity_trigger_ms is too short.",
        ),
        (Query(max_of_query("source_lag_records"), _QUERY),),
        unit=units.Short,
        empty=NO_STREAM,
    )


def _show_delay() -> dashboard.Panel:
    return show_lines(
        "How late it learns of things",
        About(
            "At the end of a batch, the time since it started or, with a backlog, the age of the newest record read.",
            "less than a few seconds.",
            "high while positions are unread: what is shown is old, see Batches.",
        ),
        (Query(max_of_query("event_delay_seconds"), _QUERY),),
        unit=units.Seconds,
        empty=NO_STREAM,
        limit=(120, BAD),
    )


def _show_batches() -> dashboard.Panel:
    return show_lines(
        "Batches",
        About(
            "How long a query's last batch took, beside its trigger.",
            "shorter than the trigger.",
            "longer for a while: more cores. One long batch after a start is the log being read.",
        ),
        (
            Query(max_of_query("batch_seconds"), f"{_QUERY}: took"),
            Query(max_of_query("trigger_seconds"), f"{_QUERY}: trigger"),
        ),
        unit=units.Seconds,
        empty=NO_STREAM,
    )


def _show_batch_records() -> dashboard.Panel:
    return show_lines(
        "Records per batch",
        About(
            "How many records a query's last batch read.",
            "it goes with the traffic.",
            "it grows while batches take longer than their trigger: more cores.",
        ),
        (Query(max_of_query("batch_rows"), _QUERY),),
        unit=units.Short,
        empty=NO_STREAM,
    )


def _show_ages() -> dashboard.Panel:
    last = of_clusters("monitor_last_batch_timestamp_seconds")
    return show_lines(
        "Time since the last batch and the last sign of life",
        About(
            "How long ago a query last finished a batch or found nothing to read, and last reported anything at all.",
            "below three triggers.",
            "batches age but signs do not: a query hangs, restart the stream. Both age: the stream is down.",
        ),
        (
            Query(f"time() - max by (cluster, query) ({last})", f"{_QUERY}: batch"),
            Query(f"min by (cluster, query) ({of_clusters('monitor_status_age_seconds')})", f"{_QUERY}: sign of life"),
        ),
        unit=units.Seconds,
        empty=NO_STREAM,
    )


def _show_reading() -> dashboard.Panel:
    return show_lines(
        "Read of what was there at the start",
        About(
            "Share of the log, as it was when a query started, that it has processed.",
            "rising to 100 % after a start, and there it stays.",
            "it stands still below: see Batches, and the end of the stream's log.",
        ),
        (Query(max_of_query("read_ratio"), _QUERY),),
        unit=units.PercentUnit,
        empty="nothing was there",
        highest=1,
    )


def _show_diagnosis() -> dashboard.Panel:
    def of_diagnosis(metric: str) -> str:
        return f"min by (cluster) ({of_clusters(f'monitor_diagnosis_{metric}_seconds')})"

    return show_lines(
        "How old the diagnosis is",
        About(
            "Age of the newest of what the diagnosis has taken up, and of its last sign of life.",
            "seconds.",
            "signs age: it is down, and lag and windows are not shown. Only the other grows: it does not keep up.",
        ),
        (
            Query(of_diagnosis("delay"), "{{cluster}}: taken up"),
            Query(of_diagnosis("age"), "{{cluster}}: sign of life"),
        ),
        unit=units.Seconds,
        empty=NO_STREAM,
        limit=(60, BAD),
    )


def _grown_per_input(metric: str, what: str) -> Query:
    grown = f"max by (cluster, query, topic) (increase({of_clusters(f'monitor_log_{metric}_total')}[$__rate_interval]))"
    # Only series above 0: every input has a series of each kind from the start, and their names would fill the panel.
    return Query(f"{grown} > 0", f"{_QUERY}: {{{{topic}}}}, {what}")


def _show_lost() -> dashboard.Panel:
    return show_lines(
        "Log positions lost",
        About(
            "Positions of an input that were gone before a query had read them (unread), and those that it had read "
            "and that were cut from the log later (cut).",
            "nothing here.",
            "unread: counts of that time are too low; keep the topic longer, or the stream running. cut: see Inputs "
            "that changed.",
        ),
        (_grown_per_input("skipped_positions", "unread"), _grown_per_input("lost_positions", "cut")),
        unit=units.Short,
        empty="no position was lost",
        stacked=True,
    )


def _show_inputs() -> dashboard.Panel:
    return show_lines(
        "Inputs that changed",
        About(
            "Partitions of an input that were cut, came or went, and recreated topics. The stream goes on by itself.",
            "nothing here, or partitions that somebody added.",
            "cut: an election took a replica that lacked records. recreated, went: somebody deleted the topic.",
        ),
        (
            _grown_per_input("rewinds", "cut"),
            _grown_per_input("recreations", "recreated"),
            _grown_per_input("partitions_added", "came"),
            _grown_per_input("partitions_removed", "went"),
        ),
        unit=units.Short,
        empty="no input changed",
        stacked=True,
    )


def _show_diagnosed() -> dashboard.Panel:
    return show_lines(
        "Groups in the diagnosis",
        About(
            "Groups that the diagnosis knows, those that commit, those of them whose lag is known, and those whose "
            "topics have no probed end offsets yet.",
            "with_lag meets committing; nobody awaits ends for long.",
            "groups await ends: see the prober's log and its own metrics.",
        ),
        (
            Query(
                f"max by (cluster, kind) ({of_clusters('monitor_diagnosis_groups')})",
                "{{cluster}}: {{kind}}",
                colours=colours.DIAGNOSED,
            ),
        ),
        unit=units.Short,
        empty=NO_STREAM,
    )


def _per_second(metric: str, labels: str, where: str = "") -> str:
    """Return a rate; exporters that read the same totals count once."""
    return f"max by (cluster, {labels}) (rate({of_clusters(f'monitor_{metric}', where)}[$__rate_interval]))"


def _per_exporter(metric: str, *labels: str) -> str:
    selected = of_exporters(f"monitor_{metric}")
    return f"sum by ({', '.join(('instance', *labels))}) (rate({selected}[$__rate_interval]))"


def _show_understanding() -> tuple[tuple[int, dashboard.Panel], ...]:
    return (
        *side_by_side(8, _show_records(), _show_not_decoded(), _show_client_metrics()),
        # Wider, because its legend has an entry per topic.
        (12, _show_rows()),
        *side_by_side(6, _show_late(), _show_quarantine()),
    )


def _show_records() -> dashboard.Panel:
    everything = _per_second("records_total", "query, type, version, outcome")
    return show_lines(
        "Records by outcome",
        About(
            "Records of the offsets topic per second by how decoding ended.",
            "decoded and tombstone only.",
            "unsupported: a newer Kafka, update the monitor. corrupt: report it with the type and version.",
        ),
        (Query(f"sum by (outcome) ({everything}) > 0", "{{outcome}}", colours=colours.DECODING),),
        unit=PER_SECOND,
        empty=NO_STREAM,
        stacked=True,
    )


def _show_not_decoded() -> dashboard.Panel:
    undecoded = _per_second("records_total", "query, type, version, outcome", NOT_DECODED)
    return show_lines(
        "Records not decoded",
        About(
            "The same for unsupported and corrupt records, by type and version.",
            "nothing here.",
            "the type says what is missing: report it, or update the monitor.",
        ),
        (
            Query(
                f"sum by (type, version, outcome) ({undecoded})",
                "{{type}} v{{version}}: {{outcome}}",
                colours=colours.DECODING,
            ),
        ),
        unit=PER_SECOND,
        empty="all records were understood",
        stacked=True,
    )


def _show_client_metrics() -> dashboard.Panel:
    return show_lines(
        "Messages of client metrics",
        About(
            "Reports of clients per second by topic and outcome.",
            "decoded only.",
            "others: compare the reporter's version with docs/client-metrics.md. Nothing: no client reports, and "
            "causes within clients stay undetermined.",
        ),
        (
            Query(
                f"sum by (topic, outcome) ({_per_second('client_metrics_total', 'topic, outcome')})",
                "{{topic}}: {{outcome}}",
                colours=colours.CLIENT_METRICS,
            ),
        ),
        unit=PER_SECOND,
        empty="no client reports",
        stacked=True,
    )


def _show_rows() -> dashboard.Panel:
    return show_lines(
        "Rows read and left out",
        About(
            "Rows per second that exporters read from the stream's topics, those they left out, by the reason, and "
            "those that lack members or partitions because they would have been too large.",
            "no row left out.",
            "update the exporter, or find what else writes to the topic. failed is a defect: see the exporter's log.",
        ),
        (
            Query(_per_exporter("rows_total", "topic"), "{{instance}}: {{topic}}"),
            Query(
                f"{_per_exporter('contract_errors_total', 'topic', 'reason')} > 0",
                "{{instance}}: {{topic}}, {{reason}}",
            ),
            Query(f"{_per_exporter('truncated_rows_total', 'topic')} > 0", "{{instance}}: {{topic}}, cut"),
        ),
        unit=PER_SECOND,
        empty=NO_EXPORTER,
    )


def _show_late() -> dashboard.Panel:
    return show_lines(
        "Events with a wrong time",
        About(
            "Rebalances and generations whose records lie too far in the past (late) or ahead "
            "(future) for the sliding windows.",
            "nothing but a flat line.",
            "bars: a broker's clock is wrong.",
        ),
        (
            Query(
                f"max by (cluster, kind) (increase({of_clusters('monitor_late_events_total')}[$__rate_interval]))",
                "{{cluster}}: {{kind}}",
                colours=colours.LATE,
            ),
        ),
        unit=units.Short,
        empty="no group is known",
        stacked=True,
    )


def _show_quarantine() -> dashboard.Panel:
    set_aside = of_clusters("monitor_quarantined_total")
    return show_lines(
        "Set aside",
        About(
            "When records, rows, groups or rules were set aside so that the rest could go on, by stage and reason.",
            "nothing here.",
            "bars: something is not counted or not judged; stage and reason say what.",
        ),
        (
            Query(
                f"max by (cluster, stage, reason) (increase({set_aside}[$__rate_interval])) > 0",
                "{{cluster}}: {{stage}}, {{reason}}",
            ),
        ),
        unit=units.Short,
        empty="nothing was set aside",
        stacked=True,
    )


def _show_groups() -> dashboard.Panel:
    return show_lines(
        "Groups",
        About(
            "Known groups, by whether they have series or were left out because of the limit.",
            "none dropped.",
            "raise export.limit_groups.",
        ),
        (Query(max_of_exporter("groups", "outcome"), "{{instance}}: {{outcome}}", colours=colours.EXPORTED),),
        unit=units.Short,
        empty=NO_EXPORTER,
    )


def _show_series() -> dashboard.Panel:
    return show_lines(
        "Series of groups",
        About(
            "Series about groups in each exposition; about 40 per group.",
            "grows with the number of groups only.",
            "switch export.collect_partitions or export.collect_members off, or lower the limits.",
        ),
        (Query(max_of_exporter("series"), "{{instance}}"),),
        unit=units.Short,
        empty=NO_EXPORTER,
    )


def _show_drops() -> dashboard.Panel:
    return show_lines(
        "Series dropped",
        About(
            "When series were first left out, by the limit that did it.",
            "nothing but a flat line.",
            "bars: something is not watched, raise that limit.",
        ),
        (
            Query(
                "max by (instance, limit) "
                f"(increase({of_exporters('monitor_dropped_series_total')}[$__rate_interval]))",
                "{{instance}}: {{limit}}",
            ),
        ),
        unit=units.Short,
        empty=NO_EXPORTER,
        stacked=True,
    )


def _show_state() -> dashboard.Panel:
    return show_lines(
        "State rows",
        About(
            "Rows of state that queries hold, about one per group.",
            "as many as groups.",
            "it grows without new groups: who makes group ids that are used once?",
        ),
        (Query(max_of_query("state_rows"), _QUERY),),
        unit=units.Short,
        empty=NO_STREAM,
    )


def _show_memory() -> dashboard.Panel:
    return show_lines(
        "State in memory",
        About("Memory that the state of queries takes.", "flat.", "it grows: give the stream more memory in time."),
        (Query(max_of_query("state_bytes"), _QUERY),),
        unit=units.BytesIEC,
        empty=NO_STREAM,
    )


def _show_queries() -> dashboard.Panel:
    return show_table(
        "Queries",
        About(
            "The stream's queries: since when they run, whether they have read what was there when they started, and "
            "how often each was started again since.",
            "caught up, and a start that you remember.",
            "restarts that grow: /-/ready and the stream's log say why it ends.",
        ),
        (
            TableColumn("Cluster", label="cluster"),
            TableColumn("Query", label="query"),
            TableColumn("Caught up", max_of_query("caught_up"), texts={"0": ("no", WORSE), "1": ("yes", GOOD)}),
            TableColumn("Runs", max_of_query("failed"), texts={"0": ("yes", GOOD), "1": ("no", BAD)}),
            TableColumn("Progress", max_of_query("stalled"), texts={"0": ("yes", GOOD), "1": ("none", BAD)}),
            TableColumn(
                "Restarts", f"round({max_growth(of_clusters('monitor_restarts_total'), 'cluster, query')})", units.Short
            ),
            TableColumn("Started", f"1000 * {max_of_query('start_timestamp_seconds')}", units.DateTimeFromNow),
        ),
        empty=NO_STREAM,
        sort="Cluster",
    )


def _show_exporters() -> dashboard.Panel:
    return show_table(
        "Exporters and their settings files",
        About(
            "Versions of the exporters, and whether their owner and web config files were understood when last read.",
            "one version; every file understood.",
            "a file not understood: the former content is in force, the exporter's log says what is wrong. SIGHUP "
            "reads it again.",
        ),
        (
            TableColumn("Exporter", label="instance"),
            TableColumn("Version", label="version"),
            TableColumn("File", label="file"),
            TableColumn(
                "Understood",
                max_of_exporter("config_reload_successful", "file"),
                texts={"0": ("no", BAD), "1": ("yes", GOOD)},
            ),
            TableColumn(
                "Read",
                f"1000 * {max_of_exporter('config_reload_success_timestamp_seconds', 'file')}",
                units.DateTimeFromNow,
            ),
            TableColumn("Runs", max_of_exporter("build_info", "version"), hidden=True),
        ),
        empty=NO_EXPORTER,
        sort="Exporter",
    )
