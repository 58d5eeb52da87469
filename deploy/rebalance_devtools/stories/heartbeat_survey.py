"""Measures whether versions of kafka-python delay their heartbeats when records are sparse (incident D).

    python -m rebalance_devtools.stories.heartbeat_survey [VERSION …]

By default all versions from 2.0.0 to 2.2.21. Each is installed with pip into a temporary directory, and consumes a
record every 9 s with a session of 6 s in four forms (see programs/time_heartbeats.py). Prints a table: the longest time
between two heartbeats by form. It is expected to be near the heartbeat interval of 2 s; from 6 s on the member is
removed. Nothing here is a part of tests: the versions are not pinned by checksums.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.topics import create_topics

FORMS = ("poll", "spin", "busy", "pause")
#: All that were released of 2.0, 2.1 and 2.2.
VERSIONS = (
    *(f"2.0.{number}" for number in range(7)),
    *(f"2.1.{number}" for number in range(7)),
    *(f"2.2.{number}" for number in range(22)),
)
_SESSION_MS, _HEARTBEAT_MS, _RECORD_SECONDS, _SECONDS = 6_000, 2_000, 9.0, 30.0
#: Forms that compute need a core each.
_AT_ONCE = 2
_TOPIC = "sparse"


def survey(versions: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the measurements by form of each version."""
    with tempfile.TemporaryDirectory() as name, EmbeddedKafka() as broker:
        directory = Path(name)
        create_topics(broker.bootstrap, {_TOPIC: 1})
        with _traffic(broker.bootstrap), ThreadPoolExecutor(_AT_ONCE) as pool:
            return [
                (version, dict(zip(FORMS, pool.map(lambda form: _run(*at, form), FORMS), strict=True)))
                for version in versions
                if (at := (broker.bootstrap, version, _installed(version, directory)))
            ]


def _installed(version: str, directory: Path) -> Path:
    target = directory / version
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", target, f"kafka-python=={version}"], check=True)
    return target


def _run(bootstrap: str, version: str, site: Path, form: str) -> dict[str, Any]:
    """Return what one consumer measured, alone in its group."""
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": f"{version}-{form}",
        "session_timeout_ms": _SESSION_MS,
        "heartbeat_interval_ms": _HEARTBEAT_MS,
    }
    command = [sys.executable, "-m", "rebalance_devtools.stories.programs.time_heartbeats", form, str(_SECONDS), _TOPIC]
    done = subprocess.run(
        [*command, json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
        timeout=10 * _SECONDS,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def _traffic(bootstrap: str) -> Iterator[None]:
    """Write a record now and then."""
    ended, producer = threading.Event(), Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def write() -> None:
        while not ended.wait(_RECORD_SECONDS):
            producer.produce(_TOPIC, b"x")
            producer.flush(10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def table(found: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return the longest time between heartbeats in seconds, and the number of failed commits, as Markdown."""
    lines = [f"| kafka-python | {' | '.join(FORMS)} | failed commits |", f"|---|{'---:|' * (len(FORMS) + 1)}"]
    for version, forms in found:
        longest = " | ".join(f"{forms[form]['longest_s']:.2f} s" for form in FORMS)
        lines.append(f"| {version} | {longest} | {sum(each['failed_commits'] for each in forms.values())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(survey(sys.argv[1:] or VERSIONS)))  # noqa: T201 - the program's result
