"""The example receivers, each in a real Alertmanager: the messages at Opsgenie, at Teams and as e-mail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from html import escape
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.charting import TOOLS
from prometheus.rig import DEPLOY, Inbox, alertmanager, post_alerts, run_tool, webhook_receiver, without_repeats
from prometheus.smtp import MailBox, mail_server
from prometheus.test_alertmanager import HOSTILE, PAGE, STARTED, WORDS, alert
from rebalance_deploy.observability import AlertmanagerOptions, write_alertmanager_config
from waiting import wait_for

pytestmark = pytest.mark.tools

RECEIVERS = DEPLOY / "alertmanager" / "receivers"
SHIPPED = DEPLOY / "alertmanager" / "alertmanager.yml"
SECRETS = "/etc/alertmanager/secrets"
PASSWORD = "kept in a file"


@dataclass(frozen=True, slots=True)
class Post:
    """The inbox of an Alertmanager's notifications, and its URL."""

    url: str
    inbox: Inbox
    mail: MailBox

    def opened(self) -> list[Any]:
        """Return the alerts created at Opsgenie."""
        return without_repeats(self.inbox.bodies("/opsgenie/v2/alerts"))


@contextmanager
def office(directory: Path, example: str, program: Path | None = None) -> Iterator[Post]:
    """Run an Alertmanager whose only receiver is the one in an example, with the addresses of this machine."""
    with webhook_receiver() as inbox, mail_server() as mail:
        shipped = write_alertmanager_config(
            directory, inbox.url, AlertmanagerOptions(group_wait_seconds=0.2, group_interval_seconds=0.5)
        )
        config: dict[str, Any] = yaml.safe_load(shipped.read_text())
        text = (RECEIVERS / f"{example}.yml").read_text().replace(SECRETS, str(directory / "secrets"))
        [receiver] = yaml.safe_load(text)["receivers"]
        for each in receiver.get("opsgenie_configs", ()):
            each["api_url"] = f"{inbox.url}/opsgenie/"
        for each in receiver.get("email_configs", ()):
            each |= {"smarthost": f"127.0.0.1:{mail.port}", "require_tls": False}
        for name, secret in {
            "opsgenie_key": PASSWORD,
            "teams_url": f"{inbox.url}/teams",
            "smtp_password": PASSWORD,
        }.items():
            (directory / "secrets" / name).write_text(secret)
        config |= {"receivers": [receiver], "inhibit_rules": []}
        config["route"] = {**config["route"], "receiver": receiver["name"], "routes": []}
        (directory / "example.yml").write_text(yaml.safe_dump(config))
        with alertmanager(directory, directory / "example.yml", program=program) as server:
            yield Post(server.url, inbox, mail)


def page(severity: str = "critical", group: str = "payments-enricher", **lines: str) -> dict[str, Any]:
    """Return an alert that has every line of the page."""
    return {**alert("Storm", severity, "prod", group, startsAt=STARTED), "annotations": {**PAGE, **lines}}


def ended(alert: dict[str, Any]) -> dict[str, Any]:
    """Return the resolved version of an alert."""
    return {**alert, "endsAt": "2026-01-15T03:10:00Z"}


def hold_page(text: str) -> None:
    """Check every line of the page: culprit, setting, its current and proposed value, and the link."""
    lines = text.splitlines()
    assert lines[0] == f"[FIRING] {PAGE['summary']}"
    assert [line[:7] for line in lines[1:]] == WORDS
    assert {f"Who    {PAGE['who']}", f"Change {PAGE['change']}"} <= set(lines)
    assert f"explain page {PAGE['explain_url']}" in lines[-1]


def test_the_page_at_opsgenie(tmp_path: Path) -> None:
    """Opsgenie gets the phone line as message, the whole page as description, and the end of the same alert."""
    with office(tmp_path, "opsgenie") as post:
        post_alerts(post.url, page())
        [opened] = wait_for(post.opened, "an alert at Opsgenie")
        post_alerts(post.url, ended(page()))
        closing = f"/opsgenie/v2/alerts/{opened['alias']}/close?identifierType=alias"
        wait_for(lambda: post.inbox.bodies(closing), lambda: f"its end; there came {post.inbox}")
    assert opened["message"] == f"[FIRING] {PAGE['summary']}"
    hold_page(opened["description"])
    assert (opened["priority"], opened["entity"], opened["tags"]) == ("P1", "payments-enricher", ["rebalance-monitor"])
    assert opened["source"] == opened["details"]["explain"] == PAGE["explain_url"]


def test_a_ticket_at_opsgenie(tmp_path: Path) -> None:
    """Alerts below a page have a lower priority there too."""
    with office(tmp_path, "opsgenie") as post:
        post_alerts(post.url, page("warning"))
        [opened] = wait_for(post.opened, "an alert at Opsgenie")
    assert opened["priority"] == "P3"


def test_an_open_alert_at_opsgenie_is_kept_up(tmp_path: Path) -> None:
    """Later information replaces the earlier one in the same alert."""
    with office(tmp_path, "opsgenie") as post:
        post_alerts(post.url, page("warning", summary="a ticket"))
        [opened] = wait_for(post.opened, "an alert at Opsgenie")
        post_alerts(post.url, page(summary="a page"))
        path = f"/opsgenie/v2/alerts/{opened['alias']}/message?identifierType=alias"
        wait_for(lambda: {"message": "[FIRING] a page"} in post.inbox.bodies(path), lambda: post.inbox)


def test_the_page_as_email(tmp_path: Path) -> None:
    """The subject is the phone line; the page comes as text and as HTML, where names are escaped."""
    with office(tmp_path, "email") as post:
        post_alerts(post.url, page(), page(group="hostile", summary="hostile", who='<b>a"b</b>@host'))
        wait_for(lambda: len({each["Subject"] for each in post.mail.messages}) == 2, "two messages")
        post_alerts(post.url, ended(page()))
        wait_for(lambda: any("[RESOLVED]" in each["Subject"] for each in post.mail.messages), "the end")
    assert set(post.mail.passwords) == {PASSWORD}
    by_subject = {each["Subject"]: each for each in post.mail.messages}
    message = by_subject[f"[FIRING] {PAGE['summary']}"]
    text, html = (part.get_content() for part in message.iter_parts())
    hold_page(text.strip().replace("\r\n", "\n"))
    silence = f"{post.url}/#/silences/new?filter=%7Bcluster%3D%22prod%22%2Cgroup%3D%22payments-enricher%22%7D"
    addresses = {
        "group dashboard": PAGE["dashboard_url"],
        "explain page": PAGE["explain_url"],
        "silence": silence,
        "runbook": PAGE["runbook_url"],
    }
    links = " | ".join(f'<a href="{escape(address)}">{word}</a>' for word, address in addresses.items())
    assert f"<p>{links}</p>" in html
    assert "Also" not in html
    for word, line in (("Who", PAGE["who"]), ("Change", PAGE["change"].replace(">", "&gt;"))):
        assert f'<tr><th align="left">{word}</th><td>{line}</td></tr>' in html
    [_, hostile] = (part.get_content() for part in by_subject["[FIRING] hostile"].iter_parts())
    assert "&lt;b&gt;a&#34;b&lt;/b&gt;@host" in hostile
    assert "<b>" not in hostile
    resolved = by_subject[f"[RESOLVED] {PAGE['summary']}"]
    reported, shown = (part.get_content() for part in resolved.iter_parts())
    assert "02:41 to 03:10 UTC" in reported
    assert re.search(r"payments-enricher[?]from=1768443967000&amp;to=1768446600000\">explain page<", shown)
    # Mail programs group messages that refer to the same message.
    thread = "<prod-payments-enricher@rebalance-monitor>"
    assert {each[header] for each in (message, resolved) for header in ("References", "In-Reply-To")} == {thread}
    assert by_subject["[FIRING] hostile"]["References"] == "<prod-hostile@rebalance-monitor>"


def test_an_email_names_the_other_alerts(tmp_path: Path) -> None:
    """The text is that of one alert of a group; the others are listed below it, in the text and in the HTML."""
    with office(tmp_path, "email") as post:
        other = {**page("warning"), "labels": {**page("warning")["labels"], "alertname": "KafkaRebalanceSlow"}}
        post_alerts(post.url, page(), other)
        # Alertmanager may send the first message before it has taken the second alert.
        message, *_ = wait_for(lambda: [each for each in post.mail.messages if "\nAlso " in text_of(each)], "both")
    text, html = (part.get_content().replace("\r\n", "\n") for part in message.iter_parts())
    assert text.rstrip().endswith("\nAlso   KafkaRebalanceSlow (warning)")
    assert "<p>Also KafkaRebalanceSlow (warning)</p>" in html


def text_of(message: EmailMessage) -> str:
    """Return the plain text of a message."""
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def hold_card(title: str, text: str) -> None:
    """Check that the phone line is the title, and that the lines of the page and the links are Markdown."""
    assert title == f"[FIRING] {PAGE['summary']}"
    lines = [line for line in text.splitlines() if line]
    assert "**Who** consumer-7@10.4.2.19" in lines
    assert f"**Change** {PAGE['change'].replace('>', chr(92) + '>')}" in lines
    assert [line.split("**")[1] for line in lines[:-1]] == [word.strip() for word in WORDS[:-1]]
    assert lines[-1].startswith(
        f"[group dashboard]({PAGE['dashboard_url']}) | [explain page]({PAGE['explain_url']}) | "
    )
    assert re.search(r"[|] \[silence\]\(http://[^)]*\) [|] \[runbook\]\([^)]*\)$", lines[-1])


def test_the_texts_of_a_card_in_teams(tmp_path: Path) -> None:
    """The texts of the receiver, rendered by a tool that is older than the receiver."""
    [receiver] = yaml.safe_load((RECEIVERS / "teams.yml").read_text())["receivers"]
    [card] = receiver["msteamsv2_configs"]
    firing = {**page(), "status": "firing", "fingerprint": "1", "endsAt": "0001-01-01T00:00:00Z"}
    data = {"status": "firing", "alerts": [firing], "externalURL": "http://alertmanager"}
    (tmp_path / "data.json").write_text(json.dumps(data))

    def render(template: str) -> str:
        done = run_tool(
            *("amtool", "template", "render", f"--template.glob={DEPLOY}/alertmanager/templates/*.tmpl"),
            *(f"--template.text={template}", f"--template.data={tmp_path / 'data.json'}"),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    hold_card(render(card["title"]).strip(), render(card["text"]))


def test_the_page_in_teams(tmp_path: Path) -> None:
    """The card has the phone line as its title, and the lines of the page with their links as Markdown."""
    program = TOOLS / "bin" / "alertmanager"
    if not program.exists():
        pytest.skip("no Alertmanager that knows Teams' workflows (0.28) is here: `make charts` builds it")
    with office(tmp_path, "teams", program) as post:
        post_alerts(post.url, page(), page(group="hostile", summary="hostile", who=HOSTILE))

        def both() -> dict[str, Any] | None:
            bodies = post.inbox.bodies("/teams")
            found = {each["attachments"][0]["content"]["body"][0]["text"]: each for each in bodies}
            return found if len(found) == 2 else None

        cards = wait_for(both, lambda: f"two cards; there came {post.inbox}")
    assert cards is not None
    title, text = [each["text"] for each in cards[f"[FIRING] {PAGE['summary']}"]["attachments"][0]["content"]["body"]]
    hold_card(title, text)
    [hostile] = [each for title, each in cards.items() if "hostile" in title]
    shown = hostile["attachments"][0]["content"]["body"][1]["text"]
    assert r'**Who** a"b \{\{ .Status \}\}\<\!channel\> & \\d\|é' in shown


@pytest.mark.parametrize(
    ("severity", "receivers"),
    [
        ("critical", "everything,platform-opsgenie,platform-teams,platform-email,platform-pager,platform-slack"),
        ("warning", "everything,platform-teams,platform-email,platform-slack"),
    ],
)
def test_every_example_has_its_route(tmp_path: Path, severity: str, receivers: str) -> None:
    """With its routes uncommented, pages reach all receivers, and tickets all except pagers."""
    text = re.sub(r"^    # (- |  )(matchers|receiver|continue)", r"    \1\2", SHIPPED.read_text(), flags=re.M)
    config = yaml.safe_load(text)
    config["receivers"] += [{"name": f"platform-{file.stem}"} for file in RECEIVERS.glob("*.yml")]
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(config))
    labels = ("alertname=KafkaRebalanceStorm", f"severity={severity}")
    done = run_tool(
        *("amtool", "config", "routes", "test", f"--config.file={tmp_path / 'alertmanager.yml'}"),
        *(f"--verify.receivers={receivers}", *labels),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    named = {yaml.safe_load(file.read_text())["receivers"][0]["name"] for file in RECEIVERS.glob("*.yml")}
    assert named == {f"platform-{file.stem}" for file in RECEIVERS.glob("*.yml")}


def test_no_secret_is_in_an_example() -> None:
    """Every example reads its secret from a file that its header names."""
    for file in RECEIVERS.glob("*.yml"):
        used = [line.split(": ")[1] for line in file.read_text().splitlines() if "_file:" in line]
        assert used, file
        assert all(f"#   {path} " in file.read_text() for path in used)
