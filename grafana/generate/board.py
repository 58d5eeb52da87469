"""Builds a dashboard from rows of panels: variables, links at the top, positions on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grafana.generate.links import FLEET, GROUP, MONITOR
from grafana.generate.panels import DATASOURCE
from grafana.generate.sdk import common, dashboard

from rebalance_exporters.metrics.series import PREFIX

#: Readable by Grafana 10; newer versions convert it automatically.
SCHEMA_VERSION = 39

#: Default URL of the live page: the exporter's default address.
LIVE_PAGE = "http://localhost:9642"

TITLES = {
    FLEET: "Kafka rebalances / Fleet",
    GROUP: "Kafka rebalances / Group",
    MONITOR: "Kafka rebalances / Monitor",
}

_WIDTH = 24
_GROUP_NAMES = f'label_values({PREFIX}group_info{{cluster=~"$cluster"}}, group)'


@dataclass(frozen=True, slots=True)
class BoardRow:
    """Panels side by side, each with its width; the grid is 24 wide.

    An empty title means no heading. A `collapsed` row is queried only when it is opened.
    """

    title: str
    height: int
    panels: Sequence[tuple[int, dashboard.Panel]]
    collapsed: bool = False


def side_by_side(width: int, *panels: dashboard.Panel) -> tuple[tuple[int, dashboard.Panel], ...]:
    """Return panels of equal width for a row; panels beyond a width of 24 wrap to the next line."""
    return tuple((width, panel) for panel in panels)


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard without panel positions. `variables` are added to those for data source, cluster and live page.

    `marked` are the titles of the panels on which rebalances are marked; only some, because marks hide the panel in a
    storm.
    """

    uid: str
    description: str
    rows: Sequence[BoardRow]
    variables: Sequence[dashboard.VariableModel] = ()
    since: str = "now-3h"
    marked: Sequence[str] = ()


def build(board: Board, live_page: str) -> dashboard.Dashboard:
    """Return the SDK's dashboard."""
    panels = _place(board.rows)
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
        panels=panels,
        templating=dashboard.DashboardDashboardTemplating(_variables(board, live_page)),
        annotations=dashboard.AnnotationContainer([_mark_rebalances(panels, board.marked)] if board.marked else []),
        links=_links(board.uid),
    )


@dataclass(slots=True)
class _Grid:
    """The panels placed so far, and the position of the next one."""

    placed: list[dashboard.Panel | dashboard.RowPanel] = field(default_factory=list)
    last_id: int = 0
    y: int = 0

    def add(self, row: BoardRow) -> None:
        """Place a row: its heading, if any, and its panels below it, or inside it if the row is collapsed."""
        heading = self._head(row) if row.title else None
        panels = self._lay_out(row)
        if heading is not None and row.collapsed:
            heading.collapsed, heading.panels = True, panels
        else:
            self.placed += panels
            self.y = max(panel.grid_pos.y + panel.grid_pos.h for panel in panels if panel.grid_pos)

    def _head(self, row: BoardRow) -> dashboard.RowPanel:
        self.last_id += 1
        at = dashboard.GridPos(h=1, w=_WIDTH, x=0, y=self.y)
        heading = dashboard.RowPanel(title=row.title, grid_pos=at, id_val=self.last_id)
        self.placed.append(heading)
        self.y += 1
        return heading

    def _lay_out(self, row: BoardRow) -> list[dashboard.Panel]:
        x, y = 0, self.y
        for width, panel in row.panels:
            if x + width > _WIDTH:
                x, y = 0, y + row.height
            self.last_id += 1
            panel.id_val = self.last_id
            panel.grid_pos = dashboard.GridPos(h=row.height, w=width, x=x, y=y)
            x += width
        return [panel for _, panel in row.panels]


def _place(rows: Sequence[BoardRow]) -> list[dashboard.Panel | dashboard.RowPanel]:
    grid = _Grid()
    for row in rows:
        grid.add(row)
    return grid.placed


def _variables(board: Board, live_page: str) -> list[dashboard.VariableModel]:
    # From the status, because a starting stream reports its status before any group is known.
    clusters = f"label_values({PREFIX}monitor_status_age_seconds, cluster)"
    return [_datasource(), names("cluster", "Cluster", clusters), *board.variables, _live_page(live_page)]


def choose_groups() -> dashboard.VariableModel:
    """Return the variable for groups; the default is All."""
    return names("group", "Group", _GROUP_NAMES)


def choose_group() -> dashboard.VariableModel:
    """Return the variable for one or several groups; the default is the first by name, and there is no All."""
    made = names("group", "Group", _GROUP_NAMES)
    # Without All, Grafana's default is the first value.
    made.include_all, made.all_value, made.current = False, None, None
    return made


def choose_topics() -> dashboard.VariableModel:
    """Return the variable for topics of the chosen groups; the default is All."""
    of_groups = f'{PREFIX}topic_lag{{cluster=~"$cluster",group=~"$group"}}'
    return names("topic", "Topic", f"label_values({of_groups}, topic)")


def _datasource() -> dashboard.VariableModel:
    kind = dashboard.VariableType.DATASOURCE
    return dashboard.VariableModel(kind, "datasource", "Data source", query="prometheus")


def names(name: str, label: str, query: str) -> dashboard.VariableModel:
    """Return a variable for one, several or all values of a label."""
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


def _mark_rebalances(
    panels: Sequence[dashboard.Panel | dashboard.RowPanel], titles: Sequence[str]
) -> dashboard.AnnotationQuery:
    """Return annotations at the times of rebalances; the time is the value of the series, not that of the scrape."""
    moments = f'{PREFIX}last_rebalance_timestamp_seconds{{cluster=~"$cluster",group=~"$group"}}'
    on = [panel.id_val for panel in panels if panel.title in titles and panel.id_val is not None]
    return dashboard.AnnotationQuery(
        name="Rebalances",
        datasource=common.DataSourceRef(type_val="prometheus", uid="${datasource}"),
        enable=True,
        icon_color="purple",
        filter_val=dashboard.AnnotationPanelFilter(ids=on),
        expr=f"max by (cluster, group) ({moments}) * 1000",
        use_value_for_time=True,
        title_format="{{group}}",
        text_format="Last rebalance completed, or begun if it goes on ({{cluster}})",
        tag_keys="cluster",
        step="15s",
    )
