"""The real Alertmanager with the shipped configuration: which notifications are sent, and which are muted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from prometheus.rig import (
    DEPLOY,
    Inbox,
    Server,
    alertmanager,
    ask,
    now,
    post_alerts,
    run_tool,
    webhook_receiver,
    without_repeats,
)
from rebalance_deploy.observability import AlertmanagerOptions, write_alertmanager_config
from waiting import wait_for

pytestmark = pytest.mark.tools

CONFIG = DEPLOY / "alertmanager" / "alertmanager.yml"
STARTED = "2026-01-15T02:41:07Z"
HOSTILE = 'a"b\n{{ .Status }}<!channel> & \\d|é'

#: The documented page, with the values that Prometheus can know.
PAGE = {
    "summary": "payments-enricher: 14 rebalances in 15 min, 38% of the time rebalancing",
    "cause": "diagnosis heartbeat_starvation; 12 of 14 began with: departure",
    "who": "consumer-7@10.4.2.19",
    "change": "upgrade: kafka-python 1.4.6 -> kafka-python 2.3.1 or later, best 3.x from 3.0.3 on, which has no "
    "heartbeat thread that could starve",
    "since": "members 11 to 12 in 15 min, now 12; generation 812 -> 826; as of 02:58 UTC",
    "impact": "lag 1.9M (+1.2M in 15 min, 6.2k/s, 4 topics)",
    "scope": "only this group; coordinator broker 3 serves 41 groups, others calm",
    "now": "1) explain page 2) that member 3) the setting",
    "dashboard_url": "http://g/d/kafka-rebalance-group?var-cluster=prod&var-group=payments-enricher&from=1&to=now",
    "explain_url": "http://m/#/groups/prod/payments-enricher",
    "runbook_url": "http://r/KafkaRebalanceStorm.md",
}

#: The beginnings of the lines of the page.
WORDS = ["Cause  ", "Who    ", "Change ", "Since  ", "Impact ", "Scope  ", "Now    ", "Links  "]


@dataclass(frozen=True, slots=True)
class AlertmanagerRig:
    """An Alertmanager, and the receiver of its notifications."""

    server: Server
    inbox: Inbox

    def slack(self, *texts: str) -> dict[str, Any]:
        """Return the attachment of the first Slack message that contains all `texts`."""
        attachment: dict[str, Any] = self.inbox.await_body("/slack", *texts)["attachments"][0]
        return attachment

    def alerts(self, group: str) -> dict[str, dict[str, Any]]:
        """Return the status of the alerts of a group, by name and severity."""
        found = ask(f"{self.server.url}/api/v2/alerts")
        return {
            f"{each['labels']['alertname']} {each['labels']['severity']}": each["status"]
            for each in found
            if each["labels"].get("group", "") == group
        }


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertmanagerRig]:
    """One Alertmanager for all tests; each has its own cluster, so that none mutes another's alerts."""
    directory = tmp_path_factory.mktemp("alertmanager")
    with ExitStack() as stack:
        inbox = stack.enter_context(webhook_receiver())
        config = write_alertmanager_config(
            directory, inbox.url, AlertmanagerOptions(group_wait_seconds=0.3, group_interval_seconds=0.5)
        )
        yield AlertmanagerRig(stack.enter_context(alertmanager(directory, config)), inbox)


def alert(name: str, severity: str, cluster: str, group: str = "", *, team: str = "", **more: Any) -> dict[str, Any]:
    """Return an alert as sent by Prometheus: labels without a value are left out."""
    labels = {"alertname": f"KafkaRebalance{name}", "severity": severity, "cluster": cluster, "group": group}
    annotations = {"summary": f"{group or cluster}: {name} in words"}
    return {
        "labels": {key: value for key, value in {**labels, "team": team}.items() if value},
        "annotations": annotations,
        **more,
    }


def test_amtool_accepts_the_configuration() -> None:
    """Alertmanager would load the shipped files."""
    done = run_tool("amtool", "check-config", CONFIG)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("receivers", "labels"),
    [
        (
            "everything,payments-pager,payments-slack",
            ("alertname=KafkaRebalanceStorm", "severity=critical", "team=payments"),
        ),
        ("everything,payments-slack", ("alertname=KafkaRebalanceStorm", "severity=warning", "team=payments")),
        (
            "everything,platform-pager,platform-slack",
            ("alertname=KafkaRebalanceStorm", "severity=critical", "team=nobody-knows"),
        ),
        ("everything,platform-pager,platform-slack", ("alertname=KafkaRebalanceFleetStorm", "severity=critical")),
        ("everything,platform-slack", ("alertname=KafkaRebalanceSlow", "severity=warning")),
        ("nobody", ("alertname=KafkaRebalanceIdleMembers", "severity=info", "team=payments")),
        ("watchdog", ("alertname=KafkaRebalanceWatchdog", "severity=none")),
    ],
)
def test_routes(receivers: str, labels: tuple[str, ...]) -> None:
    """Alerts reach the team that owns the group, by the channel for their severity."""
    done = run_tool(
        "amtool", "config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={receivers}", *labels
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_secret_is_in_the_configuration() -> None:
    """Secrets are only read from files."""
    text = CONFIG.read_text()
    secrets = re.findall(
        r"^ *(?:- )?(?:&\w+ *)?(api_url|routing_key|service_key|password|credentials|bearer_token):", text, re.M
    )
    assert secrets == []
    assert {"api_url_file", "routing_key_file", "password_file"} <= set(re.findall(r"\w+_file", text))


def test_every_format_has_the_same_speaking_alert() -> None:
    """A template cannot pass on an alert, so each has the same line that selects it."""
    text = (DEPLOY / "alertmanager" / "templates" / "page.tmpl").read_text()
    lines = [line for line in text.splitlines() if "$it :=" in line]
    assert len(lines) == text.count("$it = .") > 5
    assert len(set(lines)) == 1


def test_the_page_in_slack(rig: AlertmanagerRig) -> None:
    """The phone line is title and fallback; below it are the lines of the page in their order, with links.

    Nothing is aligned: Slack's letters have different widths outside code blocks.
    """
    page = alert("Storm", "critical", "slack", "payments-enricher", startsAt=STARTED)
    post_alerts(rig.server.url, {**page, "annotations": PAGE})
    message = rig.slack("cluster%3D%22slack%22")
    assert message["title"] == message["fallback"] == f"[FIRING] {PAGE['summary']}"
    assert message["title_link"] == PAGE["explain_url"]
    assert message["color"] == "danger"
    silence = f"{rig.server.url}/#/silences/new[?]filter=%7Bcluster%3D%22slack%22"
    links = message["text"].splitlines()[-1]
    assert message["text"].splitlines()[:-1] == [
        f"Cause: {PAGE['cause']}",
        f"Who: {PAGE['who']}",
        f"Change: {PAGE['change'].replace('>', '&gt;')}",
        f"Since: 02:41 UTC; {PAGE['since'].replace('>', '&gt;')}",
        f"Impact: {PAGE['impact']}",
        f"Scope: {PAGE['scope']}",
        f"Now: {PAGE['now']}",
    ]
    escaped = PAGE["dashboard_url"].replace("&", "&amp;")
    assert links.startswith(f"Links: <{escaped}|group dashboard> | <{PAGE['explain_url']}|explain page> | <http://")
    assert re.search(f"<{silence}[^|]*[|]silence> [|] <{PAGE['runbook_url']}[|]runbook>$", links)


def test_the_page_at_pagerduty(rig: AlertmanagerRig) -> None:
    """PagerDuty gets the phone line as description and the whole page with it, phone line first."""
    page = alert("Storm", "critical", "pagerduty", "payments-enricher", startsAt=STARTED)
    post_alerts(rig.server.url, {**page, "annotations": PAGE})
    event = rig.inbox.await_body("/pagerduty", '"group": "pagerduty"')
    assert event["payload"]["summary"] == f"[FIRING] {PAGE['summary']}"
    assert event["payload"]["severity"] == "critical"
    lines = event["payload"]["custom_details"]["page"].splitlines()
    assert lines[0] == f"[FIRING] {PAGE['summary']}"
    assert [line[:7] for line in lines[1:]] == WORDS
    assert f"group dashboard {PAGE['dashboard_url']} | explain page {PAGE['explain_url']} | silence " in lines[-1]


def test_the_page_as_json(rig: AlertmanagerRig) -> None:
    """The webhook gets every alert with its lines as annotations, in addition to the other receivers."""
    post_alerts(rig.server.url, {**alert("Storm", "warning", "json", "g"), "annotations": PAGE})
    body = rig.inbox.await_body("/alerts", '"cluster": "json"')
    assert body["groupLabels"] == {"cluster": "json", "group": "g"}
    assert body["alerts"][0]["annotations"] == PAGE


def test_one_message_per_group(rig: AlertmanagerRig) -> None:
    """All alerts of a group are one message with the text of one of them; another group has its own message."""
    both = [alert("Finding", "warning", "grouping", "one"), alert("GroupEmpty", "warning", "grouping", "one")]
    post_alerts(rig.server.url, *both, alert("Finding", "warning", "grouping", "two"))
    # Alertmanager may send a first message before it has taken the second alert.
    one, two = rig.slack("[FIRING] one: ", "Also: "), rig.slack("two: Finding in words")
    assert one["title"].startswith("[FIRING] one: ")
    assert two["title"] == "[FIRING] two: Finding in words"
    assert len(re.findall(r"^Also: KafkaRebalance(GroupEmpty|Finding) \(warning\)$", one["text"], re.M)) == 1


def test_the_owner_is_notified(rig: AlertmanagerRig) -> None:
    """A group's alert goes to the team of its owner, and to no other team's Slack channel."""
    post_alerts(rig.server.url, alert("Slow", "warning", "owner", "g", team="payments"))
    body = rig.inbox.await_body("/alerts", '"cluster": "owner"')
    [shown] = ask(f"{rig.server.url}/api/v2/alerts?filter=cluster%3Downer")
    assert body["commonLabels"]["team"] == "payments"
    assert {each["name"] for each in shown["receivers"]} == {"everything", "payments-slack"}


def test_one_page_per_incident(rig: AlertmanagerRig) -> None:
    """A sick group that is a ticket, then stalls, storms and loses time is one incident at PagerDuty, notified once."""
    cluster, mine = "incident", '"group": "incident"'
    tickets = [alert(name, "warning", cluster, "g", startsAt=STARTED) for name in ("Finding", "Storm", "Slow")]
    post_alerts(rig.server.url, *tickets)
    rig.slack("cluster%3D%22incident%22")
    first = alert("Finding", "critical", cluster, "g", startsAt=STARTED)
    post_alerts(rig.server.url, first)
    opened = rig.inbox.await_body("/pagerduty", mine)
    later = [alert(name, "critical", cluster, "g", startsAt=STARTED) for name in ("GroupStalled", "TimeHigh", "Storm")]
    post_alerts(rig.server.url, *later)
    assert all((await_status(rig, each))["inhibitedBy"] for each in [*tickets, *later])
    post_alerts(rig.server.url, *({**each, "endsAt": now()} for each in [*tickets, *later, first]))

    def find_end() -> Any:
        return [each for each in rig.inbox.bodies("/pagerduty") if each["event_action"] == "resolve" and is_mine(each)]

    def is_mine(event: Any) -> bool:
        return bool(event["dedup_key"] == opened["dedup_key"])

    wait_for(find_end, "PagerDuty's incident is closed")
    bodies = rig.inbox.bodies("/pagerduty")
    reported = without_repeats(each["payload"]["summary"] for each in bodies if each["payload"]["group"] == cluster)
    assert len(reported) == 2
    assert reported[0] == "[FIRING] g: Finding in words"
    assert reported[1].startswith("[RESOLVED] g: ")


def test_one_page_per_outage_of_a_broker(rig: AlertmanagerRig) -> None:
    """Fifty groups delayed by one broker are one incident; one at another broker has its own, and so has a sick fleet.

    The alerts that Prometheus sends are tested in outage.yml, with fewer groups.
    """
    cluster, groups = "outage", [f"g{n}" for n in range(50)]
    outage = alert("Outage", "critical", cluster, startsAt=STARTED)
    marks = [alert("GroupInOutage", "info", cluster, group, startsAt=STARTED) for group in groups]
    post_alerts(rig.server.url, outage, *marks)
    # One thread of Alertmanager registers alerts for inhibition, another one sends notifications; the last mark mutes
    # this alert, which is no page.
    muted_last = alert("Slow", "warning", cluster, groups[-1], startsAt=STARTED)
    post_alerts(rig.server.url, muted_last)
    wait_for(lambda: await_status(rig, muted_last)["inhibitedBy"], "the last mark to mute")
    stalled = [alert("GroupStalled", "critical", cluster, group, startsAt=STARTED) for group in [*groups, "elsewhere"]]
    found = [alert("Finding", "critical", cluster, group, startsAt=STARTED) for group in groups]
    post_alerts(rig.server.url, *stalled, *found, alert("FleetStorm", "critical", cluster, startsAt=STARTED))

    def reported() -> list[str]:
        events = [each["payload"] for each in rig.inbox.bodies("/pagerduty")]
        return sorted({each["summary"] for each in events if each["group"] == cluster})

    wait_for(lambda: len(reported()) == 2, reported)
    # A later notification proves that the earlier one was not sent.
    post_alerts(rig.server.url, alert("Storm", "critical", f"{cluster}-later", "g"))
    await_pagerduty(rig, f"{cluster}-later")
    assert reported() == ["[FIRING] elsewhere: GroupStalled in words", "[FIRING] outage: Outage in words"]
    muted = ask(f"{rig.server.url}/api/v2/alerts?filter=cluster%3Doutage&filter=severity%3Dcritical&active=false")
    assert len(muted) == 100
    keys = {each["dedup_key"] for each in rig.inbox.bodies("/pagerduty") if each["payload"]["group"] == cluster}
    assert len(keys) == 2


def test_a_ticket_that_becomes_a_page_is_one_incident_in_the_channel(rig: AlertmanagerRig) -> None:
    """The channel gets the ticket, the page, and one resolution, although two alerts ended."""
    cluster = "escalation"

    def reported() -> list[str]:
        messages = [each["attachments"][0] for each in rig.inbox.bodies("/slack")]
        return without_repeats(each["title"] for each in messages if f"cluster%3D%22{cluster}%22" in each["text"])

    def await_titles(*titles: str) -> None:
        wait_for(lambda: reported() == list(titles), reported)

    ticket = alert("Finding", "warning", cluster, "g", startsAt=STARTED)
    ticket["annotations"] = {"summary": "the ticket"}
    page = alert("Finding", "critical", cluster, "g", startsAt=STARTED)
    page["annotations"] = {"summary": "the page"}
    post_alerts(rig.server.url, ticket)
    await_titles("[FIRING] the ticket")
    post_alerts(rig.server.url, page)
    await_titles("[FIRING] the ticket", "[FIRING] the page")
    post_alerts(rig.server.url, *({**each, "endsAt": now()} for each in (ticket, page)))
    await_titles("[FIRING] the ticket", "[FIRING] the page", "[RESOLVED] the page")
    # A second resolution would come with the next flush of another group at the latest.
    post_alerts(rig.server.url, alert("Slow", "warning", f"{cluster}-later", "g"))
    rig.slack(f"cluster%3D%22{cluster}-later%22")
    await_titles("[FIRING] the ticket", "[FIRING] the page", "[RESOLVED] the page")


@pytest.mark.parametrize(
    ("loud", "muted", "heard"),
    [
        (
            alert("FleetStorm", "critical", "i1"),
            alert("Storm", "warning", "i1", "g"),
            alert("Storm", "warning", "i1-else", "g"),
        ),
        (
            alert("FleetStorm", "critical", "i2"),
            alert("TimeHigh", "critical", "i2", "g"),
            alert("GroupStalled", "critical", "i2", "g2"),
        ),
        (
            alert("GroupStalled", "critical", "i3", "g"),
            alert("Slow", "warning", "i3", "g"),
            alert("Slow", "warning", "i3", "g2"),
        ),
        (
            alert("Storm", "critical", "i4", "g"),
            alert("Storm", "warning", "i4", "g"),
            alert("Storm", "warning", "i4", "g2"),
        ),
        (
            alert("MonitorBehind", "critical", "i5"),
            alert("GroupStalled", "critical", "i5", "g"),
            alert("GroupStalled", "critical", "i5-else", "g"),
        ),
        (
            alert("FleetStorm", "critical", "i7"),
            alert("Finding", "warning", "i7", "g"),
            alert("Finding", "critical", "i7", "g2"),
        ),
        (
            alert("Finding", "critical", "i8", "g"),
            alert("TimeHigh", "critical", "i8", "g"),
            alert("TimeHigh", "critical", "i8", "g2"),
        ),
        (
            alert("GroupStalled", "critical", "i9", "g"),
            alert("Storm", "critical", "i9", "g"),
            alert("Storm", "critical", "i9", "g2"),
        ),
        (
            alert("TimeHigh", "critical", "i10", "g"),
            alert("Storm", "critical", "i10", "g"),
            alert("Storm", "critical", "i10", "g2"),
        ),
        (
            alert("Finding", "critical", "i6"),
            alert("Slow", "warning", "i6-else", "g"),
            alert("Finding", "warning", "i6"),
        ),
    ],
    ids=[
        *("fleet-storm", "fleet-time", "critical", "storm", "behind", "fleet-finding"),
        *("finding-time", "stalled-storm", "time-storm", "cluster-wide"),
    ],
)
def test_inhibition(rig: AlertmanagerRig, loud: dict[str, Any], muted: dict[str, Any], heard: dict[str, Any]) -> None:
    """An alert mutes those that it explains, but no alerts of other clusters or groups."""
    # The muting one is there first, as with Prometheus, which sends all alerts of an evaluation at once.
    post_alerts(rig.server.url, loud, muted, heard)
    inhibited = loud["labels"]["cluster"] == muted["labels"]["cluster"]
    reported = {each["labels"]["cluster"] + each["labels"].get("group", ""): each for each in (heard, loud)}
    for each in reported.values():
        rig.inbox.await_body("/alerts", f'"summary": "{each["annotations"]["summary"]}"')
    if inhibited:
        # Alertmanager registers alerts for inhibition in a separate thread, which may be last.
        wait_for(lambda: await_status(rig, muted)["inhibitedBy"], "the alert to be muted")
    else:
        assert await_status(rig, muted)["inhibitedBy"] == []
    assert await_status(rig, heard)["inhibitedBy"] == []


def await_status(rig: AlertmanagerRig, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return an alert's status once Alertmanager has determined it."""

    def find() -> dict[str, Any] | None:
        for each in ask(f"{rig.server.url}/api/v2/alerts"):
            if each["labels"] == wanted["labels"] and each["status"]["state"] != "unprocessed":
                status: dict[str, Any] = each["status"]
                return status
        return None

    found = wait_for(find, f"a decision about {wanted['labels']}")
    assert found is not None
    return found


def test_a_dead_monitor_mutes_everything_but_itself(tmp_path: Path) -> None:
    """While no exporter answers, no group's alert is notified, in any cluster, and neither is its end."""
    with webhook_receiver() as inbox:
        config = write_alertmanager_config(
            tmp_path, inbox.url, AlertmanagerOptions(group_wait_seconds=0.3, group_interval_seconds=0.5)
        )
        with alertmanager(tmp_path, config) as server:
            rig = AlertmanagerRig(server, inbox)
            down = alert("MonitorDown", "critical", "", startsAt=STARTED)
            stalled = alert("GroupStalled", "critical", "prod", "g", startsAt=STARTED)
            post_alerts(server.url, down)
            inbox.await_body("/alerts", "MonitorDown in words")
            post_alerts(server.url, stalled)
            assert await_status(rig, stalled)["inhibitedBy"]
            post_alerts(server.url, {**stalled, "endsAt": now()})
            # A later notification proves that the earlier one was not sent.
            post_alerts(server.url, {**down, "endsAt": now()})
            inbox.await_body("/alerts", '"status": "resolved"')
            assert "GroupStalled" not in str(inbox.bodies("/alerts") + inbox.bodies("/slack"))


def test_resolution(rig: AlertmanagerRig) -> None:
    """The end of an alert is notified with its duration, and closes PagerDuty's incident.

    Its links have that period, with the 15 minutes before it: otherwise they would later show a calm group.
    """
    page = {**alert("Storm", "critical", "resolution", "g", startsAt=STARTED), "annotations": PAGE}
    post_alerts(rig.server.url, page)
    opened = rig.inbox.await_body("/pagerduty", '"group": "resolution"')
    # The end of what a receiver was never told is not told either.
    rig.slack("cluster%3D%22resolution%22")
    post_alerts(rig.server.url, {**page, "endsAt": "2026-01-15T03:10:00Z"})
    message = rig.slack("02:41 to 03:10 UTC")
    assert message["title"] == f"[RESOLVED] {PAGE['summary']}"
    assert message["color"] == "good"
    then = f"from={milliseconds('2026-01-15T02:26:07Z')}&to={milliseconds('2026-01-15T03:10:00Z')}"
    assert message["title_link"] == f"{PAGE['explain_url']}?{then}"
    assert f"<{PAGE['explain_url']}?{then.replace('&', '&amp;')}|explain page>" in message["text"]

    def find_end() -> Any:
        key = opened["dedup_key"]
        return [e for e in rig.inbox.bodies("/pagerduty") if e["event_action"] == "resolve" and e["dedup_key"] == key]

    wait_for(find_end, "PagerDuty's incident is closed")


def test_the_end_of_what_was_about_a_cluster_leads_to_all_its_groups_then(rig: AlertmanagerRig) -> None:
    """The link to the current page becomes one to that period, of the same cluster; other links are unchanged."""
    then = f"from={milliseconds('2026-01-15T02:26:07Z')}&to={milliseconds('2026-01-15T03:20:00Z')}"
    for name, link, expected in (
        ("fleet", "http://m/#/?cluster=fleet%201", f"http://m/#/past?{then}&cluster=fleet%201"),
        ("blind", "http://m/-/ready", "http://m/-/ready"),
    ):
        page = {**alert("FleetStorm", "critical", name, startsAt=STARTED), "annotations": {**PAGE, "explain_url": link}}
        post_alerts(rig.server.url, page)
        opened, *_ = await_pagerduty(rig, name)
        assert opened["client_url"] == link
        assert rig.slack(f"{name}%22%7D|silence>")["title_link"] == link
        post_alerts(rig.server.url, {**page, "endsAt": "2026-01-15T03:20:00Z"})
        wait_for(lambda name=name: ends(rig, name), "the end")
        assert {each["title_link"] for each in ends(rig, name)} == {expected}


def ends(rig: AlertmanagerRig, cluster: str) -> list[dict[str, Any]]:
    """Return Slack's message about the end of an alert about a cluster."""
    reported = [each["attachments"][0] for each in rig.inbox.bodies("/slack")]
    return [each for each in reported if f"{cluster}%22%7D|silence>" in each["text"] and each["color"] == "good"]


def milliseconds(moment: str) -> int:
    """Return a moment in the format of the page's addresses."""
    return int(datetime.fromisoformat(moment).timestamp() * 1_000)


def test_a_hostile_name_stays_text(rig: AlertmanagerRig) -> None:
    """Quotes, line breaks, braces, HTML and Slack's markup in a name break neither lines nor links nor the silence."""
    page = {
        **alert("Storm", "critical", "hostile", HOSTILE),
        "annotations": {**PAGE, "summary": f"{HOSTILE}: 14", "cause": HOSTILE},
    }
    post_alerts(rig.server.url, page)
    safe = 'a"b {{ .Status }}&lt;!channel&gt; &amp; \\d|é'
    message = rig.slack("!channel")
    assert message["title"] == f"[FIRING] {safe}: 14"
    lines = message["text"].splitlines()
    assert [line.split(":")[0] for line in lines] == [word.strip() for word in WORDS]
    assert lines[0] == f"Cause: {safe}"
    assert "<!" not in message["text"]
    [encoded] = re.findall(r"filter=([^|]*)\|silence", lines[-1])
    assert unquote(encoded) == '{cluster="hostile",group="a\\"b\\n{{ .Status }}<!channel> & \\\\d|é"}'
    event, *_ = await_pagerduty(rig, "hostile")
    assert event["payload"]["component"] == HOSTILE


def await_pagerduty(rig: AlertmanagerRig, cluster: str) -> list[Any]:
    """Return PagerDuty's events about a cluster once there are any."""
    return wait_for(
        lambda: [each for each in rig.inbox.bodies("/pagerduty") if each["payload"]["group"] == cluster],
        f"an event about {cluster}",
    )
