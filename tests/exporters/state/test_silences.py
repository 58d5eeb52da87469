"""How a silenced group appears to users, and to Prometheus."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    SILENCE,
    diagnosis_row,
    group_row,
    make_view,
    probed_lag_row,
    rebalance_row,
    refused,
    silence_row,
    stream_rows,
)
from exporters.test_findings import LOADED, READY
from rebalance_contract.api import Readiness
from rebalance_exporters.api.overview import make_overview
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.rows import KeptBytes
from rebalance_exporters.state.silences import MAX_SILENCES, KeptSilences, Silences, covered
from rebalance_exporters.state.view import SILENCES, Row, View

PAYMENTS = ("prod", "payments")
ACTIVE, SILENCED = "kafka_rebalance_finding_active", "kafka_rebalance_group_silenced"


def silences(*changes: dict[str, Any]) -> Silences:
    """Silences with different ids, with changes."""
    made = [replace(SILENCE, silence_id=str(number), **each) for number, each in enumerate(changes)]
    return Silences.of({(each.cluster, each.silence_id): each for each in made})


def samples(view: View, exposition: Exposition, now_ms: int = NOW_MS) -> dict[tuple[str, ...], float]:
    """All served samples of groups: name and values of labels, with the value."""
    text = exposition.render(view.fleet(), LOADED, READY, now_ms, Style.TEXT).decode()
    return {
        (each.name, *each.labels.values()): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if not each.name.startswith("kafka_rebalance_monitor_")
    }


def exposition() -> Exposition:
    """An exporter's own memory of its rendered output."""
    return Exposition(limit_groups=100, version="1")


# --- Which groups ---


def test_names_and_beginnings_of_names_are_covered():
    """A name is that group only; a star at the end is a prefix; the star alone is everything, clusters included."""
    found = silences({"groups": ("orders", "pay*")})
    covered = {name: found.in_force(("prod", name), NOW_MS) is not None for name in ("orders", "orders-2", "pay", "pa")}
    assert covered == {"orders": True, "orders-2": False, "pay": True, "pa": False}
    everything = silences({"groups": ("*",)})
    assert everything.in_force(("prod", ""), NOW_MS) is not None
    assert everything.in_force(("prod", "x"), NOW_MS) is not None
    assert everything.in_force(("test", "x"), NOW_MS) is None


def test_groups_that_a_silence_covers_are_those_that_it_is_about():
    """In its cluster, by names and by prefixes, each once."""
    groups = [
        (cluster, name) for cluster in ("prod", "test") for name in ("orders", "orders-2", "pay", "payments", "*")
    ]
    for names in (("orders",), ("pay*", "paid"), ("orders*", "pay"), ("*",), ("nobody",), ("Pay*",)):
        silence = replace(SILENCE, groups=names)
        about = [key for key in groups if key[0] == "prod" and silence.is_about(key[1])]
        assert list(covered(silence, groups)) == about


def test_of_several_the_one_that_lasts_longest_is_shown():
    """Users want to know when notifications resume."""
    found = silences({}, {"ends_at_ms": NOW_MS + 9_000_000}, {"groups": ("*",), "ends_at_ms": NOW_MS + 1})
    reported = found.in_force(PAYMENTS, NOW_MS)
    assert reported is not None
    assert reported.silence_id == "1"


def test_what_holds_alerts_back_comes_before_a_deploy():
    """A silence of a group with an ongoing deploy is shown, however long the deploy lasts."""
    deploy = {"kind": "deploy", "ends_at_ms": NOW_MS + 9_000_000}
    reported = silences(deploy, {}).in_force(PAYMENTS, NOW_MS), silences(deploy).in_force(PAYMENTS, NOW_MS)
    assert [(each.kind, each.holds_alerts) for each in reported if each] == [("silence", True), ("deploy", False)]


def test_one_that_is_to_come_or_over_holds_nothing_back():
    """From its start to its end, by the exporter's clock, without any row."""
    found = silences({})
    at = (SILENCE.starts_at_ms - 1, SILENCE.starts_at_ms, SILENCE.ends_at_ms - 1, SILENCE.ends_at_ms)
    assert [found.in_force(PAYMENTS, each) is not None for each in at] == [False, True, True, False]


def test_deploys_explain_what_happened_in_their_time():
    """Deploys announced for that time, but no silences; several matching names count once."""
    found = silences({}, {"kind": "deploy", "groups": ("pay*", "paid")}, {"kind": "deploy", "groups": ("orders",)})
    assert [each.silence_id for each in found.deploys(PAYMENTS, NOW_MS, NOW_MS)] == ["1"]
    assert found.deploys(PAYMENTS, SILENCE.ends_at_ms, SILENCE.ends_at_ms + 9) == ()


def test_the_number_of_silences_is_bounded():
    """Producers with access to the topic may write many: those that end first are dropped, in any order of arrival."""
    made = [replace(SILENCE, silence_id=f"{n}", ends_at_ms=NOW_MS + n) for n in range(MAX_SILENCES + 50)]
    random.Random(1).shuffle(made)
    kept = KeptSilences(KeptBytes(1_000_000))
    for each in made:
        kept.put(each, 10)
    assert {each.ends_at_ms - NOW_MS for each in kept.now.by_name.values()} == set(range(50, MAX_SILENCES + 50))


def test_the_text_of_silences_is_bounded():
    """It counts toward the limit until it is removed by a tombstone, a newer version, or one that ends later."""
    groups = tuple("x" * 900 + str(n) for n in range(10))
    view = View(group_expiry_seconds=3600, keep_rebalances=3, max_bytes=30_000)
    view.apply([silence_row(silence_id=str(n), groups=groups) for n in range(9)])
    kept = view.fleet().silences.by_name
    assert (len(kept), view.fleet().refused[SILENCES, "limit"]) == (3, 6)
    view.apply([silence_row(silence_id="0"), Row(SILENCES, b"prod/1", None)])
    view.apply([silence_row(silence_id=str(n), groups=groups) for n in range(9)])
    assert {silence_id for _, silence_id in view.fleet().silences.by_name} == {"0", "1", "2"}
    view.apply([silence_row(silence_id="too much", groups=tuple("x" * 1_000 for _ in range(17)))])
    assert view.fleet().refused[SILENCES, "contract"] == 1


def test_what_goes_for_later_ones_weighs_nothing(monkeypatch: pytest.MonkeyPatch):
    """Otherwise the room of dropped ones would be lost."""
    monkeypatch.setattr("rebalance_exporters.state.silences.MAX_SILENCES", 2)
    kept = KeptSilences(KeptBytes(40))
    for n in range(20):
        kept.put(replace(SILENCE, silence_id=str(n), ends_at_ms=NOW_MS + n), 10)
    assert {silence_id for _, silence_id in kept.now.by_name} == {"18", "19"}


# --- For Prometheus ---


def test_findings_of_a_silenced_group_do_not_fire():
    """Nor those of its cluster if everything is silenced; others do, and the marks are available for custom rules."""
    rows = [group_row(), group_row(group="orders"), finding_row("a"), finding_row("b", group="orders")]
    rows += [finding_row("c", group="")]
    found = samples(make_view(*rows, silence_row()), exposition())
    fires = {key[2]: value for key, value in found.items() if key[0] == ACTIVE}
    assert fires == {"payments": 0, "orders": 1, "": 1}
    assert {key: value for key, value in found.items() if key[0] == SILENCED} == {
        (SILENCED, "prod", "payments", "silence"): 1
    }
    found = samples(make_view(*rows, silence_row(groups=("*",), kind="holiday")), exposition())
    assert {key[2]: value for key, value in found.items() if key[0] == ACTIVE} == {"payments": 0, "orders": 0, "": 0}


def test_findings_fire_while_a_deploy_is_announced():
    """The diagnosis reports rebalances of a deploy as such; other findings cause notifications as usual."""
    rows = [group_row(), group_row(group="orders"), finding_row("a"), finding_row("c", group="")]
    found = samples(make_view(*rows, silence_row(groups=("*",), kind="deploy")), exposition())
    assert {key[2]: value for key, value in found.items() if key[0] == ACTIVE} == {"payments": 1, "": 1}
    assert {key[1:]: value for key, value in found.items() if key[0] == SILENCED} == {
        ("prod", name, "deploy"): 1 for name in ("", "orders", "payments")
    }


def test_a_silence_ends_by_itself():
    """At its end ongoing findings fire again without a new row; ended early, at once."""
    view, served = make_view(group_row(), finding_row("a"), silence_row()), exposition()
    finding = next(key for key in samples(view, served) if key[0] == ACTIVE)
    at = (NOW_MS, SILENCE.ends_at_ms - 1, SILENCE.ends_at_ms)
    assert [samples(view, served, each)[finding] for each in at] == [0, 0, 1]
    view.apply([silence_row(ends_at_ms=NOW_MS, expired_by="bob")])
    assert samples(view, served)[finding] == 1
    view.apply([silence_row(silence_id="other"), Row(SILENCES, b"prod/other", None)])
    assert samples(view, served)[finding] == 1


def test_a_silence_changes_no_count():
    """All series except those of its findings are the same as without it."""
    rows = [*stream_rows(), group_row(), finding_row("a"), probed_lag_row(), rebalance_row("1"), diagnosis_row()]
    with_one, without = samples(make_view(*rows, silence_row()), exposition()), samples(make_view(*rows), exposition())
    differ = {key[0] for key in with_one.keys() | without.keys() if with_one.get(key) != without.get(key)}
    assert differ >= {ACTIVE, SILENCED}
    assert {name for name in differ - {SILENCED} if not name.startswith("kafka_rebalance_finding_")} == set()


# --- For people ---


def overview(view: View, now_ms: int = NOW_MS) -> Any:
    """The row of payments as the page gets it."""
    reported = make_overview(view.fleet(), Readiness(True, "ready"), now_ms, version="1", owners=Owners())
    return next(each for each in reported.groups if each.group == "payments")


def test_people_see_findings_and_who_silenced_them():
    """The finding is still firing for users, with the reason why there are no notifications."""
    view = make_view(group_row(), finding_row("a"), silence_row())
    row = overview(view)
    assert [each.state for each in row.findings] == ["firing"]
    assert row.silence is not None
    assert (row.silence.created_by, row.silence.reason, row.silence.silence_id) == (
        "alice",
        "database moves",
        "5ilence",
    )
    assert overview(view, SILENCE.ends_at_ms).silence is None


def test_followers_hear_when_a_silence_begins_and_ends():
    """A group's row is sent again when a silence is made or changed, and when one begins or ends."""
    view = make_view(group_row(), group_row(group="orders"))
    later = silence_row(starts_at_ms=NOW_MS + 60_000)
    steps = [
        lambda: view.apply([later]),
        lambda: view.apply([later]),
        lambda: view.forget_expired(NOW_MS),
        lambda: view.forget_expired(NOW_MS + 59_999),
        lambda: view.forget_expired(NOW_MS + 60_000),
        lambda: view.forget_expired(SILENCE.ends_at_ms),
        lambda: view.forget_expired(SILENCE.ends_at_ms + 60_000),
    ]
    reported = []
    for step in steps:
        before = view.version
        step()
        reported.append([item.group for _, item in view.changes(before).items or ()])
    assert reported == [["payments"], [], [], [], ["payments"], ["payments"], []]


def test_a_rebalance_names_the_deploy_that_was_announced():
    """In its row for programs and in its text for users; an ordinary silence explains nothing."""
    deploy = silence_row(silence_id="d", kind="deploy", reason="deploy 1.2", created_by="pipeline", on_behalf_of="bob")
    view = make_view(group_row(), rebalance_row("1"), rebalance_row("2", NOW_MS + 8_000_000), silence_row(), deploy)
    fleet = view.fleet()
    reported = {each.rebalance_id: json.loads(fleet.document(each)) for each in view.rebalances(PAYMENTS)}
    assert [each["silence_id"] for each in reported["1"]["deploys"]] == ["d"]
    assert reported["2"]["deploys"] == []
    words = {name: "".join(part["text"] for part in each["text"]["why"]) for name, each in reported.items()}
    assert words["1"].endswith("; during an announced deploy: deploy 1.2 by bob (as pipeline)")
    assert "deploy" not in words["2"]


# --- Invalid rows, order of rows ---


def test_rows_that_are_no_silences_are_left_out():
    """They are counted like other invalid rows, and silence nothing."""
    rows = [
        silence_row(groups=("a*b",)),
        silence_row(ends_at_ms=NOW_MS + 10**11),
        silence_row()._replace(key=b"prod/another"),
        silence_row()._replace(value=b"{}"),
        silence_row()._replace(value=b"\xff"),
    ]
    view = make_view(group_row(), finding_row("a"), *rows)
    assert refused(view)[SILENCES] == len(rows)
    assert view.fleet().silences.by_name == {}


def test_two_exporters_show_the_same():
    """For any batches of the rows, and any order of different keys."""
    rows = [silence_row(silence_id=f"{n}", groups=("pay*",), ends_at_ms=NOW_MS + 1_000 + n % 3) for n in range(4)]
    shown = {
        overview(make_view(group_row(), finding_row("a"), *order)).silence for order in itertools.permutations(rows)
    }
    assert len(shown) == 1
