"""A deploy announced by its pipeline, with a broker, restarted clients, and two exporters of one monitor."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from e2e.pages import page
from e2e.rig import READY_SECONDS, Watched
from exporters.serving import hash_password
from rebalance_contract import FindingState, Severity
from rebalance_deploy.counts import fetch
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

GROUPS = ANNOUNCED, UNSAID, SLOW = "deploy-announced", "deploy-unsaid", "deploy-slow"
#: A deploy is judged half a minute after its end; a machine may be busy.
PATIENCE = {"seconds": 480.0, "every": 1.0}
_SERVING = re.compile(r"serving on (\S+)/metrics")
_RECORDS, _MORE_RECORDS = 2_000, 20


def spec(group: str, number: int, session_timeout_ms: int = 45_000, **changes: Any) -> ConsumerSpec:
    """Return the specification of a consumer that reports its metrics and processes records as they arrive."""
    name, session_ms = f"{group}-{number}", session_timeout_ms
    return ConsumerSpec(
        "confluent-kafka", group, "orders", name, session_timeout_ms=session_ms, reports=True, **changes
    )


def hold_a_deploy_is_what_was_announced(watched: Watched) -> None:
    """Check a restart with and without an announcement, a poll limit exceeded meanwhile, and a restart afterwards."""
    members = {group: [spec(group, number) for number in (1, 2)] for group in (ANNOUNCED, UNSAID)}
    for each in (*members[ANNOUNCED], *members[UNSAID], spec(SLOW, 1)):
        watched.start(each)
    wait_for(lambda: rebalances(watched, SLOW), "the monitor to know the groups", **PATIENCE)
    with pipeline(watched) as run:
        announced = json.loads(
            run("announce", ANNOUNCED, SLOW, "--version", "1.2", "--by", "alice", "--for", "10m", "--json")
        )
        assert (announced["created_by"], announced["on_behalf_of"], announced["version"]) == ("ci", "alice", "1.2")
        shown = wait_for(lambda: silences(watched), "the other exporter to show the deploy", **PATIENCE)
        assert [each["silence_id"] for each in shown] == [announced["silence_id"]]
        for group in (ANNOUNCED, UNSAID):
            for each in members[group]:
                watched.leave(each)
                watched.start(each)
        # It processes for longer than its limit, so it is removed from the group, deploy or not.
        watched.start(spec(SLOW, 2, 6_000, max_poll_interval_ms=6_000, seconds_per_poll=11.0))
        produce(watched, _RECORDS)
        # Rebalances that began in the announced time are explained by it, except that a machine that stalls causes its
        # own.
        since = announced["starts_at_ms"]
        wait_for(
            lambda: announcements(watched, ANNOUNCED) and is_restart_judged(watched, ANNOUNCED, since),
            lambda: (printed_in_short(watched, ANNOUNCED), rebalances(watched, ANNOUNCED)),
            **PATIENCE,
        )
        found = findings(watched, ANNOUNCED)
        (said,) = (each for each in found if each["variant"] == "announced")
        assert re.match(
            r"A deploy of 1.2 that alice \(as ci\) announced: \d members? left and \d came", said["summary"]
        )
        assert [each["value"] for each in said["evidence"] if each["source"] == "announcement"] == ["deploy 1.2"]
        assert said["severity"] == Severity.INFO
        asking = {name for each in found if each["severity"] != Severity.INFO for name in each["rebalance_ids"]}
        assert not asking & set(said["rebalance_ids"]), found
        wait_for(
            lambda: is_restart_judged(watched, UNSAID, since), lambda: printed_in_short(watched, UNSAID), **PATIENCE
        )
        assert announcements(watched, UNSAID) == []
        wait_for(lambda: is_overrun_reported(watched), lambda: findings(watched, SLOW), **PATIENCE)

        run("silence", "expire", announced["silence_id"])
        ended = wait_for(lambda: [s for s in silences(watched) if s["expired_by"]], "its end to be shown", **PATIENCE)
        assert ended[0]["expired_by"] == "ci"
    again = members[ANNOUNCED][0]
    watched.leave(again)
    watched.start(again)
    after = ended[0]["ends_at_ms"]
    wait_for(
        lambda: is_restart_judged(watched, ANNOUNCED, after),
        lambda: (printed_in_short(watched, ANNOUNCED), rebalances(watched, ANNOUNCED, after)),
        **PATIENCE,
    )
    (known,) = announcements(watched, ANNOUNCED)
    later = {each["rebalance_id"] for each in rebalances(watched, ANNOUNCED, after)}
    assert not later & set(known["rebalance_ids"])


def is_overrun_reported(watched: Watched) -> bool:
    """Whether the overrun of the slow group is reported.

    If not, give its member more records, so that it overruns again. On a busy machine a client that is removed late
    looks like one whose session expired, and the other member soon has all records.
    """
    if reported(watched, SLOW, "poll_overrun"):
        return True
    produce(watched, _MORE_RECORDS)
    return False


def produce(watched: Watched, count: int) -> None:
    """Produce records, so that each member of a group gets some."""
    producer = Producer({"bootstrap.servers": watched.broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce("orders", key=str(number), value=b"x")
    assert producer.flush(120) == 0


@contextmanager
def pipeline(watched: Watched) -> Iterator[Any]:
    """Log a pipeline in to its own exporter; yield a function that runs a command and returns its output."""
    web, secret, log = (watched.directory / name for name in ("web.yml", "ci-password", "second-exporter.log"))
    web.write_text(f"basic_auth_users: {{ci: {hash_password('secret')}}}\n")
    secret.write_text("secret\n")
    settings = ("export.listen_host=127.0.0.1", "export.listen_port=0", f"export.web_config_file={web}")
    command = [
        *(sys.executable, "-m", "rebalance_deploy", "export", "--bootstrap-server", watched.broker.bootstrap),
        *("--set", "export.health_without_password=true"),
        *(part for each in settings for part in ("--set", each)),
    ]
    with ChildProcess(command, log_path=log) as process:
        url = wait_for(lambda: _SERVING.search(log.read_text()), log.read_text, READY_SECONDS)[1]
        wait_for(lambda: fetch(f"{url}/-/ready")[0] == 200, lambda: fetch(f"{url}/-/ready"), READY_SECONDS)
        access = {
            "REBALANCE_MONITOR_URL": url,
            "REBALANCE_MONITOR_USER": "ci",
            "REBALANCE_MONITOR_PASSWORD_FILE": str(secret),
        }

        def run(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "rebalance_deploy", *words],
                env={**os.environ, **access},
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run
        assert process.is_running


def findings(watched: Watched, group: str) -> list[dict[str, Any]]:
    """Return the findings about a group, as reported by the first exporter."""
    found: list[dict[str, Any]] = json.loads(page(f"{watched.url}/api/v1/findings?group={group}"))["findings"]
    return found


def silences(watched: Watched) -> list[dict[str, Any]]:
    """Return the silences known to the first exporter, which received none of the requests itself."""
    found: list[dict[str, Any]] = json.loads(page(f"{watched.url}/api/v1/silences"))["silences"]
    return found


def rebalances(watched: Watched, group: str, since_ms: int = 0) -> list[dict[str, Any]]:
    """Return a group's rebalances that began since a time; none while the group is unknown."""
    status, text = fetch(f"{watched.url}/api/v1/groups/{group}/rebalances")
    known = json.loads(text)["rebalances"] if status == 200 else []
    return [each for each in known if each["started_before_ms"] >= since_ms]


def announcements(watched: Watched, group: str) -> list[dict[str, Any]]:
    """Return the finding about the announced deploys of a group, if there is one."""
    return [each for each in findings(watched, group) if each["variant"] == "announced"]


def is_restart_judged(watched: Watched, group: str, since_ms: int) -> bool:
    """Whether a member left and one joined since a time, and findings name every rebalance that began since."""
    known = rebalances(watched, group, since_ms)
    restarted = any(each["left"] for each in known) and any(each["joined"] for each in known)
    named = {name for each in findings(watched, group) for name in each["rebalance_ids"]}
    return restarted and {each["rebalance_id"] for each in known} <= named


def printed_in_short(watched: Watched, group: str) -> list[tuple[Any, ...]]:
    """Return the findings about a group in short form, for a test's failure message."""
    names = "rule", "state", "severity", "primary", "summary", "rebalance_ids"
    return [tuple(each[name] for name in names) for each in findings(watched, group)]


def reported(watched: Watched, group: str, rule: str) -> bool:
    """Whether an open diagnosis is the cause of some of a group's rebalances."""
    return any(
        each["rule"] == rule and each["primary"] and each["state"] == FindingState.FIRING
        for each in findings(watched, group)
    )
