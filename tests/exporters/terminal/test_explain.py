"""`explain`: the cause first, then its impact and the advice, then the evidence."""

import json
from dataclasses import replace

import pytest

from exporters.terminal.clusters import (
    CALM_ROW,
    COST,
    EIGHT,
    ENRICHER,
    ENRICHER_ROW,
    FORMATION,
    HOSTILE,
    LOSS,
    NOW_MS,
    OVERVIEW,
    SEVEN,
    SIX,
    STALE,
    STARVED,
    TWICE,
    member,
)
from exporters.terminal.running import hold_to_golden
from rebalance_contract import Advice, Alternative, Evidence, Generation
from rebalance_contract.api import AdviceRow
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.assignments import compare_assignments
from rebalance_exporters.terminal.explain import Facts, choose_rebalance, explain
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.phases import describe_phases
from rebalance_exporters.text.rebalances import describe_rebalance

ME = "payments-enricher"
FACTS = Facts(NOW_MS, ENRICHER, OVERVIEW.groups, LOSS, (STARVED, TWICE))


def passages(facts):
    """The sections of a report by their labels."""
    return {each.label: each.lines for each in explain(facts, Access("explain")).passages}


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("explain.txt", []),
        ("explain.md", ["--markdown"]),
        ("explain-first-join.txt", ["--rebalance", "12-17"]),
        ("explain-at.txt", ["--at", "10m"]),
    ],
)
def test_a_rebalance_is_explained(monitor, golden, options):
    """The latest, one by its id, one by a time; for a terminal and for a ticket."""
    outcome = monitor("explain", ME, *options)
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden(golden, outcome.out)


def test_without_a_rebalance_it_says_so_and_what_goes_on(monitor, exporter):
    """A finding without a rebalance is shown as the cause; the current members are listed."""
    exporter.answers |= {
        f"groups/{ME}": replace(ENRICHER, counters=type(ENRICHER.counters)()),
        f"groups/{ME}/rebalances": {"rebalances": []},
    }
    hold_to_golden("explain-nothing.txt", monitor("explain", ME).out)


def test_json_holds_all_that_the_report_is_made_of(monitor):
    """As objects of the contract."""
    body = json.loads(monitor("explain", ME, "--json").out)
    assert body["rebalance"]["rebalance_id"] == "12-4711"
    assert [each["finding_id"] for each in body["findings"]] == ["f-1", "f-2"]
    assert body["group"]["generation"] == 827


def test_a_time_finds_the_rebalance_that_went_on(monitor):
    """Without a remark if the time is within the rebalance."""
    outcome = monitor("explain", ME, "--at", "13:53:18")
    assert outcome.out.startswith("[INFO] payments-enricher: rebalance of 2026-09-21 13:53:20 UTC")
    assert "Note" not in outcome.out


def test_of_two_equally_near_the_newest_is_meant():
    """Users are more likely to remember that one."""
    older = replace(LOSS, rebalance_id="a", started_before_ms=1_000, completed_at_ms=2_000)
    newer = replace(LOSS, rebalance_id="b", started_before_ms=4_000, completed_at_ms=5_000)
    assert choose_rebalance([older, newer], 3_000).rebalance_id == "b"
    assert choose_rebalance([newer, older], 2_999).rebalance_id == "a"
    assert choose_rebalance([replace(older, completed_at_ms=None), older], 9_000).completed_at_ms is None


def test_old_data_is_said_first(monitor, exporter):
    """Before the remaining output."""
    exporter.answers["overview"] = STALE
    assert "Note     the data is not up to date: no batch for 75 s" in monitor("explain", ME).out


def test_an_unknown_cause_is_not_guessed():
    """The cause is undetermined, with the considered causes and what would separate them."""
    missing = "client metrics of 10.4.2.19: reports on time, late or missing would separate these"
    finding = replace(
        STARVED,
        rule="undetermined",
        variant=None,
        summary="consumer-enricher-7 was silent; why is not known.",
        alternatives=(Alternative("member_crash", "no client metrics"),),
        missing=(missing,),
        advice=(),
    )
    reported = passages(replace(FACTS, findings=(finding,)))
    assert reported["Cause"][0] == "undetermined: consumer-enricher-7 was silent; why is not known."
    assert reported["Unknown"] == (missing,)
    assert reported["Not"] == ("member_crash: no client metrics",)
    assert "Now" not in reported


@pytest.mark.parametrize(
    ("changes", "ago_ms", "cause"),
    [
        ({}, 20_000, "not judged yet: what happens in the seconds after it shows the cause; ask again in a minute"),
        (
            {},
            900_000,
            "no finding about this rebalance is kept: it is too old, or the stream that diagnoses does not run",
        ),
        ({"completed_at_ms": None}, 0, "not known yet: a rebalance is judged when it has ended"),
    ],
)
def test_a_rebalance_without_a_finding_says_why(changes, ago_ms, cause):
    """It is still ongoing, has just ended, or was forgotten."""
    rebalance = replace(LOSS, **({"completed_at_ms": NOW_MS - ago_ms} | changes))
    assert passages(replace(FACTS, rebalance=rebalance, findings=()))["Cause"] == (cause,)


@pytest.mark.parametrize("ended_ms", [None, NOW_MS - 10_000])
def test_a_rebalance_that_is_not_judged_yet_shows_the_cause_of_those_before_it(ended_ms):
    """A group that rebalances every few seconds always has an ongoing one; culprit and advice are still known."""
    rebalance = replace(LOSS, completed_at_ms=ended_ms)
    facts = replace(FACTS, rebalance=rebalance, findings=(), standing=(TWICE, STARVED))
    reported = passages(facts)
    assert reported["Cause"][0].startswith("not ")
    assert reported["Cause"][1] == f"of those before it: {STARVED.summary}"
    assert "heartbeat_starvation" in reported["Cause"][2]
    assert reported["Now"][0] == "upgrade: kafka-python 1.4.6 -> kafka-python 3.0.3 or later"
    assert [each.partition(":")[0] for each in reported["Also"]] == ["[TICKET] duplicate_processing"]
    assert explain(facts, Access("explain")).severity == STARVED.severity


def test_an_old_rebalance_without_a_finding_borrows_no_cause():
    """The findings that fire now are unrelated."""
    rebalance = replace(LOSS, completed_at_ms=NOW_MS - 900_000)
    reported = passages(replace(FACTS, rebalance=rebalance, findings=(), standing=(STARVED,)))
    assert len(reported["Cause"]) == 1
    assert "Now" not in reported


def test_a_rebalance_that_goes_on_says_since_when():
    """With its duration so far, in the headline."""
    ongoing = replace(LOSS, outcome="ongoing", completed_at_ms=None, duration_min_ms=None, duration_max_ms=None)
    report = explain(replace(FACTS, rebalance=ongoing, findings=()), Access("explain"))
    assert report.headline == f"{ME}: rebalancing since 2026-09-21 14:10:08 UTC, 3.2 min so far"
    assert describe_phases(describe_rebalance(ongoing, None).phases, Clock()).rows[-1] == ("still going on", "-", "-")


def test_the_same_advice_is_given_once():
    """Two findings may have the same advice."""
    reported = passages(replace(FACTS, findings=(STARVED, replace(TWICE, advice=STARVED.advice))))
    assert reported["Now"] == (
        "upgrade: kafka-python 1.4.6 -> kafka-python 3.0.3 or later",
        "metadata_max_age_ms: 300000 -> 3000 (from: heartbeat.interval.ms)",
    )


def test_advice_says_what_it_would_have_avoided():
    """As calculated by the API, after the formula."""
    advice = AdviceRow("session.timeout.ms", "10000", "45000", "max(...)", None, "would have avoided 2 rebalances")
    cause = replace(STARVED, advice=(advice, Advice("code", None, "poll", "-")))
    reported = passages(replace(FACTS, findings=(cause,)))
    assert reported["Now"] == (
        "session.timeout.ms: 10000 -> 45000 (from: max(...)); would have avoided 2 rebalances",
        "code: poll",
    )


def test_what_else_fires_names_its_rebalance_and_gives_no_advice_here():
    """Its advice would not have avoided this rebalance."""
    reported = passages(replace(FACTS, findings=(FORMATION,), standing=(STARVED,)))
    assert reported["Also"][0].endswith("(see rebalance 12-4711)")
    assert "Now" not in reported


@pytest.mark.parametrize(
    ("rows", "scope"),
    [
        ([], "coordinator broker 3 serves no other group"),
        ([CALM_ROW], "only this group: coordinator broker 3 serves 1 more, none rebalanced in the last 15 min"),
        (
            [CALM_ROW, *(replace(ENRICHER_ROW, group=name) for name in "dcba")],
            "4 of 5 more groups of coordinator broker 3 rebalanced in the last 15 min: a, b, c and 1 more",
        ),
        ([replace(ENRICHER_ROW, group="far", coordinator=4)], "coordinator broker 3 serves no other group"),
    ],
)
def test_the_scope_is_the_coordinator(rows, scope):
    """Whether other groups of the same broker were affected too."""
    assert passages(replace(FACTS, rows=(ENRICHER_ROW, *rows)))["Scope"] == (scope,)


def test_lag_says_when_it_was_back():
    """Counted from the start; without probes it is left out."""
    back = replace(LOSS, impact=replace(COST, lag_recovered_at_ms=LOSS.started_before_ms + 95_000))
    assert passages(replace(FACTS, rebalance=back))["Impact"][-1] == "lag 120 -> 1.9M, back 1.6 min after the start"
    unknown = replace(LOSS, impact=replace(COST, lag_before=None, lag_peak=None))
    assert not any("lag" in line for line in passages(replace(FACTS, rebalance=unknown))["Impact"])


def test_what_a_rebalance_cost_may_not_be_known():
    """It is unknown until the diagnosis has reported it; sums are complete even in a truncated row."""
    assert passages(replace(FACTS, rebalance=replace(LOSS, impact=None)))["Impact"][1:] == (
        "without commits: not known yet, the diagnosis has not reported",
    )
    cut = replace(LOSS, impact=replace(COST, is_truncated=True), members_before_count=900, members_after_count=800)
    reported = passages(replace(FACTS, rebalance=cut))
    assert reported["Impact"][1] == "without commits: 2 partitions or more, 42 s in all at most"
    assert reported["Since"][1].startswith("members 900 -> 800; ")


def test_windows_may_not_be_known():
    """Without the diagnosis the number of recent rebalances is unknown."""
    row = replace(ENRICHER_ROW, windows={})
    assert passages(replace(FACTS, rows=(row,)))["State"][0].count("rebalances in the last 15 min not known") == 1


def test_one_that_came_back_is_one_row():
    """Under a new id, by the replaced pair or its instance id; a departure and an unrelated join are two rows."""
    back = replace(SEVEN, member_id="new")
    static = member("s", "10.0.0.1", {"orders": [8]}, group_instance_id="s-1")
    rebalance = replace(
        LOSS,
        members_before=(SIX, SEVEN, static),
        members_after=(back, replace(static, member_id="s-2"), EIGHT),
        replaced=((SEVEN.member_id, "new"),),
    )
    shares = {row[0]: row[4] for row in compare_assignments(rebalance).rows}
    assert shares == {
        "new (new id)": "4 -> 4",
        "s-2 (new id)": "1 -> 1",
        SIX.member_id: "4 -> gone",
        EIGHT.member_id: "joined -> 4",
    }


def test_a_large_group_shows_whose_share_changed():
    """The others are counted."""
    crowd = tuple(member(f"m-{number:03}", "10.0.0.1", {"t": [number]}) for number in range(100))
    after = (replace(crowd[0], partitions={"t": [0, 99]}), *crowd[1:99])
    grid = compare_assignments(replace(LOSS, members_before=crowd, members_after=after))
    assert [row[2:] for row in grid.rows] == [
        ("m-000", "1 -> 2", "t:99", "-"),
        ("m-099", "1 -> gone", "-", "t:99"),
    ]
    assert grid.note == "and 98 members whose partitions did not change"


def test_an_unreadable_assignment_is_not_taken_for_none():
    """A question mark, and no gained partitions."""
    unknown = replace(SIX, partitions=None)
    grid = compare_assignments(replace(LOSS, members_before=(SIX,), members_after=(unknown,)))
    assert grid.rows[0][3:] == ("4 -> ?", "-", "-")


def test_phases_of_the_newer_protocols():
    """The coordinator decides, then the members converge."""
    rebalance = replace(LOSS, type="consumer", sync_ms=None, assigning_ms=120, reconciling_ms=5_200)
    assert [(each.what, each.took) for each in describe_rebalance(rebalance, None).phases] == [
        ("assigning: the coordinator decides", "120 ms"),
        ("reconciling: members hand over and take up", "5.2 s"),
    ]


def test_a_group_that_emptied_has_no_join():
    """There was no wait for members."""
    rebalance = replace(LOSS, members_after=(), generations=(Generation(826, "group_emptied"),), sync_ms=0)
    assert [each.what for each in describe_rebalance(rebalance, None).phases] == ["until nobody was left"]


@pytest.mark.parametrize("options", [[], ["--markdown"], ["--json"]])
def test_hostile_names_do_nothing(monitor, exporter, options):
    """In no format of the report, at no place; Markdown contains none of their HTML."""
    evil = replace(SEVEN, client_id=HOSTILE, host=HOSTILE, member_id=HOSTILE, partitions={HOSTILE: [1]})
    rebalance = replace(LOSS, members_before=(evil,), members_after=(SIX,), left=(HOSTILE,), reason=HOSTILE)
    finding = replace(STARVED, summary=HOSTILE, evidence=(Evidence("log", HOSTILE, HOSTILE, HOSTILE),))
    exporter.answers[f"groups/{ME}/rebalances/12-4711"] = {"rebalance": rebalance, "findings": [finding]}
    out = monitor("explain", ME, *options).out
    assert all(line.isprintable() for line in out.split("\n"))
    assert "\nall is well" not in out
    if options == ["--markdown"]:
        assert "<" not in out


def test_the_cluster_of_the_group_is_asked_about(monitor, exporter):
    """So that a group of the same name in another cluster is not included."""
    monitor("explain", ME)
    assert exporter.queries("overview") == [{"cluster": "prod"}]
    assert exporter.queries("findings") == [{"cluster": "prod", "group": ME, "state": "firing"}]
    assert exporter.queries(f"groups/{ME}/rebalances") == [{"cluster": "prod", "limit": "1"}]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--at", "10m", "--rebalance", "12-17"], "--at and --rebalance do not go together"),
        (["--markdown", "--json"], "--markdown and --json do not go together"),
    ],
)
def test_options_that_contradict_each_other(monitor, options, text):
    """They are rejected before any request."""
    outcome = monitor("explain", ME, *options)
    assert outcome.code == 2
    assert text in outcome.err
