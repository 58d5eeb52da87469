"""Makes a dashboard of panels in rows: variables, links at the top, places on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grafana.generate.links import FLEET, GROUP, MONITOR
from grafana.generate.panels import DATASOURCE
from grafana.generate.sdk import common, dashboard

from rebalance_exporters.metrics.series import PREFIX

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
_GROUP_NAMES = f'label_values({PREFIX}group_info{{cluster=~"$cluster"}}, group)'


@dataclass(frozen=True, slots=True)
class BoardRow:
    """Panels side by side, each with its width; the grid is 24 wide.

    An empty title means no heading. What is `collapsed` is asked for only when somebody opens it.
    """

    title: str
    height: int
    panels: Sequence[tuple[int, dashboard.Panel]]
    collapsed: bool = False


def side_by_side(width: int, *panels: dashboard.Panel) -> tuple[tuple[int, dashboard.Panel], ...]:
    """Return panels of one width as a row has them; what is more than 24 wide goes on below."""
    return tuple((width, panel) for panel in panels)


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard before it has a place for its panels. `variables` stand beside data source, cluster and live page.

    `marked` are titles of the panels on which rebalances are marked: in a storm the marks cover what they stand on.
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
    """Where the next panel goes, and what has its place."""

    placed: list[dashboard.Panel | dashboard.RowPanel] = field(default_factory=list)
    last_id: int = 0
    y: int = 0

    def add(self, row: BoardRow) -> None:
        """Place a row: its heading, if it has one, and its panels below, or inside where it is collapsed."""
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
    # Clusters are known before the first group is: a stream that only starts has a status.
    clusters = f"label_values({PREFIX}monitor_status_age_seconds, cluster)"
    return [_datasource(), names("cluster", "Cluster", clusters), *board.variables, _live_page(live_page)]


def choose_groups() -> dashboard.VariableModel:
    """Return the choice of groups, all of them at first."""
    return names("group", "Group", _GROUP_NAMES)


def choose_group() -> dashboard.VariableModel:
    """Return the choice of a group, the first one by name at first; several may be chosen, not all."""
    made = names("group", "Group", _GROUP_NAMES)
    # Without All Grafana begins with the first value.
    made.include_all, made.all_value, made.current = False, None, None
    return made


def choose_topics() -> dashboard.VariableModel:
    """Return the choice of topics among those of the groups that are chosen, all of them at first."""
    of_groups = f'{PREFIX}topic_lag{{cluster=~"$cluster",group=~"$group"}}'
    return names("topic", "Topic", f"label_values({of_groups}, topic)")


def _datasource() -> dashboard.VariableModel:
    kind = dashboard.VariableType.DATASOURCE
    return dashboard.VariableModel(kind, "datasource", "Data source", query="prometheus")


def names(name: str, label: str, query: str) -> dashboard.VariableModel:
    """Return the choice of one, several or all values of a label."""
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
    """Return marks at the moments of rebalances: the series' value is the time, whenever it was scraped."""
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
