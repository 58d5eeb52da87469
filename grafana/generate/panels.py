"""Builds panels of each kind from expressions and texts, as objects of the SDK without position and id.

Every panel has a description (what it shows, what good looks like, what to do), a unit, and a text for no data. Options
that must be equal in all panels are set here.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana.generate.sdk import common, dashboard, heatmap, prometheus, stat, statetimeline, table, timeseries, units

#: The data source that is chosen at the top of the dashboard.
DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

GOOD, WORSE, BAD, PLAIN, OFF = "green", "orange", "red", "text", "semi-dark-blue"
#: The colour of cells that need no attention.
CLEAR = "transparent"

#: Colours by lower bound; the first has no bound.
Steps = Sequence[tuple[float | None, str]]
Links = Sequence[Mapping[str, object]]
NEUTRAL: Steps = ((None, PLAIN),)

#: Grafana's own units for these print c/m and c/s.
PER_MINUTE, PER_SECOND = "suffix:/min", "suffix:/s"
#: Units whose axis ends at 1 or more, so that a line of zeros is at the bottom.
_COUNTS = (units.Short, PER_MINUTE, PER_SECOND)


@dataclass(frozen=True, slots=True)
class About:
    """Description of a panel: what it shows, what is normal, and what to do otherwise."""

    what: str
    good: str
    do: str

    @property
    def text(self) -> str:
        """The panel's description, in Markdown."""
        return f"{self.what}\n\n**Good:** {self.good}\n\n**Otherwise:** {self.do}"


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and the legend of its series with labels as `{{label}}`.

    `exemplars` requests exemplars. `unit` puts the series on a separate axis on the right. `colours` is the colour of
    its series, or one per value of the last label in the legend; None for external names, which get the colours of the
    palette in turn.
    """

    expr: str
    legend: str = ""
    exemplars: bool = False
    unit: str | None = None
    colours: str | Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table, with the values of its own query or of the label `label` of another query.

    `texts` replaces values by texts, `steps` colours the cell by thresholds. `hidden` columns are only for sorting, or
    for their labels. Columns without `width` share the remaining space. `decimals` None means those of the unit.
    """

    title: str
    expr: str | None = None
    unit: str | None = None
    label: str = ""
    hidden: bool = False
    steps: Steps = ()
    texts: Mapping[str, str | tuple[str, str]] | None = None
    links: Links = ()
    width: int | None = None
    wrap: bool = False
    decimals: int | None = None


def show_stat(
    title: str,
    about: About,
    expr: str,
    *,
    unit: str,
    empty: str,
    steps: Steps = NEUTRAL,
    texts: Mapping[str, str | tuple[str, str]] | None = None,
    links: Links = (),
    legend: str = "",
    named: bool = False,
    trend: bool = False,
) -> dashboard.Panel:
    """Return one number, or one per series, at the end of the dashboard's time range.

    `named` shows the name of the series instead of its value, which only sets the colour. `trend` draws the values over
    the time range below the number.
    """
    options = stat.Options(
        graph_mode=common.BigValueGraphMode.AREA if trend else common.BigValueGraphMode.NONE,
        color_mode=common.BigValueColorMode.BACKGROUND if len(steps) > 1 else common.BigValueColorMode.VALUE,
        justify_mode=common.BigValueJustifyMode.AUTO,
        text_mode=common.BigValueTextMode.NAME if named else common.BigValueTextMode.AUTO,
        reduce_options=common.ReduceDataOptions(values=False, calcs=["lastNotNull"], fields=""),
        orientation=common.VizOrientation.AUTO,
        text=_text_size(unit, words=named or texts is not None),
    )
    panel = _panel("stat", title, about, unit=unit, empty=empty, steps=steps, texts=texts)
    panel.options = options
    panel.targets = [_target(Query(expr, legend), "A", instant=not trend)]
    return _linked(panel, links)


def _text_size(unit: str, *, words: bool) -> common.VizTextDisplayOptions | None:
    """Return a fixed font size for words, because Grafana fits them to one line but wraps them; None for numbers."""
    if words:
        return common.VizTextDisplayOptions(value_size=_NAME_PIXELS)
    return common.VizTextDisplayOptions(value_size=_TIME_PIXELS) if unit == units.DateTimeFromNow else None


def show_lines(
    title: str,
    about: About,
    queries: Sequence[Query],
    *,
    unit: str,
    empty: str,
    stacked: bool = False,
    lowest: float | None = 0,
    highest: float | None = None,
    limit: tuple[float, str] | None = None,
    links: Links = (),
) -> dashboard.Panel:
    """Return series over time: lines, or stacked bars. `limit` draws a line.

    The axis ranges from `lowest` to `highest`; None means the range of the values, but at least to 1 for counts.
    """
    steps = ((None, GOOD), limit) if limit else NEUTRAL
    panel = _panel("timeseries", title, about, unit=unit, empty=empty, steps=steps)
    panel.options = timeseries.Options(
        legend=common.VizLegendOptions(
            display_mode=common.LegendDisplayMode.LIST, placement=common.LegendPlacement.BOTTOM, show_legend=True
        ),
        tooltip=common.VizTooltipOptions(
            mode=common.TooltipDisplayMode.MULTI,
            sort=common.SortOrder.DESCENDING,
            # Every reason has a series from the start, and most of them stay at 0.
            hide_zeros=stacked,
        ),
    )
    defaults = _defaults(panel)
    # Not by name: among ten names, two would probably get the same colour.
    defaults.color = dashboard.FieldColor(mode=dashboard.FieldColorModeId.PALETTE_CLASSIC)
    defaults.min_val, defaults.max_val = lowest, highest
    defaults.custom = _bars() if stacked else _lines(limited=limit is not None)
    if highest is None and lowest == 0 and unit in _COUNTS:
        defaults.custom.axis_soft_max = 1
    panel.targets = [_target(query, ref) for ref, query in zip(string.ascii_uppercase, queries, strict=False)]
    for target, query in zip(panel.targets, queries, strict=True):
        if query.unit is not None:
            _override(panel, "byFrameRefID", _ref(target), unit=query.unit, **{"custom.axisPlacement": "right"})
        _colour(panel, _ref(target), query)
    return _linked(panel, links)


def _colour(panel: dashboard.Panel, ref: str, query: Query) -> None:
    if isinstance(query.colours, str):
        _override(panel, "byFrameRefID", ref, color=fixed(query.colours))
    for name, colour in (query.colours or {}).items() if not isinstance(query.colours, str) else ():
        alone = re.fullmatch(r"\{\{\w+\}\}", query.legend)
        matcher = ("byName", name) if alone else ("byRegexp", f"/ {re.escape(name)}$/")
        _override(panel, *matcher, color=fixed(colour))


def fixed(colour: str) -> dashboard.FieldColor:
    """Return the setting for one fixed colour."""
    return dashboard.FieldColor(mode=dashboard.FieldColorModeId.FIXED, fixed_color=colour)


def show_table(
    title: str, about: About, columns: Sequence[TableColumn], *, empty: str, sort: str, rows: int = 100
) -> dashboard.Panel:
    """Return one row per set of labels, at most `rows` of them, largest first by the column titled `sort`.

    Labels that no column names are left out.
    """
    panel = _panel("table", title, about, unit="short", empty=empty)
    asked = [column for column in columns if column.expr is not None]
    # Grafana names the values of several queries `Value #A`, `Value #B`, …, and the value of a single one `Value`.
    names = {
        column.title: f"Value #{ref}" if len(asked) > 1 else "Value"
        for ref, column in zip(string.ascii_uppercase, asked, strict=False)
    }
    panel.targets = [
        _target(Query(column.expr or ""), ref, instant=True, shape=prometheus.PromQueryFormat.TABLE)
        for ref, column in zip(string.ascii_uppercase, asked, strict=False)
    ]
    names |= {column.title: column.label for column in columns if column.expr is None}
    shown = {names[column.title]: column for column in columns if not column.hidden}
    panel.transformations = [
        dashboard.DataTransformerConfig(id_val="merge", options={}),
        # Before columns are removed, because the sort column may be hidden.
        dashboard.DataTransformerConfig(
            id_val="sortBy", options={"fields": {}, "sort": [{"field": names[sort], "desc": True}]}
        ),
        dashboard.DataTransformerConfig(id_val="limit", options={"limitField": rows}),
        dashboard.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": list(shown)}}),
        dashboard.DataTransformerConfig(
            id_val="organize", options={"indexByName": {name: index for index, name in enumerate(shown)}}
        ),
    ]
    panel.options = table.Options(cell_height=common.TableCellHeight.SM, footer=common.TableFooterOptions(show=False))
    _defaults(panel).custom = common.TableFieldOptions(filterable=False)
    for name, column in shown.items():
        _override(panel, "byName", name, **_properties(column, name))
    return panel


def show_heatmap(title: str, about: About, expr: str, *, unit: str, empty: str) -> dashboard.Panel:
    """Return the buckets of a histogram over time; `expr` has one series per `le`, the increase in `$__interval`."""
    panel = _panel("heatmap", title, about, unit="short", empty=empty)
    # A step of at least two scrapes, even with one scrape a minute: then the increase within a step is known, and steps
    # do not overlap, so that each event is counted once.
    panel.interval = "2m"
    panel.options = heatmap.Options(
        calculate=False,
        color=heatmap.HeatmapColorOptions(
            mode=heatmap.HeatmapColorMode.SCHEME,
            scheme="Oranges",
            fill="dark-orange",
            scale=heatmap.HeatmapColorScale.EXPONENTIAL,
            exponent=0.5,
            steps=64,
        ),
        # Empty buckets are not drawn, instead of in a pale colour.
        filter_values=heatmap.FilterValueRange(le=1e-9),
        show_value=common.VisibilityMode.NEVER,
        y_axis=heatmap.YAxisConfig(unit=unit, axis_placement=common.AxisPlacement.LEFT),
        legend=heatmap.HeatmapLegend(show=True),
        tooltip=heatmap.HeatmapTooltip(mode=common.TooltipDisplayMode.SINGLE, y_histogram=False),
        exemplars=heatmap.ExemplarConfig(color="rgba(255,0,255,0.7)"),
    )
    _defaults(panel).custom = heatmap.FieldConfig()
    shape = prometheus.PromQueryFormat.HEATMAP
    panel.targets = [_target(Query(expr, "{{le}}", exemplars=True), "A", shape=shape)]
    return panel


def show_timeline(
    title: str, about: About, query: Query, *, empty: str, texts: Mapping[str, tuple[str, str]], links: Links = ()
) -> dashboard.Panel:
    """Return one band per series, coloured by the texts of its values."""
    panel = _panel("state-timeline", title, about, unit="none", empty=empty, texts=texts)
    # With colours by thresholds, Grafana ignores those of the texts (grafana#71804).
    _defaults(panel).color = fixed(PLAIN)
    panel.options = statetimeline.Options(
        show_value=common.VisibilityMode.AUTO,
        legend=common.VizLegendOptions(
            display_mode=common.LegendDisplayMode.LIST, placement=common.LegendPlacement.BOTTOM, show_legend=True
        ),
        tooltip=common.VizTooltipOptions(mode=common.TooltipDisplayMode.SINGLE, sort=common.SortOrder.NONE),
    )
    _defaults(panel).custom = statetimeline.FieldConfig(line_width=0, fill_opacity=80)
    panel.targets = [_target(query, "A")]
    return _linked(panel, links)


def _panel(
    kind: str,
    title: str,
    about: About,
    *,
    unit: str,
    empty: str,
    steps: Steps = NEUTRAL,
    texts: Mapping[str, str | tuple[str, str]] | None = None,
) -> dashboard.Panel:
    defaults = dashboard.FieldConfig(
        unit=unit,
        decimals=_decimals(unit, kind),
        no_value=empty,
        thresholds=_thresholds(steps),
        color=dashboard.FieldColor(mode=dashboard.FieldColorModeId.THRESHOLDS),
        mappings=_mappings(texts) if texts else None,
    )
    return dashboard.Panel(
        type_val=kind,
        title=title,
        description=about.text,
        datasource=DATASOURCE,
        field_config=dashboard.FieldConfigSource(defaults=defaults, overrides=[]),
    )


def _decimals(unit: str, kind: str) -> int | None:
    """Return the number of decimals of a single value; None means Grafana's default, as on axes."""
    if kind not in ("stat", "table"):
        return None
    return 1 if unit == units.PercentUnit else None


def _target(
    query: Query,
    ref: str,
    *,
    instant: bool = False,
    shape: prometheus.PromQueryFormat = prometheus.PromQueryFormat.TIME_SERIES,
) -> prometheus.Dataquery:
    return prometheus.Dataquery(
        datasource=DATASOURCE,
        editor_mode=prometheus.QueryEditorMode.CODE,
        expr=query.expr,
        format_val=shape,
        instant=instant,
        range_val=not instant,
        exemplar=query.exemplars or None,
        legend_format=query.legend or "__auto",
        ref_id=ref,
    )


def _ref(target: object) -> str:
    assert isinstance(target, prometheus.Dataquery)
    return target.ref_id or ""


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    return dashboard.ThresholdsConfig(
        mode=dashboard.ThresholdsMode.ABSOLUTE, steps=[dashboard.Threshold(value, color) for value, color in steps]
    )


def _mappings(texts: Mapping[str, str | tuple[str, str]]) -> list[dashboard.ValueMapping]:
    shown = [(value, (text, None) if isinstance(text, str) else text) for value, text in texts.items()]
    options = {
        value: dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(shown)
    }
    return [dashboard.ValueMap(options)]


#: Font sizes of a name and of a time in words, so that two lines fit the panel.
_NAME_PIXELS, _TIME_PIXELS = 26, 20

#: Below this width the icon of a filter leaves no room for the column's title.
_FILTER_PIXELS = 120

#: Mapping for NaN, the placeholder for unknown values that keeps a column from vanishing.
_UNKNOWN = dashboard.SpecialValueMap(
    dashboard.DashboardSpecialValueMapOptions(
        dashboard.SpecialValueMatch.NULL_AND_NAN, dashboard.ValueMappingResult(text="-", color=CLEAR, index=0)
    )
)


def _lines(*, limited: bool) -> common.GraphFieldConfig:
    return common.GraphFieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        line_width=1,
        fill_opacity=8,
        show_points=common.VisibilityMode.AUTO,
        thresholds_style=common.GraphThresholdsStyleConfig(common.GraphThresholdsStyleMode.DASHED) if limited else None,
    )


def _bars() -> common.GraphFieldConfig:
    return common.GraphFieldConfig(
        draw_style=common.GraphDrawStyle.BARS,
        line_width=0,
        fill_opacity=80,
        stacking=common.StackingConfig(mode=common.StackingMode.NORMAL, group="A"),
    )


def _defaults(panel: dashboard.Panel) -> dashboard.FieldConfig:
    assert panel.field_config is not None
    return panel.field_config.defaults


def _properties(column: TableColumn, name: str) -> dict[str, object]:
    found: dict[str, object] = {}
    if column.title != name:
        found["displayName"] = column.title
    if column.unit is not None:
        found["unit"] = column.unit
        decimals = _decimals(column.unit, "table") if column.decimals is None else column.decimals
        found |= {} if decimals is None else {"decimals": decimals}
    if column.expr is None:
        # As plain text: otherwise a label that looks like a number gets a unit, an empty one the text of empty panels.
        found |= {"unit": "string", "noValue": "-"}
        if not column.texts and (column.width or _FILTER_PIXELS) >= _FILTER_PIXELS:
            found["custom.filterable"] = True
    if column.width is not None:
        found["custom.width"] = column.width
    if column.texts:
        found["mappings"] = _mappings(column.texts)
    elif column.expr is not None:
        found["mappings"] = [_UNKNOWN]
    if column.steps:
        found["thresholds"] = _thresholds(column.steps)
        found["custom.cellOptions"] = common.TableColoredBackgroundCellOptions(
            mode=common.TableCellBackgroundDisplayMode.BASIC
        )
    elif column.texts and any(not isinstance(text, str) for text in column.texts.values()):
        found["custom.cellOptions"] = common.TableColorTextCellOptions()
    if column.wrap:
        found["custom.cellOptions"] = common.TableAutoCellOptions(wrap_text=True)
        # Grafana before 11.1 does not wrap text: there a click shows the whole text.
        found["custom.inspect"] = True
    if column.links:
        found["links"] = list(column.links)
    return found


def _linked(panel: dashboard.Panel, links: Links) -> dashboard.Panel:
    if links:
        _override(panel, "byType", "number", links=list(links))
    return panel


def _override(panel: dashboard.Panel, matcher: str, options: str, **properties: object) -> None:
    if panel.field_config is None or not properties:
        return
    panel.field_config.overrides.append(
        dashboard.DashboardFieldConfigSourceOverrides(
            matcher=dashboard.MatcherConfig(matcher, options),
            properties=[dashboard.DynamicConfigValue(name, value) for name, value in properties.items()],
        )
    )
