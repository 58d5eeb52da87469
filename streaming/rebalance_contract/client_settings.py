"""The settings that client libraries and groups have, and their valid values, so that advice proposes only these.

Functions take members as the log describes them, and types of groups; libraries are recognised by what they send. Facts
about Kafka, librdkafka and the other libraries are listed here once, with the source file that states them. A version
is a tuple of numbers, empty if it is not known; a library is null if it is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from rebalance_contract.groups import CONNECT_PROTOCOL, STREAMS_ASSIGNOR, USUAL_SESSION_MS, Member
from rebalance_contract.sets import GroupType

JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA = "java", "librdkafka", "kafka-python", "aiokafka"
SARAMA, FRANZ_GO, KAFKAJS = "sarama", "franz-go", "kafkajs"

#: Protocols that workers of Kafka Connect use instead of an assignor (ConnectProtocolCompatibility); they are Java.
CONNECT_ASSIGNORS = ("default", "compatible", "sessioned")
#: Protocols of Kafka Streams and Kafka Connect: their assignor cannot be configured, and they cannot use KIP-848.
OWN_ASSIGNORS = frozenset({STREAMS_ASSIGNOR, *CONNECT_ASSIGNORS})
COOPERATIVE_ASSIGNOR = "cooperative-sticky"
#: Assignors that revoke all partitions at each rebalance; for others it is not known whether they do.
EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})

Version = tuple[int, ...]


def parse_version(version: str | None) -> Version:
    """Return the leading numbers of a version: `2.2.15` -> (2, 2, 15)."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in found.group().split(".")) if found else ()


# --- Recognising the library ---

#: Since this version of the subscription, all libraries that send it have a heartbeat thread that is never blocked.
WITH_GENERATION = 2
#: Java's CooperativeStickyAssignor adds only a generation; other libraries put the owned partitions before it.
_JAVA_STICKY_BYTES = 4
#: Part of the client ids that Kafka Streams gives its consumers (StreamThread.getConsumerClientId).
STREAM_THREAD = "-StreamThread-"
_BY_CLIENT_ID = (
    (re.compile(r"kafka-python-(\d[\w.]*)"), KAFKA_PYTHON),
    (re.compile(r"aiokafka-(\d[\w.]*)"), AIOKAFKA),
    (re.compile(r"rdkafka()$"), LIBRDKAFKA),
    (re.compile(r"sarama()$"), SARAMA),
    (re.compile(r"kgo()$"), FRANZ_GO),
    (re.compile(r"kafkajs()$"), KAFKAJS),
    (re.compile(rf".+{STREAM_THREAD}\d+-consumer()$"), JAVA),
    (re.compile(r"consumer-.+-\d+()$"), JAVA),
    (re.compile(r"consumer-\d+()$"), JAVA),
)


def library_of(member: Member, assignor: str | None) -> tuple[str | None, str | None]:
    """Return a member's library and version, recognised by its default client id, or else by its subscription.

    `assignor` is the assignor of its group, null if it is not known.
    """
    return _by_client_id(member.client_id) or (_by_subscription(member, assignor), None)


@lru_cache(maxsize=4_096)
def _by_client_id(client_id: str) -> tuple[str, str | None] | None:
    """Return the library and version of a default client id; null for others. Cached, because it is called often."""
    found = ((library, pattern.match(client_id)) for pattern, library in _BY_CLIENT_ID)
    return next(((library, match.group(1) or None) for library, match in found if match), None)


def _by_subscription(member: Member, assignor: str | None) -> str | None:
    """Return the library that writes a subscription like the member's; null if several do.

    If an assignor has no data, Java sends null (ConsumerProtocol.serializeSubscription), and librdkafka an empty text
    (rd_kafka_consumer_protocol_member_metadata_new). franz-go sends null too and is reported as Java; its heartbeats
    are just as unlikely to starve.
    """
    if member.subscription_version is None and assignor in CONNECT_ASSIGNORS:
        return JAVA
    if (member.subscription_version or 0) < WITH_GENERATION:
        return None
    if member.user_data_bytes is None:
        return JAVA
    if member.user_data_bytes == 0:
        return LIBRDKAFKA
    java_sticky = assignor == COOPERATIVE_ASSIGNOR and member.user_data_bytes == _JAVA_STICKY_BYTES
    return JAVA if java_sticky else None


def is_connect(protocol_type: str | None, protocol: str | None) -> bool:
    """Whether members are workers of Kafka Connect, by the group's protocol type or, if that is null, its protocol."""
    return protocol_type == CONNECT_PROTOCOL or (protocol_type is None and protocol in CONNECT_ASSIGNORS)


# --- Settings by library ---

#: First versions with the cooperative assignor. Java: CooperativeStickyAssignor.java (KIP-429); librdkafka:
#: CHANGELOG.md; kafka-python: CHANGES.md; Sarama: balance_strategy.go; franz-go: pkg/kgo/group_balancer.go, always.
#: aiokafka (aiokafka/coordinator/assignors) and kafkajs (src/consumer/assigners) have none.
_COOPERATIVE_SINCE: MappingProxyType[str, Version] = MappingProxyType(
    {JAVA: (2, 4), LIBRDKAFKA: (1, 6), KAFKA_PYTHON: (3,), SARAMA: (1, 60, 1), FRANZ_GO: ()}
)
#: Libraries that have had it for years: assumed to have it if the version is not known.
_COOPERATIVE_LONG = frozenset({JAVA, LIBRDKAFKA, FRANZ_GO})
#: Libraries that reject a list with both a cooperative and an eager assignor: to change it, all members must stop.
#: librdkafka: rdkafka_assignor.c, kafka-python: kafka/consumer/group.py.
MIXES_NOT = frozenset({LIBRDKAFKA, KAFKA_PYTHON})
#: First versions with static membership (KIP-345): from the catalogue, Sarama's config.go and franz-go's
#: pkg/kgo/config.go. kafkajs does not support it.
_STATIC_SINCE: MappingProxyType[str, Version] = MappingProxyType(
    {JAVA: (2, 3), LIBRDKAFKA: (1, 4), KAFKA_PYTHON: (2, 3), AIOKAFKA: (0, 10), SARAMA: (), FRANZ_GO: ()}
)
#: Types of groups that support static members. ShareConsumerConfig.SHARE_GROUP_UNSUPPORTED_CONFIGS excludes share
#: groups, and GroupCoordinatorService streams groups ("Static membership is not yet supported").
_STATIC_TYPES = (GroupType.CLASSIC, GroupType.CONSUMER)
#: Libraries without max.poll.records: they fetch records one by one, or by bytes.
_NO_POLL_RECORDS = frozenset({LIBRDKAFKA, SARAMA, FRANZ_GO, KAFKAJS})
#: Libraries that support KIP-848. The others reject group.protocol.
_SPEAKS_KIP848 = frozenset({JAVA, LIBRDKAFKA, FRANZ_GO})


def has_keepalive(library: str | None) -> bool:
    """Whether a library has socket.keepalive.enable; true if the library is not known.

    Java (Selector.java) and kafkajs (socketFactory.js) always send keep-alives, the others use another name for it.
    """
    return library in (None, LIBRDKAFKA)


def has_cooperative(library: str | None, version: Version) -> bool:
    """Whether a library has the cooperative assignor; true if the library is not known."""
    return library is None or _is_since(
        version, _COOPERATIVE_SINCE.get(library), if_unknown=library in _COOPERATIVE_LONG
    )


def has_static_members(library: str | None, version: Version, group_type: str) -> bool:
    """Whether a library has group.instance.id in a group of this type; true if only the library is not known."""
    if group_type not in _STATIC_TYPES:
        return False
    return library is None or _is_since(version, _STATIC_SINCE.get(library), if_unknown=True)


def has_poll_records(library: str | None) -> bool:
    """Whether a library has max.poll.records; true if the library is not known."""
    return library not in _NO_POLL_RECORDS


def speaks_kip848(library: str | None) -> bool:
    """Whether a library has group.protocol; true if the library is not known."""
    return library is None or library in _SPEAKS_KIP848


def _is_since(version: Version, first: Version | None, *, if_unknown: bool) -> bool:
    if first is None:
        return False
    return version >= first if version else if_unknown


# --- Sessions ---


@dataclass(frozen=True, slots=True)
class SessionSetting:
    """The setting of a member's session time-out, and the range in milliseconds that brokers accept by default.

    `of_group`: it is set for the group or on the brokers, and clients reject their own setting; `longest_by` is the
    brokers' setting with the upper limit.
    """

    name: str
    shortest_ms: int
    longest_ms: int
    longest_by: str
    of_group: bool


#: GroupCoordinatorConfig.java: GROUP_MIN_SESSION_TIMEOUT_MS_DEFAULT, GROUP_MAX_SESSION_TIMEOUT_MS_DEFAULT.
OWN_SESSION = SessionSetting("session.timeout.ms", 6_000, 1_800_000, "group.max.session.timeout.ms", of_group=False)


def _session_of_groups(kind: GroupType) -> SessionSetting:
    """Return the setting's name in GroupConfig.java and the limits in GroupCoordinatorConfig.java, equal for all types.

    A client with group.protocol=consumer rejects session.timeout.ms (ConsumerConfig.java, rdkafka_conf.c), as does a
    share consumer (ShareConsumerConfig.java).
    """
    longest_by = f"group.{kind}.max.session.timeout.ms"
    return SessionSetting(f"{kind}.session.timeout.ms", USUAL_SESSION_MS, 60_000, longest_by, of_group=True)


_GROUP_SESSIONS: MappingProxyType[str, SessionSetting] = MappingProxyType(
    {kind: _session_of_groups(kind) for kind in (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)}
)
#: Names of the session settings of groups whose coordinator sets the session.
GROUP_SESSION_NAMES = frozenset(each.name for each in _GROUP_SESSIONS.values())


def session_setting(group_type: str, session_ms: int | None) -> SessionSetting:
    """Return the setting of a member's session; `session_ms` is the session in its records, null if they have none.

    A classic member of a KIP-848 group, which exists while the group migrates, has its own session.
    """
    return OWN_SESSION if session_ms is not None else _GROUP_SESSIONS.get(group_type, OWN_SESSION)


def session_or_usual(session_ms: int | None) -> int:
    """Return a member's session in milliseconds; if its records have none (null or 0), the default of clients."""
    return session_ms or USUAL_SESSION_MS


@dataclass(frozen=True, slots=True)
class ClientBound:
    """The longest session that a client accepts, in milliseconds, and its setting to increase for a longer one."""

    longest_ms: int
    setting: str
    why: str


#: kafka-python before 3.0 rejects a session that is not shorter than its request time-out (kafka/consumer/group.py).
_KAFKA_PYTHON_REQUEST_MS, _KAFKA_PYTHON_FREE = 305_000, (3,)
#: Upper bounds of max.poll.interval.ms (rdkafka_conf.c); in other libraries the maximum of an int.
_LONGEST_POLL_MS: MappingProxyType[str, int] = MappingProxyType({LIBRDKAFKA: 86_400_000})
_LONGEST_INT = 2**31 - 1


def session_bound(
    library: str | None, version: Version, *, poll_ms: int | None, request_ms: int | None = None
) -> ClientBound | None:
    """Return the upper bound of the session in the client itself; null if there is none.

    `poll_ms` is its max.poll.interval.ms and `request_ms` its request.timeout.ms, null if they are not known.
    librdkafka does not start with a session above the poll interval (rd_kafka_conf_finalize in rdkafka_conf.c).
    """
    if library == LIBRDKAFKA and poll_ms:
        return ClientBound(poll_ms, "max.poll.interval.ms", "librdkafka takes no session above it")
    if library == KAFKA_PYTHON and version < _KAFKA_PYTHON_FREE:
        longest_ms = (request_ms or _KAFKA_PYTHON_REQUEST_MS) - 1_000
        return ClientBound(longest_ms, "request.timeout.ms", "kafka-python takes no session that is not below it")
    return None


def longest_poll_interval_ms(library: str | None) -> int:
    """Return the largest max.poll.interval.ms that a library accepts."""
    return _LONGEST_INT if library is None else _LONGEST_POLL_MS.get(library, _LONGEST_INT)
