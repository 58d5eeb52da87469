"""The settings that clients and types of groups reject: advice of rules and of the exporter is checked against it.

It is written independently and as briefly as possible, and is not derived from the code under test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_contract import Advice, GroupType, Member

NEWER = (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)


@dataclass(frozen=True)
class Client:
    """The settings of a client, and the combinations that it rejects."""

    client_id: str
    protocol: str
    refuses: frozenset[str]
    protocol_type: str = "consumer"


def client(client_id: str, protocol: str, refuses: str = "", protocol_type: str = "consumer") -> Client:
    return Client(client_id, protocol, frozenset(refuses.split()), protocol_type)


ASSIGNOR, RECORDS, POLL = "partition.assignment.strategy", "max.poll.records", "max.poll.interval.ms"
NAMES, PROTOCOL, SESSION = "group.instance.id", "group.protocol", "session.timeout.ms"
KEEPALIVE = "socket.keepalive.enable"
CLIENTS = (
    client("consumer-g-1", "range", KEEPALIVE),
    client("consumer-g-2", "cooperative-sticky", f"{ASSIGNOR} {KEEPALIVE}"),
    client("a-StreamThread-1-consumer", "stream", f"{ASSIGNOR} {PROTOCOL} {KEEPALIVE}"),
    client("connect-1", "sessioned", f"{ASSIGNOR} {PROTOCOL} {NAMES} {RECORDS} {POLL} {KEEPALIVE}", "connect"),
    client("connect-2", "default", f"{ASSIGNOR} {PROTOCOL} {NAMES} {RECORDS} {POLL} {KEEPALIVE}", "connect"),
    client("rdkafka", "range", RECORDS),
    client("kafka-python-1.3.5", "range", f"{ASSIGNOR} {PROTOCOL} {NAMES} {KEEPALIVE}"),
    client("kafka-python-2.2.3", "range", f"{ASSIGNOR} {PROTOCOL} {NAMES} {KEEPALIVE}"),
    client("kafka-python-3.0.2", "range", f"{PROTOCOL} {KEEPALIVE}"),
    client("aiokafka-0.12.0", "roundrobin", f"{ASSIGNOR} {PROTOCOL} {KEEPALIVE}"),
    client("kgo", "roundrobin", f"{RECORDS} {KEEPALIVE}"),
    client("sarama", "range", f"{ASSIGNOR} {PROTOCOL} {RECORDS} {KEEPALIVE}"),
    client("kafkajs", "RoundRobinAssigner", f"{ASSIGNOR} {PROTOCOL} {NAMES} {RECORDS} {KEEPALIVE}"),
)
SPEAK_KIP848 = ("consumer-g-1", "rdkafka", "kgo")
#: Settings that a group of a newer type also rejects, because the group or the broker has them instead.
REFUSED_BY_TYPE = {
    GroupType.CLASSIC: frozenset[str](),
    GroupType.CONSUMER: frozenset({SESSION, ASSIGNOR, PROTOCOL, "heartbeat.interval.ms"}),
    GroupType.SHARE: frozenset({SESSION, ASSIGNOR, PROTOCOL, "heartbeat.interval.ms", NAMES}),
    GroupType.STREAMS: frozenset({SESSION, ASSIGNOR, PROTOCOL, "heartbeat.interval.ms", NAMES}),
}
#: Allowed session time-outs and poll limits; for the newer types the broker sets the session time-out.
SETTINGS = (
    *((6_000, 6_000), (6_000, 30_000), (10_000, 12_000), (10_000, 300_000), (45_000, 300_000)),
    *((90_000, 120_000), (600_000, 10_000), (600_000, 3_600_000), (1_800_000, 1_800_000)),
)
CASES = [
    *((each, GroupType.CLASSIC) for each in CLIENTS),
    *((each, kind) for each in CLIENTS if each.client_id in SPEAK_KIP848 for kind in NEWER),
]


def starts(of: Client, kind: GroupType, session_ms: int, poll_ms: int) -> bool:
    """Whether a client starts with these settings."""
    if kind != GroupType.CLASSIC:
        return True
    if of.client_id in ("kafka-python-1.3.5", "kafka-python-2.2.3"):
        return session_ms < 305_000
    return of.client_id != "rdkafka" or session_ms <= poll_ms


def number_of(text: str | None) -> int | None:
    found = re.match(r"\d+\b(?!\s*%)", text or "")
    return None if found is None else int(found[0])


def problems(of: Client, kind: GroupType, who: Member, advice: Advice, *, longer: bool = False) -> Iterator[str]:
    """Yield the errors in a piece of advice to members of this kind; `longer`: it must raise the poll interval."""
    name, value, now = advice.parameter.partition(" ")[0], number_of(advice.proposed), number_of(advice.current)
    if name in of.refuses | REFUSED_BY_TYPE[kind]:
        yield f"{of.client_id} refuses {name} in a {kind} group"
    session_ms = who.session_timeout_ms or 45_000
    if name == SESSION and advice.proposed.startswith("no longer") and session_ms <= 45_000:
        yield f"a session of {session_ms} need not be shorter"
    if name.endswith(SESSION) and value is not None:
        yield from _of_session(of, kind, who, name, value, both="with it" in advice.proposed)
    if name in (POLL, "rebalance.timeout.ms") and value is not None:
        longer = longer or "hold up the group" in advice.proposed
        if of.client_id == "rdkafka" and not session_ms <= value <= 86_400_000 and kind == GroupType.CLASSIC:
            yield f"librdkafka takes no poll interval of {value} with a session of {session_ms}"
        if now is not None and (value <= now if longer else value >= now):
            yield f"a poll interval of {value} is not {'longer' if longer else 'shorter'} than {now}"
    most = re.match(r"at most (\d+)", advice.proposed)
    if name == RECORDS and most is not None and now is not None and int(most[1]) >= now:
        yield f"{most[1]} records are not fewer than {now}"
    if name == "heartbeat.interval.ms" and value is not None and value >= (now or 0):
        yield f"a heartbeat interval of {value} is not shorter than {now}"


def _of_session(of: Client, kind: GroupType, who: Member, name: str, value: int, *, both: bool) -> Iterator[str]:
    """Yield the errors in an advised session time-out; `both`: its other bounds must be raised as well."""
    session_ms, poll_ms = who.session_timeout_ms or 45_000, who.rebalance_timeout_ms or 0
    classic = kind == GroupType.CLASSIC
    least, most = (6_000, 1_800_000) if classic else (45_000, 1_800_000 if both else 60_000)
    if not least <= value <= most:
        yield f"brokers do not take a session of {value}"
    if value <= session_ms:
        yield f"a session of {value} is not longer than {session_ms}"
    if not classic and name != f"{kind}.{SESSION}":
        yield f"{name} is not the session of a {kind} group"
    if classic and not both and of.client_id == "rdkafka" and value > poll_ms:
        yield f"librdkafka does not start with a session of {value} and a poll interval of {poll_ms}"
    if classic and not both and of.client_id in ("kafka-python-1.3.5", "kafka-python-2.2.3") and value >= 305_000:
        yield f"kafka-python does not start with a session of {value}"
