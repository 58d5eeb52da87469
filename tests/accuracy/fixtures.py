"""Log-only recordings, made from real clients and brokers for the decoding tests, that show one cause clearly."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from rebalance_contract import Finding
from rebalance_streaming.recordings.replay import replay

FOLDER = Path(__file__).parents[1] / "golden"

#: The diagnosis that the log alone must give for each; usually the recording is named after it.
EXPECTED = {
    "connect-workers": "connect_scheduled_rebalance",
    "flapping-member": "short_lived_consumers",
    # No commit was due while b slept, so the log alone leaves the cause open. At the end both are closed without
    # leaving.
    "maxpoll-java-static": "static_member_ghost",
    "new-java-fenced-in-revocation": "reconciliation_stuck",
    "new-java-maxpoll": "poll_overrun",
    "new-java-static-crash-return": "static_session_too_short",
    "new-java-static-restarts": "static_member_ghost",
    "new-java-subscription-change": "subscription_change",
    "new-rdk-kill-session-timeout": "member_crash",
    "new-rdk-regex": "topic_metadata_change",
    "static-java-range-restarts": "static_member_restart",
    "static-kp3-range-restarts": "static_member_restart",
    "upgrade-downgrade-java-coop": "protocol_migration",
    "v40-upgrade": "protocol_migration",
}

#: Recordings without any fault.
HARMLESS = (
    "broker-restart",
    "classic-java-coop-join-leave",
    "classic-java-default-two-protocols",
    "classic-kp3-coop-join-leave",
    "classic-kp3-range-join-leave",
    "classic-rdk-range-join-leave",
    "new-java-partitions-added",
    "new-java-uniform-join-leave",
    "new-rdk-four-at-once",
    "new-rdk-range-join-leave",
    "share-java-join-leave-delete",
    "simple-kp3-assign",
    "slow-rejoin-java",
    "streams-classic-protocol",
    "streams-java-join-leave-delete",
    "streams-java-second-instance",
    "topic-deleted-java",
    "txn-java-commit-abort",
    "v39-java-default-join-leave",
    "v39-kp146-range-join-leave",
    "v40-new-java-join-leave",
)


def diagnose(name: str) -> list[Finding]:
    """Return the findings of a replay."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz") as file:
        rows = list(replay([file], output="findings"))
    return [msgspec.json.decode(row, type=Finding) for row in rows]
