"""From verdicts to findings: one per group, rule and subject, from its first detection to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from histories import CLUSTER, MINUTE, SECOND, T0, member
from rebalance_contract import Advice, Evidence, EvidenceSource, Finding, Member, Severity, Subject, decode, encode
from rebalance_streaming.detect.findings import Findings, subject_key, topic_key
from rebalance_streaming.detect.verdict import Verdict, subject_of

A, B = member("a-1"), member("b-1")
AFTER_MS = 10 * MINUTE


def verdict(rule: str = "poll_overrun", *who: Member, **changes: Any) -> Verdict:
    described: dict[str, Any] = {"confidence": 0.9, "summary": "it was slow", "started_at_ms": T0 - MINUTE}
    return Verdict(rule=rule, subject=subject_of(*who), **{**described, **changes})


def happened(at_ms: int, *who: Member, rule: str = "poll_overrun", primary: bool = True, **changes: Any) -> Verdict:
    """Return the cause of the rebalance that ended at this time."""
    said = {"started_at_ms": at_ms - MINUTE, "rebalance_ids": (f"r{at_ms - T0}",), **changes}
    return verdict(rule, *who, **said, primary=primary, last_ms=at_ms)


def stands(*who: Member, rule: str = "stalled_consumer", **changes: Any) -> Verdict:
    """Return a condition that holds now."""
    return verdict(rule, *who, **changes)


def update(findings: Findings, now_ms: int, *verdicts: Verdict, group: str = "g") -> list[Finding]:
    """Update findings with the current verdicts; return the changed ones."""
    return findings.update(group, verdicts, now_ms, AFTER_MS)[0]


# --- One per subject ---


def test_one_finding_per_group_rule_and_subject():
    """Two overruns of one client are one finding; those of another client or group are separate."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0 - SECOND, A), happened(T0, member("a-2")), happened(T0, B))
    update(findings, T0, happened(T0, A), group="other")
    found = [(each.group, [m.client_id for m in each.subject.members], each.rebalances) for each in findings.all()]
    assert sorted(found) == [("g", ["a", "a"], 2), ("g", ["b"], 1), ("other", ["a"], 1)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (verdict("poll_overrun", A), verdict("poll_overrun", member("a-2")), True),
        (verdict("poll_overrun", A), verdict("poll_overrun", member("a-2", host="/x")), False),
        (verdict("poll_overrun", A), verdict("poll_overrun", B), False),
        (verdict("poll_overrun", A, B), verdict("poll_overrun", B, A), True),
        (
            verdict("poll_overrun", member("x", group_instance_id="i")),
            verdict("poll_overrun", member("y", group_instance_id="i")),
            True,
        ),
        (verdict("scale_out", A), verdict("scale_out", B), True),
        (verdict("undetermined", A), verdict("undetermined", B), True),
        (
            Verdict(
                rule="orphan_partition",
                confidence=1,
                summary="",
                started_at_ms=0,
                subject=Subject(partitions=("t-1", "t-0")),
            ),
            Verdict(
                rule="orphan_partition",
                confidence=1,
                summary="",
                started_at_ms=0,
                subject=Subject(partitions=("t-0", "t-1")),
            ),
            True,
        ),
    ],
)
def test_a_subject_is_known_by_what_survives_a_rejoin(one: Verdict, other: Verdict, same: bool):
    """By instance id, otherwise client and host; harmless and unexplained findings are one per group."""
    assert (subject_key(one) == subject_key(other)) is same


def test_hosts_distinguish_findings_only_without_members():
    """Hosts are part of the subject only for findings about a whole host."""
    by_host = [
        Verdict(
            rule="cluster_wide_disturbance", confidence=1, summary="", started_at_ms=0, subject=Subject(hosts=hosts)
        )
        for hosts in (("a",), ("b",))
    ]
    assert subject_key(by_host[0]) != subject_key(by_host[1])


def test_names_of_topics_are_the_keys_of_findings():
    """cluster/group/rule/subject: each publication replaces the previous one."""
    findings = Findings(CLUSTER)
    (found,) = update(findings, T0, happened(T0, A))
    assert topic_key(found) == "prod/g/poll_overrun/a@/host-a"


def test_a_large_subject_keeps_its_key():
    """A finding about forty members is recognised by its published row."""
    findings, many = Findings(CLUSTER), [member(f"m{n:02}-1") for n in range(40)]
    (found,) = update(findings, T0, happened(T0, *many))
    again = Findings(CLUSTER)
    again.restore(decode(encode(found), Finding))
    assert again.update("g", [happened(T0, *many)], T0 + SECOND, AFTER_MS) == ([], [])
    assert len(found.subject.members) == 40


def test_a_member_that_came_back_often_is_named_by_its_latest_ids():
    """A name with many ids takes no more room than twenty ids."""
    (found,) = update(Findings(CLUSTER), T0 + 50, *(happened(T0 + n, member(f"a-{n}")) for n in range(50)))
    assert [each.member_id for each in found.subject.members] == [f"a-{n}" for n in range(30, 50)]


# --- Its life ---


def test_a_finding_has_the_text_of_the_loss_and_not_of_the_return():
    """At equal confidence, although the return is later."""
    findings = Findings(CLUSTER)
    back = happened(T0 + MINUTE, A, confidence=0.85, summary="a came back", is_consequence=True)
    (found,) = update(findings, T0 + MINUTE, happened(T0, A, confidence=0.85, summary="a was lost"), back)
    assert (found.summary, found.rebalances) == ("a was lost", 2)


def test_a_finding_is_published_when_it_changes():
    """The same verdict again changes nothing; a further rebalance does."""
    findings = Findings(CLUSTER)
    assert len(update(findings, T0, happened(T0, A))) == 1
    assert update(findings, T0 + SECOND, happened(T0, A)) == []
    (more,) = update(findings, T0 + MINUTE, happened(T0, A), happened(T0 + MINUTE, A))
    assert (more.rebalances, more.rebalance_ids) == (2, ("r0", "r60000"))
    assert (more.started_at_ms, more.detected_at_ms, more.updated_at_ms) == (T0 - MINUTE, T0, T0 + MINUTE)


def test_a_finding_about_rebalances_is_over_when_none_follows():
    """It is resolved as of ten minutes after the last one, published once, and stays in the history."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0, A))
    assert update(findings, T0 + AFTER_MS - 1, happened(T0, A)) == []
    (over,) = update(findings, T0 + AFTER_MS + SECOND, happened(T0, A))
    assert (over.state, over.resolved_at_ms) == ("resolved", T0 + AFTER_MS)
    assert update(findings, T0 + AFTER_MS + MINUTE, happened(T0, A)) == []
    assert findings.all() == [over]
    assert findings.firing("g") == []


def test_a_finding_opens_again_under_its_id():
    """A recurrence within the time of remembered findings is the same finding."""
    findings = Findings(CLUSTER)
    (first,) = update(findings, T0, happened(T0, A))
    update(findings, T0 + AFTER_MS, happened(T0, A))
    (again,) = update(findings, T0 + 2 * AFTER_MS, happened(T0, A), happened(T0 + 2 * AFTER_MS, A))
    assert (again.state, again.resolved_at_ms, again.finding_id) == ("firing", None, first.finding_id)
    assert again.rebalances == 2


def test_a_condition_is_over_when_it_does_not_hold():
    """Without delay; when the condition returns it is the same finding with a new beginning and detection time."""
    findings = Findings(CLUSTER)
    (first,) = update(findings, T0, stands(A))
    assert update(findings, T0 + HOUR_MS, stands(A)) == []
    (over,) = update(findings, T0 + HOUR_MS + SECOND)
    assert (over.state, over.resolved_at_ms) == ("resolved", T0 + HOUR_MS + SECOND)
    assert update(findings, T0 + HOUR_MS + MINUTE) == []
    began_ms = T0 + 2 * HOUR_MS
    (again,) = update(findings, began_ms + MINUTE, stands(A, started_at_ms=began_ms))
    assert (again.state, again.finding_id, again.started_at_ms) == ("firing", first.finding_id, began_ms)
    assert again.detected_at_ms == began_ms + MINUTE


HOUR_MS = 60 * MINUTE


def test_a_condition_began_when_it_was_first_said_to():
    """The beginning is kept even if a rule looks back for less time than the condition has lasted."""
    findings = Findings(CLUSTER)
    update(findings, T0, stands(A, started_at_ms=T0 - MINUTE))
    update(findings, T0 + HOUR_MS, stands(A, started_at_ms=T0 + MINUTE, severity=Severity.PAGE))
    assert [each.started_at_ms for each in findings.all()] == [T0 - MINUTE]


def test_a_better_explanation_withdraws_the_old_one():
    """A cause that no longer holds is published as resolved and forgotten."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0, A, rule="scale_in"))
    changed, withdrawn = findings.update("g", [happened(T0, A, rule="rolling_deploy")], T0 + SECOND, AFTER_MS)
    assert [(each.rule, each.state) for each in changed] == [("rolling_deploy", "firing")]
    assert [(each.rule, each.state, each.resolved_at_ms) for each in withdrawn] == [
        ("scale_in", "resolved", T0 + SECOND)
    ]
    assert [each.rule for each in findings.all()] == ["rolling_deploy"]


def test_a_cause_that_is_forgotten_after_its_end_stays_in_the_history():
    """A group that rebalances for days drops old rebalances; resolved findings are not withdrawn."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0, A))
    update(findings, T0 + AFTER_MS, happened(T0, A))
    assert findings.update("g", [], T0 + 2 * AFTER_MS, AFTER_MS) == ([], [])
    assert [each.state for each in findings.all()] == ["resolved"]


DAY_MS = 24 * HOUR_MS


def test_a_finding_that_is_over_for_two_days_is_forgotten():
    """A nightly recurrence is one finding, even if a night is late; after two days it is a new one."""
    findings = Findings(CLUSTER, lists_all=False)
    (first,) = update(findings, T0, stands(A))
    update(findings, T0 + MINUTE)
    night_ms = T0 + DAY_MS + HOUR_MS
    (again,) = update(findings, night_ms, stands(A, started_at_ms=night_ms))
    assert again.finding_id == first.finding_id
    update(findings, night_ms + MINUTE)
    update(findings, night_ms + MINUTE + 2 * DAY_MS - 1)
    assert [each.state for each in findings.all()] == ["resolved"]
    update(findings, night_ms + MINUTE + 2 * DAY_MS)
    assert findings.all() == []
    (other,) = update(findings, night_ms + 3 * DAY_MS, stands(A, started_at_ms=night_ms + 3 * DAY_MS))
    assert (other.finding_id != first.finding_id, other.detected_at_ms) == (True, night_ms + 3 * DAY_MS)


@pytest.mark.parametrize("looks", [(), (1,), (1, 2, 3, 4)])
@pytest.mark.parametrize("began_ms", [T0 - MINUTE, T0 + 5 * 24 * 60 * MINUTE])
def test_it_is_another_one_whether_somebody_looked_meanwhile_or_not(looks: tuple[int, ...], began_ms: int):
    """A group at rest is not judged for days; a rule's beginning of a condition may be before that."""
    findings = Findings(CLUSTER)
    (first,) = update(findings, T0, stands(A))
    update(findings, T0 + MINUTE)
    for day in looks:
        update(findings, T0 + day * DAY_MS)
    later_ms = T0 + 5 * DAY_MS
    (found,) = update(findings, later_ms, stands(A, started_at_ms=began_ms))
    assert (found.detected_at_ms, findings.all()) == (later_ms, [found])
    assert (found.finding_id == first.finding_id) is (began_ms == first.started_at_ms)


def test_a_finding_that_verdicts_still_cover_is_not_forgotten():
    """The rebalances of a quiet group are kept for long: their findings are not published again, and reopen as one."""
    findings = Findings(CLUSTER, lists_all=False)
    (first,) = update(findings, T0, happened(T0, A))
    (over,) = update(findings, T0 + AFTER_MS, happened(T0, A))
    later_ms = T0 + 9 * DAY_MS
    assert update(findings, later_ms, happened(T0, A)) == []
    assert findings.all() == [over]
    (again,) = update(findings, later_ms, happened(T0, A), happened(later_ms, A))
    assert (again.finding_id, again.state) == (first.finding_id, "firing")


def test_of_pods_that_come_and_go_the_latest_are_remembered():
    """At most fifty per group, the latest resolved ones; open findings and those covered by verdicts do not count."""
    findings, stay, past = Findings(CLUSTER, lists_all=False), stands(B), happened(T0, A, rule="member_crash")
    update(findings, T0 + AFTER_MS, stay, past)
    for number in range(1_000):
        pod = stands(member(f"p{number}-1", host=f"/10.0.0.{number}"))
        update(findings, T0 + AFTER_MS + number * SECOND, stay, past, pod)
    update(findings, T0 + HOUR_MS, stay, past)
    found = [each.subject.members[0].client_id for each in findings.all()]
    assert sorted(found) == sorted(["a", "b", *(f"p{number}" for number in range(950, 1_000))])


def test_whoever_reads_the_list_at_the_end_gets_all():
    """A replay lists findings that a stream has forgotten, in their last version; everything else is the same."""
    listing, live = Findings(CLUSTER), Findings(CLUSTER, lists_all=False)
    for day in range(9):
        now_ms = T0 + day * DAY_MS
        verdicts = [stands(member(f"p{day}-{n}", host=f"/{n}"), started_at_ms=now_ms) for n in range(60)]
        verdicts += [stands(B, started_at_ms=now_ms)] if day % 4 == 0 else []
        for at_ms, stated in ((now_ms, verdicts), (now_ms + HOUR_MS, [])):
            assert listing.update("g", stated, at_ms, AFTER_MS) == live.update("g", stated, at_ms, AFTER_MS)
    assert len(live.all()) == 50
    assert len(listing.all()) == 9 * 60 + 1
    (latest,) = [each for each in listing.all() if each.subject.members[0].client_id == "b"]
    assert latest.started_at_ms == T0 + 8 * DAY_MS
    for findings in (listing, live):
        findings.forget_group("g")
        assert findings.all() == []


def test_groups_do_not_touch_each_other():
    """Verdicts on one group do not affect the findings of another."""
    findings = Findings(CLUSTER)
    update(findings, T0, stands(A))
    assert findings.update("other", [], T0 + SECOND, AFTER_MS) == ([], [])
    assert len(findings.firing("g")) == 1


# --- Content ---


def test_the_surest_statement_speaks_and_the_latest_names():
    """For several rebalances with one cause: the highest confidence, and the latest evidence first."""
    early = happened(T0, A, confidence=0.97, summary="sure", evidence=(Evidence(EvidenceSource.LOG, "f", "1", "r"),))
    late = happened(
        T0 + MINUTE,
        member("a-2"),
        confidence=0.6,
        summary="vague",
        evidence=(Evidence(EvidenceSource.PROBES, "f", "2", "r"),),
        advice=(Advice("x", None, "1", "-"),),
        missing=("reports",),
    )
    (found,) = update(Findings(CLUSTER), T0 + MINUTE, late, early)
    assert (found.confidence, found.summary, found.missing) == (0.97, "sure", ("reports",))
    assert [each.source for each in found.evidence] == [EvidenceSource.PROBES, EvidenceSource.LOG]
    assert [each.parameter for each in found.advice] == ["x"]
    assert [each.member_id for each in found.subject.members][-1] == "a-2"


def test_severity_is_the_catalogues_unless_the_rule_says_otherwise():
    """With impact a ticket becomes a page."""
    findings = Findings(CLUSTER)
    assert [each.severity for each in update(findings, T0, happened(T0, A))] == [Severity.TICKET]
    assert [each.severity for each in update(findings, T0, happened(T0, A, severity=Severity.PAGE))] == [Severity.PAGE]


def test_what_no_real_client_showed_is_information_and_says_so():
    """An experimental diagnosis is informational, whatever severity its rule gives."""
    (found,) = update(Findings(CLUSTER), T0, stands(rule="coordinator_stuck_rebalance", severity=Severity.PAGE))
    assert (found.severity, found.experimental) == (Severity.INFO, True)
    assert found.summary == "Experimental: it was slow"
    (known,) = update(Findings(CLUSTER), T0, stands(A))
    assert not known.experimental


def test_a_subject_stated_with_and_without_a_cause_is_primary():
    """A finding may be the cause of one rebalance and accompany another; it counts those that it caused."""
    (found,) = update(Findings(CLUSTER), T0, happened(T0, A), happened(T0, A, primary=False, rebalance_ids=("other",)))
    assert (found.primary, found.rebalance_ids) == (True, ("r0",))


def test_rebalances_are_counted_and_the_latest_named():
    """A storm of hundreds of rebalances names two hundred."""
    storm = [happened(T0 + n, A) for n in range(300)]
    (found,) = update(Findings(CLUSTER), T0 + 300, *storm)
    assert (found.rebalances, len(found.rebalance_ids), found.rebalance_ids[-1]) == (300, 200, "r299")


# --- Over a restart ---


def test_ids_are_stable():
    """They depend on cluster, group, rule, subject and beginning: every run has the same id, and others differ."""
    first, second = (update(Findings(CLUSTER), T0 + n, happened(T0, A))[0] for n in (0, 1))
    assert first.finding_id == second.finding_id
    others = [
        update(Findings("test"), T0, happened(T0, A))[0],
        update(Findings(CLUSTER), T0, happened(T0, A), group="h")[0],
        update(Findings(CLUSTER), T0, happened(T0, B))[0],
        update(Findings(CLUSTER), T0, happened(T0, A, rule="member_crash"))[0],
        update(Findings(CLUSTER), T0, happened(T0, A, started_at_ms=T0))[0],
    ]
    assert len({each.finding_id for each in (first, *others)}) == len(others) + 1


def test_a_restored_finding_goes_on():
    """Its id and detection time stay although less of the past is known; it is not published a second time."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0 - 5 * MINUTE, A), happened(T0, A))
    (published,) = findings.all()
    again = Findings(CLUSTER)
    again.restore(decode(encode(published), Finding))
    (found,) = update(again, T0 + MINUTE, happened(T0, A, started_at_ms=T0 - SECOND))
    assert (found.finding_id, found.detected_at_ms) == (published.finding_id, T0)
    assert found.started_at_ms == published.started_at_ms


def test_a_restored_finding_keeps_the_rebalances_that_are_not_judged_again():
    """Their cause is known from nowhere else; rebalances that this run judges, or has forgotten, are not restored."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0 - 3 * MINUTE, A), happened(T0 - 2 * MINUTE, A), happened(T0, A))
    (published,) = findings.all()
    gone, earlier, latest = published.rebalance_ids
    again = Findings(CLUSTER)
    again.restore(published)
    again.update("g", [happened(T0, A)], T0 + SECOND, AFTER_MS, lambda: {earlier})
    (found,) = again.all()
    assert (found.rebalance_ids, found.rebalances) == ((earlier, latest), 2)
    again.update("g", [happened(T0, A)], T0 + MINUTE, AFTER_MS, set)
    (found,) = again.all()
    assert found.rebalance_ids == (latest,)
    assert gone not in found.rebalance_ids


def test_a_restored_finding_does_not_replace_what_is_known():
    """It is older than the findings made since, which stay."""
    findings = Findings(CLUSTER)
    (known,) = update(findings, T0, happened(T0, A))
    (older,) = update(Findings(CLUSTER), T0 - MINUTE, happened(T0 - MINUTE, A))
    findings.restore(older)
    assert findings.all() == [known]


@pytest.mark.parametrize("primary", [True, False])
def test_while_the_past_is_read_again_a_restored_finding_stays_open(primary: bool):
    """An earlier run knew more at that time; the absence of a finding counts only afterwards."""
    (published,) = update(Findings(CLUSTER), T0, happened(T0, A, primary=primary))
    findings = Findings(CLUSTER)
    findings.restore(published)
    assert findings.update("g", [], T0 - MINUTE, AFTER_MS) == ([], [])
    changed, withdrawn = findings.update("g", [], T0 + SECOND, AFTER_MS)
    assert [each.state for each in (*changed, *withdrawn)] == ["resolved"]


def test_a_restored_finding_of_a_rule_that_is_no_more_ends():
    """Nothing else could resolve a finding of an earlier version."""
    (published,) = update(Findings(CLUSTER), T0, happened(T0, A, primary=False))
    findings = Findings(CLUSTER)
    findings.restore(replace(published, rule="of_another_version"))
    changed, _ = findings.update("g", [], T0 + SECOND, AFTER_MS)
    assert [(each.rule, each.state) for each in changed] == [("of_another_version", "resolved")]


def test_a_count_that_an_earlier_run_made_stands():
    """The forgotten rows cannot be counted again: the finding is resolved when its time is over."""
    (published,) = update(Findings(CLUSTER), T0, happened(T0, rule="duplicate_processing", primary=False))
    findings = Findings(CLUSTER)
    findings.restore(published)
    assert findings.update("g", [], T0 + SECOND, AFTER_MS) == ([], [])
    changed, _ = findings.update("g", [], T0 + AFTER_MS, AFTER_MS)
    assert [each.state for each in changed] == ["resolved"]


def test_findings_are_listed_oldest_first():
    """By their beginning."""
    findings = Findings(CLUSTER)
    update(findings, T0, happened(T0, B), happened(T0 - MINUTE, A))
    assert [each.subject.members[0].client_id for each in findings.all()] == ["a", "b"]


def test_parts_of_a_storm_name_it_and_leave_the_page_to_it():
    """Only the storm is a page; its cause is its child, and an unrelated finding is not."""
    findings = Findings(CLUSTER)
    storm = happened(T0, rule="rebalance_storm", primary=False, severity=Severity.PAGE)
    child, other = happened(T0, A, severity=Severity.PAGE), happened(T0 - MINUTE, B, severity=Severity.PAGE)
    found = {each.finding_id: each for each in update(findings, T0, child, other, storm)}
    (parent,) = [each for each in found.values() if each.rule == "rebalance_storm"]
    by_member = {each.subject.members[0].client_id: each for each in found.values() if each.subject.members}
    assert (by_member["a"].parent, by_member["a"].severity) == (parent.finding_id, Severity.TICKET)
    assert (by_member["b"].parent, by_member["b"].severity) == (None, Severity.PAGE)
    assert (parent.parent, parent.severity) == (None, Severity.PAGE)


def test_what_ended_is_no_parent():
    """From the update on in which the storm ends; its parts page again."""
    findings = Findings(CLUSTER)
    child = happened(T0, A, severity=Severity.PAGE)
    update(findings, T0, child, happened(T0, rule="rebalance_storm", primary=False, severity=Severity.PAGE))
    update(findings, T0 + MINUTE, child)
    found = {each.rule: each for each in findings.all()}
    assert found["rebalance_storm"].state == "resolved"
    assert (found["poll_overrun"].parent, found["poll_overrun"].severity) == (None, Severity.PAGE)


def test_a_cluster_wide_disturbance_is_the_parent_of_what_groups_suffer():
    """It is one finding for all groups, and precedes a group's own storm; experimental, it silences neither."""
    findings = Findings(CLUSTER)
    (wide,) = update(findings, T0, happened(T0, rule="cluster_wide_disturbance", primary=False), group="")
    storm, child = (
        happened(T0, rule="rebalance_storm", primary=False, severity=Severity.PAGE),
        happened(T0, A, severity=Severity.PAGE),
    )
    found = update(findings, T0, storm, child)
    assert {(each.rule, each.parent, each.severity) for each in found} == {
        ("rebalance_storm", wide.finding_id, Severity.PAGE),
        ("poll_overrun", wide.finding_id, Severity.PAGE),
    }
