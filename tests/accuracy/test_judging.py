"""How recordings are judged: which findings are right, the confidence interval of a share, and stale reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accuracy import freshness
from accuracy.calibration import calibration_error, quantile, reliability, say_share, wilson
from accuracy.outcomes import ABSTAINED, BESIDE, HINTED, LESS_EXACT, RIGHT, VERDICTS, WRONG, Claim, outcome_of
from accuracy.recordings import FAMILIES, FOLDER, SOURCES, Recording, Watched, declared, recordings
from accuracy.report import judge, render
from accuracy.without_log import Counted, counted_lines
from rebalance_contract import (
    CoordinatorAct,
    Finding,
    FindingState,
    Rebalance,
    RebalanceOutcome,
    Subject,
    SubjectMember,
)
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.programme import MEASURED
from rebalance_streaming.recordings.log_files import LogFileError

_FAULT_MS, _END_MS = 10_000, 20_000


def finding(rule: str, confidence: float, *, primary: bool = True, members: Sequence[str] = (), **more: Any) -> Finding:
    """A finding about the group's rebalance r1, which the fault caused."""
    fields: dict[str, Any] = {
        "finding_id": f"{rule}-{confidence}",
        "cluster": "default",
        "group": "g",
        "rule": rule,
        "severity": "info",
        "state": FindingState.FIRING,
        "primary": primary,
        "confidence": confidence,
        "subject": Subject(members=tuple(SubjectMember(member_id=each) for each in members)),
        "started_at_ms": _FAULT_MS,
        "detected_at_ms": _END_MS,
        "updated_at_ms": _END_MS,
        "resolved_at_ms": None,
        "summary": "",
        "rebalance_ids": ("r1",),
    }
    return Finding(**{**fields, **more})


#: What several causes have in common, said of the culprit and of the rebalance that the fault caused.
_LESS_EXACT = finding("session_expiry", 0.9, members=("m2-x",))


def rebalance(name: str, ended_ms: int) -> Rebalance:
    """A rebalance caused by a departure."""
    return Rebalance(
        "default",
        "g",
        name,
        type="classic",
        reason="departure",
        outcome=RebalanceOutcome.COMPLETED,
        generation_from=1,
        generation_to=2,
        generations=(),
        generations_aborted=0,
        started_after_ms=None,
        started_before_ms=ended_ms - 1_000,
        join_ended_at_ms=ended_ms,
        completed_at_ms=ended_ms,
        sync_ms=None,
        duration_min_ms=None,
        duration_max_ms=None,
        protocol="range",
        leader=None,
        members_before=(),
        members_after=(),
        joined=(),
        left=(),
    )


def recording(story: str, *found: Finding, broker_lines: tuple[str, ...] = ()) -> Recording:
    """A recording of a story in which m2 was killed, with the findings of its replay for any sources."""
    events = (
        {"t_ms": 1_000, "name": "m1", "process": "m1/1", "event": "assigned", "member_id": "m1-x"},
        {"t_ms": 1_000, "name": "m2", "process": "m2/1", "event": "assigned", "member_id": "m2-x"},
        {"t_ms": _FAULT_MS, "name": "m2", "process": "", "event": "killed"},
    )
    run = StoryRun(story, False, 1, "4.3.1", "java", {}, "g", "t-g", 0, 60_000, 0, events, broker_lines)
    rows = {
        "finding": [msgspec.json.encode(each) for each in found],
        "rebalance": [msgspec.json.encode(rebalance(name, at)) for name, at in (("r1", _END_MS), ("r2", 30_000))],
    }
    watched = Watched(rows, {"r1": _END_MS + 5_000}, frozenset())
    return Recording("x", run, _found_with=dict.fromkeys(SOURCES, watched))


@pytest.mark.parametrize(
    ("found", "verdict", "claimed"),
    [
        ((finding("member_crash", 0.9),), RIGHT, "member_crash"),
        ((finding("member_crash", 0.54),), HINTED, "member_crash"),
        ((finding("member_crash", 0.9, primary=False),), ABSTAINED, "-"),
        ((finding("undetermined", 0.9),), ABSTAINED, "-"),
        ((finding("member_crash", 0.9), finding("process_pause", 0.6)), BESIDE, "member_crash"),
        ((finding("member_crash", 0.9), finding("rebalance_storm", 0.9)), RIGHT, "member_crash"),
        ((finding("member_crash", 0.5), finding("process_pause", 0.6)), WRONG, "process_pause"),
        ((finding("process_pause", 0.5),), HINTED, "process_pause"),
        ((finding("scale_in", 0.9),), WRONG, "scale_in"),
        ((finding("scale_out", 0.9, rebalance_ids=("r2",)),), ABSTAINED, "-"),
        ((finding("member_crash", 0.9, group="another"),), ABSTAINED, "-"),
        ((_LESS_EXACT,), LESS_EXACT, "-"),
        ((_LESS_EXACT, finding("scale_in", 0.9)), WRONG, "scale_in"),
        ((finding("session_expiry", 0.5, members=("m2-x",)),), HINTED, "session_expiry"),
        ((finding("session_expiry", 0.9, members=("m1-x",)),), HINTED, "session_expiry"),
        ((finding("session_expiry", 0.9, members=("m2-x",), rebalance_ids=("r0",)),), HINTED, "session_expiry"),
        ((finding("session_expiry", 0.9), finding("member_crash", 0.9)), RIGHT, "member_crash"),
        ((finding("session_expiry", 0.9), finding("poll_overrun", 0.6)), WRONG, "poll_overrun"),
        ((), ABSTAINED, "-"),
    ],
)
def test_a_verdict_is_that_of_the_primary_causes(found: tuple[Finding, ...], verdict: str, claimed: str):
    """Causes count from 55 % on, a wrong one beside the right one is reported, a harmless one is wrong."""
    outcome = outcome_of(recording("crash_of_java", *found), "all")
    assert (outcome.verdict, outcome.claimed) == (verdict, claimed)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((finding("member_crash", 0.9), finding("poll_overrun", 0.9)), RIGHT),
        ((finding("member_crash", 0.9),), HINTED),
        ((finding("poll_overrun", 0.9),), HINTED),
        ((finding("poll_overrun", 0.9, rebalance_ids=("r2",)), finding("scale_in", 0.9)), WRONG),
        ((finding("member_crash", 0.9), finding("process_pause", 0.9)), WRONG),
        ((_LESS_EXACT, finding("poll_overrun", 0.9)), LESS_EXACT),
        ((_LESS_EXACT,), HINTED),
        ((_LESS_EXACT, finding("scale_in", 0.9), finding("member_crash", 0.9)), HINTED),
    ],
)
def test_two_faults_have_to_be_reported_both(found: tuple[Finding, ...], verdict: str):
    """One of two faults is not right; it is wrong if the other's rebalance was excused, or another cause claimed."""
    assert outcome_of(recording("two_culprits", *found), "all").verdict == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((finding("scale_out", 0.9),), RIGHT),
        ((finding("member_crash", 0.4),), HINTED),
        ((finding("member_crash", 0.9),), WRONG),
        ((finding("session_expiry", 0.9),), WRONG),
        ((finding("eager_assignor", 0.9, primary=False, severity="ticket"),), WRONG),
    ],
)
def test_a_healthy_group_is_accused_by_anything_but_information(found: tuple[Finding, ...], verdict: str):
    """Only informational findings about joining and leaving members are right."""
    assert outcome_of(recording("autoscaling", *found), "all").verdict == verdict


@pytest.mark.parametrize(
    ("members", "right"), [(["m2-x"], True), (["m1-x", "m2-x"], False), (["m1-x"], False), ([], False)]
)
def test_a_subject_is_right_with_the_culprit_and_nobody_else(members: list[str], right: bool):
    """Members are identified by the ids that they reported themselves."""
    assert (
        outcome_of(recording("crash_of_java", finding("member_crash", 0.9, members=members)), "all").subject_right
        is right
    )


def test_what_is_given_as_a_cause_is_what_is_calibrated():
    """Hints are included; harmless causes of later rebalances, and findings that are no causes, are not."""
    found = (
        finding("member_crash", 0.4),
        finding("process_pause", 0.75),
        finding("scale_out", 0.9, rebalance_ids=("r2",)),
        finding("undetermined", 0.9),
        finding("rebalance_storm", 0.97),
        finding("eager_assignor", 0.9, primary=False),
    )
    causes = outcome_of(recording("crash_of_java", *found), "all").causes
    assert causes == (Claim("member_crash", 0.4, True), Claim("process_pause", 0.75, False))


def test_the_delay_is_from_the_end_of_a_rebalance_to_its_first_cause():
    """A rebalance that was judged after the last record has no delay."""
    assert recording("crash_of_java").delays_ms("all") == [5_000]


def test_lines_of_several_brokers_are_those_of_the_group():
    """All layouts are read; a group that no coordinator wrote about has no lines."""
    lines = (
        "[2026-03-01 14:05:00,123] INFO [GroupCoordinator 1]: Member m2-x in group g has failed, removing it from the "
        "group (kafka.coordinator.group.GroupCoordinator)",
        "[2026-03-01 14:05:09,000] INFO [GroupCoordinator id=2 topic=__consumer_offsets partition=7] Stabilized group "
        "g generation 4 with 1 members. (org.apache.kafka.coordinator.group.GroupMetadataManager)",
    )
    rows = recording("crash_of_java", broker_lines=lines).broker_rows()
    acts = [(row.group, event.act, event.at_ms % 60_000) for row in rows for event in row.events]
    assert acts == [("g", CoordinatorAct.EXPIRED, 123), ("g", CoordinatorAct.STABILISED, 9_000)]
    assert recording("crash_of_java").broker_rows() == []


def test_lines_that_no_coordinator_wrote_are_no_broker_log():
    """A recording whose log lines cannot be read is reported, and not judged as if it had no log."""
    with pytest.raises(LogFileError, match="no line of the input"):
        recording("crash_of_java", broker_lines=("[2026-03-01 14:05:00,123] INFO started (kafka.Kafka)",)).broker_rows()


def test_the_report_has_a_row_or_a_column_for_each_choice_of_sources():
    """Shares, accusations, delays and calibration by row, families and recordings by column."""
    text = render([judge(recording("crash_of_java", finding("member_crash", 0.9)))], "today", "0")
    for sources in SOURCES:
        assert f"| known | {sources} | 1 of 1 (21-100 %) |" in text
        assert f"| known | {sources} | 0 | - |" in text
        assert f"| known | {sources} | 1 | 5.0 s |" in text
        assert f"| known | {sources} | 1 | 0.90 | 1 of 1 (21-100 %) | |" in text
    columns = " | ".join(SOURCES)
    assert f"| family | | runs | should be | {columns} |" in text
    assert f"| recording | broker | client | session, heartbeat, commit | should be | {columns} |" in text


def test_a_share_of_few_runs_is_wide():
    """Wilson's interval, with the examples of Agresti and Coull (The American Statistician 52, 1998) and by hand."""
    assert wilson(3, 3) == pytest.approx((0.4385, 1.0), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(15, 20) == pytest.approx((0.5313, 0.8881), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert say_share(15, 20) == "15 of 20 (53-89 %)"
    assert say_share(0, 0) == "-"


def test_calibration_compares_what_is_said_with_what_is_right():
    """Of four claims at 0.9 three were right, of two at 0.4 none: 4/6 * 0.15 + 2/6 * 0.4."""
    claims = [Claim("a", 0.9, right) for right in (True, True, True, False)] + [Claim("b", 0.4, False)] * 2
    bins = reliability(claims)
    assert [(each.count, round(each.said, 2), each.right) for each in bins] == [(2, 0.4, 0.0), (4, 0.9, 0.75)]
    assert calibration_error(bins) == pytest.approx(4 / 6 * 0.15 + 2 / 6 * 0.4)
    assert calibration_error([]) is None


def test_a_quantile_is_a_value_that_was_seen():
    assert quantile([5, 1, 3, 2, 4], 0.5) == 3
    assert quantile([1], 0.95) == 1
    assert quantile([], 0.5) is None


def test_every_family_is_declared_once():
    """Every judged family declares whether rules may be tuned to it; twenty-five families are held out."""
    known, kept_back = declared()["known"], declared()["kept_back"]
    assert not known.keys() & kept_back.keys()
    played = {each.run.story for folder in (FOLDER, FAMILIES) for each in recordings(folder)}
    new = {each.id for each in MEASURED}
    assert played <= known.keys() | kept_back.keys()
    assert new <= known.keys() | kept_back.keys()
    assert len(new & kept_back.keys()) >= 25
    assert declared()["window_scale"].keys() <= played | new


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a rule, a recording and a report of both."""
    for name in ("streaming/rebalance_streaming/detect/rules/a.py", "tests/golden/families/a-1.truth.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "docs").mkdir()
    head = f"| recordings | sources | {' | '.join(VERDICTS)} | subject right |\n"
    known, kept_back = (
        " | ".join({RIGHT: right, WRONG: wrong}.get(each, none) for each in VERDICTS)
        for right, wrong, none in (
            ("3 of 4 (30-95 %)", "1 of 4 (5-70 %)", "0 of 4 (0-49 %)"),
            ("1 of 2 (9-91 %)", "1 of 2 (9-91 %)", "0 of 2 (0-66 %)"),
        )
    )
    table = head + "".join(
        f"| known | {sources} | {known} | - |\n"
        f"| kept back | {sources} | {kept_back} | - |\n"
        f"| known | {sources} | 13 | 1 of 3 (0-26 %) |\n"
        for sources in ("all", "without the log", "broker logs instead")
    )
    report = f"# Accuracy\n\n<!-- digest: {freshness.digest(tmp_path)} -->\n\n{table}"
    (tmp_path / "docs/accuracy.md").write_text(report)
    (tmp_path / "README.md").write_text(f"It is {freshness.summary(report)}.")
    repeated = freshness.with_part("# Without the log", "explained", freshness.without_log_lines(report))
    (tmp_path / "docs/without-the-log.md").write_text(repeated)
    return tmp_path


def test_a_report_of_what_is_there_is_fresh(project: Path):
    """Files that do not affect a verdict may change."""
    (project / "docs/another.md").write_text("2")
    assert freshness.complaint(project) is None


def test_readme_says_what_the_report_says(project: Path):
    """The sentence in README has the shares of the table, with all sources."""
    assert "right in 3 of 4" in (project / "README.md").read_text()
    (project / "README.md").write_text("It is right in 4 of 4.")
    assert "README.md does not say how often the monitor is right: right in 3 of 4" in (
        freshness.complaint(project) or ""
    )


def test_the_page_about_the_log_says_what_the_report_says(project: Path):
    """Its table has the report's verdicts with all sources and without the log; a different number is reported."""
    page = project / "docs/without-the-log.md"
    assert "| known faults, right | 3 of 4 | 3 of 4 | 3 of 4 |" in page.read_text()
    assert "| kept back faults, wrong | 1 of 2 | 1 of 2 | 1 of 2 |" in page.read_text()
    assert "| healthy groups accused | 1 of 3 | 1 of 3 | 1 of 3 |" in page.read_text()
    page.write_text(page.read_text().replace("3 of 4", "4 of 4", 1))
    assert "docs/without-the-log.md says something else" in (freshness.complaint(project) or "")


def test_what_is_counted_without_the_log_is_a_row_per_kind_of_group():
    """No rebalance counts as found twice: surplus ones have a column of their own."""
    counted = [Counted("classic", 4, 3), Counted("classic", 1, 2), Counted("KIP-848, share, streams", 1, 1)]
    assert list(counted_lines(counted))[2:] == [
        "| classic | 2 | 5 | 4 (80 %) | 0 | 1 |",
        "| KIP-848, share, streams | 1 | 1 | 1 (100 %) | 1 | 0 |",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "streaming/rebalance_streaming/detect/rules/a.py",
        "tests/golden/families/a-1.truth.json",
        "streaming/rebalance_streaming/wire/broker_logs/reasons.py",
        "streaming/rebalance_streaming/groups/fold.py",
        "streaming/rebalance_streaming/activity/clients.py",
        "streaming/rebalance_streaming/recordings/replay.py",
    ],
)
def test_another_rule_or_recording_makes_a_report_stale(project: Path, name: str):
    """One sentence says what to run. Decoding counts in the same way as rules."""
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("2")
    assert "run `make accuracy`" in (freshness.complaint(project) or "")


def test_everything_that_decides_a_verdict_is_where_it_was():
    """If a folder were renamed, the report would never become stale."""
    empty = [each for each in freshness._JUDGED_BY if not any(freshness.ROOT.glob(each))]
    assert empty == []


def test_what_python_files_say_of_themselves_does_not_count(project: Path):
    """Comments, docstrings and empty lines may change; texts of rules may not."""
    rule = project / "streaming/rebalance_streaming/detect/a.py"
    stated = []
    for text in (
        '"""One."""\n\ndef f():\n    return "# text"\n',
        '"""Another,\nlonger one."""\n# Why.\ndef f():  # so\n    """Return."""\n\n    return "# text"\n',
        'def f():\n    return "# another text"\n',
    ):
        rule.write_text(text)
        stated.append(freshness.digest(project))
    assert stated[0] == stated[1] != stated[2]


def test_a_new_rule_or_a_missing_report_is_noticed(project: Path):
    """An added file, a removed file, and a report without a digest are reported."""
    another = project / "streaming/rebalance_streaming/detect/b.py"
    another.write_text("1")
    assert freshness.complaint(project) is not None
    another.unlink()
    assert freshness.complaint(project) is None
    (project / "docs/accuracy.md").write_text("# Accuracy\n")
    assert freshness.complaint(project) is not None
