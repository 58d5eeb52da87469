"""Makes a dashboard of panels in rows: variables, links at the top, places on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana.generate.links import FLEET, GROUP, MONITOR
from grafana.generate.panels import DATASOURCE
from grafana.generate.sdk import common, dashboard

from rebalance_exporters.series import PREFIX

#: Grafana 10 reads it, and newer ones convert it by themselves.
SCHEMA_VERSION = 39

#: Where the exporter's live page is unless somebody says otherwise: the exporter's own default address.
LIVE_PAGE = "http://localhost:9642"

TITLES = {
    FLEET: "Kafka rebalances / Fleet",
    GROUP: "Kafka rebalances / Group",
    MONITOR: "Kafka rebalances / Monitor",
}

_WIDTH = 24


@dataclass(frozen=True, slots=True)
class BoardRow:
    """Panels side by side under a heading, each with its width; the grid is 24 wide."""

    title: str
    height: int
    panels: Sequence[tuple[int, dashboard.Panel]]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard before it has a place for its panels. `by_group` gives it the variable `group`."""

    uid: str
    description: str
    rows: Sequence[BoardRow]
    by_group: bool
    since: str = "now-3h"
    annotations: Sequence[dashboard.AnnotationQuery] = ()


def build(board: Board, live_page: str) -> dashboard.Dashboard:
    """Return the SDK's dashboard."""
    return dashboard.Dashboard(
        uid=board.uid,
        title=TITLES[board.uid],
        description=board.description,
        tags=["kafka", "kafka-rebalance"],
        timezone="utc",
        editable=False,
        graph_tooltip=dashboard.DashboardCursorSync.CROSSHAIR,
        time=dashboard.DashboardDashboardTime(board.since, "now"),
        refresh="30s",
        schema_version=SCHEMA_VERSION,
        panels=_place(board.rows),
        templating=dashboard.DashboardDashboardTemplating(_variables(board, live_page)),
        annotations=dashboard.AnnotationContainer(list(board.annotations)),
        links=_links(board.uid),
    )


def _place(rows: Sequence[BoardRow]) -> list[dashboard.Panel | dashboard.RowPanel]:
    placed: list[dashboard.Panel | dashboard.RowPanel] = []
    y = 0
    for row in rows:
        at = dashboard.GridPos(h=1, w=_WIDTH, x=0, y=y)
        placed.append(dashboard.RowPanel(title=row.title, grid_pos=at, id_val=len(placed) + 1, panels=[]))
        x, y = 0, y + 1
        for width, panel in row.panels:
            if x + width > _WIDTH:
                x, y = 0, y + row.height
            panel.id_val = len(placed) + 1
            panel.grid_pos = dashboard.GridPos(h=row.height, w=width, x=x, y=y)
            placed.append(panel)
            x += width
        y += row.height
    return placed


def _variables(board: Board, live_page: str) -> list[dashboard.VariableModel]:
    info = f"{PREFIX}group_info"
    of_group = (
        [_names("group", "Group", f'label_values({info}{{cluster=~"$cluster"}}, group)')] if board.by_group else []
    )
    # Clusters are known before the first group is: a stream that only starts has a status.
    clusters = f"label_values({PREFIX}monitor_status_age_seconds, cluster)"
    return [_datasource(), _names("cluster", "Cluster", clusters), *of_group, _live_page(live_page)]


def _datasource() -> dashboard.VariableModel:
    kind = dashboard.VariableType.DATASOURCE
    return dashboard.VariableModel(kind, "datasource", "Data source", query="prometheus")


def _names(name: str, label: str, query: str) -> dashboard.VariableModel:
    made = dashboard.VariableModel(dashboard.VariableType.QUERY, name, label, query=query, definition=query)
    made.datasource = DATASOURCE
    made.refresh = dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED
    made.sort = dashboard.VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC
    made.multi, made.include_all, made.all_value = True, True, ".*"
    made.current = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])
    return made


def _live_page(url: str) -> dashboard.VariableModel:
    made = dashboard.VariableModel(dashboard.VariableType.TEXTBOX, "monitor", "Live page", query=url)
    made.description = "Where a browser reaches the exporter, without a trailing slash."
    made.current = dashboard.VariableOption(selected=True, text=url, value=url)
    return made


def _links(uid: str) -> list[dashboard.DashboardLink]:
    others = [
        dashboard.DashboardLink(
            title=title.rpartition("/ ")[2],
            icon="dashboard",
            tooltip=title,
            url=f"/d/{other}",
            include_vars=True,
            keep_time=True,
        )
        for other, title in TITLES.items()
        if other != uid
    ]
    page = dashboard.DashboardLink(
        title="Live page",
        icon="external link",
        tooltip="Groups as they are now, with every rebalance explained",
        url="${monitor:raw}/",
        target_blank=True,
    )
    return [*others, page]


def annotate_rebalances() -> dashboard.AnnotationQuery:
    """Return marks at the very moments of rebalances: the series' value is the time, whenever it was scraped."""
    moments = f'{PREFIX}last_rebalance_timestamp_seconds{{cluster=~"$cluster",group=~"$group"}}'
    return dashboard.AnnotationQuery(
        name="Rebalances",
        datasource=common.DataSourceRef(type_val="prometheus", uid="${datasource}"),
        enable=True,
        icon_color="purple",
        expr=f"max by (cluster, group) ({moments}) * 1000",
        use_value_for_time=True,
        title_format="{{group}}",
        text_format="Last rebalance completed, or begun if it goes on ({{cluster}})",
        tag_keys="cluster",
        step="15s",
    )
