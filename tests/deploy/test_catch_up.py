"""The progress of `up`, on a terminal and for programs, until the monitor is ready."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from rebalance_deploy import catch_up as reporting
from rebalance_deploy.catch_up import CatchUpReport, ready_url
from rebalance_exporters.config import ExportConfig

URL = "http://127.0.0.1:9642/-/ready"


def answer(text: str, share: float | None, *, ready: bool = False) -> tuple[int, str]:
    return (200 if ready else 503), json.dumps({"ready": ready, "text": text, "share": share})


def test_share_rate_and_time_left_are_reported_until_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line every five seconds, once the share is known; after `ready` the exporter is not queried any more."""
    answers = {
        0: (0, "connection refused"),
        1: answer("no status from the stream yet", None),
        2: answer("reading the monitor's topics: 5 of 10", 0.5),
        3: answer("reading the log: 0 % of 100 records", 0.0),
        7: answer("reading the log: 20 % of 100 records", 0.2),
        11: (401, "a page for those with a password"),
        12: answer("reading the log: 45 % of 100 records", 0.45),
        13: answer("ready", 1.0, ready=True),
    }
    said: list[str] = []
    reported: list[Mapping[str, object]] = []
    catch_up = CatchUpReport(URL)
    for at_seconds, each in answers.items():
        monkeypatch.setattr(reporting, "fetch", lambda url, each=each, **_: each if url == URL else None)
        catch_up.report(lambda text, figures: said.append(text) or reported.append(figures), at_seconds)
    assert said == [
        "reading the monitor's topics: 5 of 10",
        "reading the log: 20 % of 100 records, 5 % a second, 16 s left",
        "reading the log: 45 % of 100 records, 5 % a second, 11 s left",
        "ready",
    ]
    shares = [(each["step"], each["share"], each["share_rate"], each["seconds_left"]) for each in reported]
    assert shares[1:] == [
        ("reading the log", 0.2, 0.05, 16.0),
        ("reading the log", 0.45, 0.05, 11.0),
        ("ready", 1.0, None, None),
    ]
    assert {each["done"] for each in reported} == {None}
    monkeypatch.setattr(reporting, "fetch", lambda *_, **__: pytest.fail("asked again"))
    catch_up.report(lambda *_: None, 60.0)


def test_without_a_page_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is made, and nothing is printed."""
    asked: list[object] = []
    said: list[str] = []
    monkeypatch.setattr(reporting, "fetch", lambda *given, **_: asked.append(given))
    CatchUpReport(None).report(lambda text, _: said.append(text), 0.0)
    assert (asked, said) == ([], [])


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, URL),
        ({"listen_host": "::"}, "http://[::1]:9642/-/ready"),
        ({"listen_host": "fd00::7", "listen_port": 80}, "http://[fd00::7]:80/-/ready"),
        ({"listen_host": "10.0.0.7", "listen_port": 80}, "http://10.0.0.7:80/-/ready"),
        ({"listen_port": 0}, None),
        ({"web_config_file": "web.yml"}, None),
    ],
)
def test_the_page_that_is_asked(settings: dict[str, object], url: str | None) -> None:
    """The page is on this machine; with any free port, TLS or passwords only the exporter knows how to reach it."""
    assert ready_url(ExportConfig(kafka={}, **settings)) == url
