"""`report`: a period as text and tables, and as a separate page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from exporters.terminal.clusters import HOSTILE, NOW_MS, WEEK_MS, WEEKLY
from exporters.terminal.running import hold_to_golden
from rebalance_contract.api_reports import EstimateRange, GroupName, PeriodReport, PeriodSums
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.markup import element, join
from rebalance_exporters.terminal.period import describe_period, explained, gravest_change, verdict
from rebalance_exporters.terminal.period_html import write_html
from rebalance_exporters.terminal.screen import Screen

ALONE = replace(WEEKLY, before=None, changed=(), kept_since_ms=NOW_MS - WEEK_MS // 2)
NOTHING = replace(
    WEEKLY,
    sums=PeriodSums(),
    before=None,
    groups=(),
    changed=(),
    causes=(),
    settings=(),
    worth=(),
    unexplained=PeriodSums(),
    rebalanced_groups=0,
    kept_since_ms=None,
    parts=tuple(replace(each, sums=PeriodSums()) for each in WEEKLY.parts),
)


class Reader(HTMLParser):
    """Collects the elements, references and text of a document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href", "srcset", "data", "action"}]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.text += data


def page(report: PeriodReport, url: str = "http://127.0.0.1:9642") -> Reader:
    """The page of a report."""
    return Reader(write_html(report, Clock(), Access("report", url)))


def notes(report: PeriodReport) -> tuple[str, ...]:
    """Return the notes about the interpretation of the numbers."""
    passages = {each.label: each.lines for each in describe_period(report, Clock(), Access("report")).passages}
    return passages.get("Note", ())


@pytest.mark.parametrize(("golden", "options"), [("report.txt", []), ("report.md", ["--markdown"])])
def test_a_week_on_one_page(monitor, golden, options):
    """Impact, reasons, settings, groups, causes, and changes."""
    outcome = monitor("report", *options)
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden(golden, outcome.out)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width):
    """No line is wider, and no number is cut."""
    written = StringIO()
    screen = Screen(written, width=width)
    screen.console = Console(
        file=written, width=width, force_terminal=True, color_system=None, highlight=False, markup=False
    )
    screen.report(describe_period(WEEKLY, Clock(), Access("report")))
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (row,) = (line.split() for line in lines if line.startswith("payments-enricher") and " heart" in line)
    assert row[1:8] == ["53.3", "min", "40", "s", "14", "41", "s"]
    assert "heartbeat_starvation 94%, poll_overrun 6%".startswith(" ".join(row[8:]).rstrip("…"))


def test_the_period_goes_to_the_exporter(monitor, exporter):
    """By default a week until now; or both times as typed, and one cluster."""
    monitor("report")
    monitor("report", "--since", "24h", "--until", "14:03:20", "--cluster", "prod")
    first, second = exporter.queries("report")
    assert first == {"since_ms": str(NOW_MS - WEEK_MS)}
    assert second == {
        "since_ms": str(NOW_MS - WEEK_MS // 7),
        "until_ms": str(NOW_MS - 10 * 60_000),
        "cluster": "prod",
    }


def test_json_is_the_exporters_answer(monitor):
    """For programs."""
    body = json.loads(monitor("report", "--json").out)
    assert body["sums"] == {"rebalances": 18, "rebalancing_ms": 245_000, "lost_partition_ms": 4_000_000, "uncosted": 1}
    assert body["settings"][0]["proposed"] == "3000"


def test_a_page_is_written(monitor, tmp_path):
    """At the given path, and only that path is printed."""
    path = tmp_path / "report.html"
    outcome = monitor("report", "--html", str(path))
    assert (outcome.code, outcome.out, outcome.err) == (0, "", f"wrote {path}\n")
    assert path.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "{}/none/report.html"], "cannot write --html {}/none/report.html: No such file or directory"),
        (["--since", "yesterday"], "cannot read the time 'yesterday': use a duration"),
        (["--json", "--markdown"], "--html, --markdown and --json do not go together"),
    ],
)
def test_what_is_wrong_is_said(monitor, tmp_path, words, said):
    """In one sentence that says what to type instead."""
    outcome = monitor("report", *(each.format(tmp_path) for each in words))
    assert outcome.code != 0
    assert said.format(tmp_path) in outcome.err
    assert "Traceback" not in outcome.err


def test_without_an_exporter_it_says_what_to_do(monitor):
    """Like the other commands."""
    outcome = monitor("report", "--url", "http://127.0.0.1:9")
    assert outcome.code == 1
    assert "start it with `rebalance-monitor export --bootstrap-server HOST:PORT`" in outcome.err


def test_an_exporter_without_reports_is_distinguished(monitor, exporter):
    """An earlier version has no such path."""
    del exporter.answers["report"]
    outcome = monitor("report")
    assert outcome.code == 1
    assert f"the exporter at {exporter.url} has no reports: it is older than this version, upgrade it" in outcome.err


def test_what_is_not_known_is_not_claimed():
    """Without the previous period there is no comparison, and the start of the known data is shown."""
    report = describe_period(ALONE, Clock(), Access("report"))
    assert "Before" not in {each.label for each in report.passages}
    assert "BEFORE" not in {column.heading for grid in report.grids for column in grid.columns}
    known = "the period before is not compared: of the rebalances that the exporter keeps, the earliest began "
    assert notes(ALONE)[0] == f"{known}2026-09-18 02:13:20 UTC"
    assert notes(WEEKLY) == ("of 1 rebalance it is not known what was lost",)
    reported = page(ALONE)
    assert "The period before is not known: see below." in reported.text
    assert f"T{known[1:]}2026-09-18 02:13:20 UTC." in reported.text


def test_what_makes_the_numbers_wrong_is_said_first():
    """Old data, and rebalances that were not kept."""
    reported = notes(replace(WEEKLY, ready=False, ready_text="no batch for 75 s", dropped_until_ms=NOW_MS - 60_000))
    assert reported[0] == "the data is not up to date: no batch for 75 s"
    assert reported[1].startswith(
        "incomplete: the exporter had no room for rebalances that began until 2026-09-21 14:12:20"
    )
    assert len(notes(replace(WEEKLY, dropped_until_ms=WEEKLY.since_ms - 1))) == 1


def test_nothing_is_said_of_nothing():
    """A calm period is a sentence instead of an empty table."""
    report = describe_period(NOTHING, Clock(), Access("report"))
    assert (report.headline, report.grids, report.hints) == ("no rebalance in 7 d", (), ())
    assert verdict(replace(NOTHING, cluster="prod")) == "prod: no rebalance in 7 d"
    reported = page(NOTHING)
    assert {"table", "ol"}.isdisjoint(reported.elements)
    assert "No group rebalanced." in reported.text


def test_the_page_needs_no_other_file():
    """No script, no loaded files, and links only if others can reach the exporter at that address."""
    reported = page(WEEKLY)
    assert {"script", "link", "img", "iframe", "a"}.isdisjoint(reported.elements)
    assert reported.links == []
    assert "url(" not in reported.text
    links = page(WEEKLY, "https://monitor.example:9642/").links
    assert links[0] == "https://monitor.example:9642/#/groups/prod/ledger"
    assert len(links) == len(WEEKLY.changed) + len(WEEKLY.groups)


def test_the_page_shows_what_the_terminal_shows():
    """The same numbers."""
    reported = page(WEEKLY).text
    for text in ("1.1 h", "before: 1.8 h ", "(-40 min)", "metadata_max_age_ms: 300000 → 3000", "-1.8 h", "90%"):
        assert text in reported
    assert "by poll_overrun" not in reported
    without = page(replace(WEEKLY, worth=())).text
    assert "in billing, payments-enricher, a and 9 more: 10 min lost in 4 rebalances, by poll_overrun" in without
    assert "session.timeout.ms: 30000" in reported
    assert "8 to 10 rebalances and 20 min to 43.3 min of lost time in payments-enricher" in reported
    assert (
        "3 to 4 rebalances and at most 10 min of lost time in billing (33 % of what it is), payments-enricher"
        in reported
    )


def test_undetermined_explains_nothing():
    """A finding without a cause does not count as one; nothing is rounded up."""
    assert explained(WEEKLY) == 0.9
    assert explained(replace(WEEKLY, causes=(replace(WEEKLY.causes[0], rule="undetermined"), WEEKLY.causes[1]))) == 0.15
    assert explained(replace(WEEKLY, unexplained=PeriodSums(1, 1, 1))) == 0.99
    assert explained(NOTHING) is None


@pytest.mark.parametrize("lost_ms", [0, 10_000])
def test_a_whole_share_is_not_rounded_down(lost_ms):
    """1 - 0.9 is 0.09999999999999998."""
    sums, uncaused = PeriodSums(100, 100_000, 10 * lost_ms), PeriodSums(90, 90_000, 9 * lost_ms)
    assert explained(replace(WEEKLY, sums=sums, causes=(), unexplained=uncaused)) == 0.1


def test_the_chart_has_a_bar_for_each_part():
    """The highest for the most lost time; by rebalances if no time was lost, and no chart if there were none."""
    drawn = write_html(WEEKLY, Clock(), Access("report"))
    heights = [float(each) for each in re.findall(r'height="([\d.]+)" class="value"', drawn)]
    assert heights == [pytest.approx(120 * (part % 7) / 6, abs=0.1) for part in range(28)]
    parts = tuple(replace(each, sums=replace(each.sums, lost_partition_ms=0)) for each in WEEKLY.parts)
    calm = replace(WEEKLY, sums=replace(WEEKLY.sums, lost_partition_ms=0), parts=parts)
    by_count = write_html(calm, Clock(), Access("report"))
    assert [float(each) for each in re.findall(r'height="([\d.]+)" class="value"', by_count)][:3] == [0, 60, 120]
    assert "the highest is 2 rebalances" in by_count
    assert set(re.findall(r'height="([\d.]+)" class="value"', write_html(NOTHING, Clock(), Access("x")))) == {"0.0"}


def test_each_setting_has_a_bar_of_the_rebalances_it_would_have_avoided():
    """With or without lost time: the largest bar is full, and any avoided rebalance gives a visible bar."""
    avoided = replace(WEEKLY.worth[0].avoided, lost_partition_ms=EstimateRange(0, 0), rebalances=EstimateRange(1, 2))
    several = (WEEKLY.worth[0], replace(WEEKLY.worth[1], avoided=avoided))
    drawn = write_html(replace(WEEKLY, worth=several, settings=()), Clock(), Access("report"))
    bars = re.findall(r'<span class="bar"[^>]*><span style="width:([\d.]+)%">', drawn.partition("What changed most")[0])
    assert [float(each) for each in bars] == [
        100.0,
        pytest.approx(100 * 2 / several[0].avoided.rebalances.high, abs=0.1),
    ]


def test_there_is_no_card_for_advice_that_is_not_there():
    """If all advice has an estimate, there is no further advice to list."""
    card = "What else findings advise"
    assert card in page(WEEKLY).text
    assert card not in page(replace(WEEKLY, settings=())).text


def test_names_of_strangers_stay_names():
    """No markup and no escape code of a group, cluster, owner, cause or setting has an effect."""
    group = replace(
        WEEKLY.groups[0],
        cluster=HOSTILE,
        group=HOSTILE,
        owner=HOSTILE,
        causes=(replace(WEEKLY.groups[0].causes[0], rule=HOSTILE),),
    )
    setting = replace(
        WEEKLY.settings[0],
        parameter=HOSTILE,
        current=HOSTILE,
        proposed=HOSTILE,
        rules=(HOSTILE,),
        groups=(GroupName(HOSTILE, HOSTILE),),
    )
    report = replace(
        WEEKLY,
        cluster=HOSTILE,
        version=HOSTILE,
        ready=False,
        ready_text=HOSTILE,
        groups=(group, *WEEKLY.groups[1:]),
        changed=(group,),
        causes=(replace(WEEKLY.causes[0], rule=HOSTILE),),
        settings=(setting,),
    )
    usual = replace(report, groups=WEEKLY.groups, changed=WEEKLY.changed[:1])
    reported, plain = page(report, "https://monitor.example"), page(usual, "https://monitor.example")
    assert set(reported.elements) == set(plain.elements)
    assert "script" not in reported.elements
    assert reported.text.isprintable() or not [
        each for each in reported.text if not each.isprintable() and each != "\n"
    ]
    assert "<script>|x`" in reported.text, "it is shown as it is"


def test_text_in_elements_is_escaped():
    """In content and attributes; the output of an element is not escaped again."""
    inner = element("b", "<&>")
    assert element("p", inner, '"', title='"<') == '<p title="&quot;&lt;"><b>&lt;&amp;&gt;</b>&quot;</p>'
    assert join("<", inner) == f"&lt;{inner}"
    assert element("rect", x=1.5, class_="a", stroke_width=2) == '<rect x="1.5" class="a" stroke-width="2"/>'


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (PeriodSums(1, 1, 9_000), PeriodSums(5, 5, 4_000), "+5 s"),
        (PeriodSums(1, 9, 4_000), PeriodSums(2, 5, 4_000), "-1 rebalance"),
        (PeriodSums(1, 3_000), PeriodSums(1, 5_000), "-2 s rebalancing"),
    ],
)
def test_what_changed_is_the_gravest(now, before, said):
    """By lost time, otherwise the number of rebalances, otherwise their duration."""
    assert gravest_change(now, before) == said
