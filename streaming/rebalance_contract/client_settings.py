"""Which settings clients and groups have, and what values they take: what advice may propose.

Receives members as the log describes them, and types of groups; knows the libraries by what they send. Facts of
Kafka, librdkafka and the other libraries stand here once, with the file of their source that states them. A version is
a tuple of numbers, empty where it is not known; a library is null where it is not.
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

#: What workers of Kafka Connect agree on instead of an assignor (ConnectProtocolCompatibility); they are Java.
CONNECT_ASSIGNORS = ("default", "compatible", "sessioned")
#: Protocols of Kafka Streams and Kafka Connect, whose assignor is no setting, and that KIP-848 is not for.
OWN_ASSIGNORS = frozenset({STREAMS_ASSIGNOR, *CONNECT_ASSIGNORS})
COOPERATIVE_ASSIGNOR = "cooperative-sticky"
#: Names of assignors that take all partitions away at each rebalance; whether others do is not known.
EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})

Version = tuple[int, ...]


def parse_version(version: str | None) -> Version:
    """Return the leading numbers of a version: `2.2.15` -> (2, 2, 15)."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in found.group().split(".")) if found else ()


# --- Which library it is ---

#: From this version of a subscription on, all libraries that send it have a heartbeat thread that nothing holds up.
WITH_GENERATION = 2
#: What Java's CooperativeStickyAssignor adds is a generation; other libraries put the partitions owned before it.
_JAVA_STICKY_BYTES = 4
#: In the client ids that Kafka Streams gives its consumers (StreamThread.getConsumerClientId).
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
    """Return the library and version that a member's records show, by its default client id, else its subscription.

    `assignor` is that of its group, null where it is not known.
    """
    return _by_client_id(member.client_id) or (_by_subscription(member, assignor), None)


@lru_cache(maxsize=4_096)
def _by_client_id(client_id: str) -> tuple[str, str | None] | None:
    """Return library and version of a default client id; null for others. It is asked of all members, all the time."""
    found = ((library, pattern.match(client_id)) for pattern, library in _BY_CLIENT_ID)
    return next(((library, match.group(1) or None) for library, match in found if match), None)


def _by_subscription(member: Member, assignor: str | None) -> str | None:
    """Return which library writes such a subscription; null where several do.

    Where an assignor has no data, Java sends null (ConsumerProtocol.serializeSubscription), as does franz-go, whose
    heartbeats are no more prone to starve, and librdkafka an empty text
    (rd_kafka_consumer_protocol_member_metadata_new).
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
    """Whether members are workers of Kafka Connect: by the group's protocol type, its protocol where that is null."""
    return protocol_type == CONNECT_PROTOCOL or (protocol_type is None and protocol in CONNECT_ASSIGNORS)


# --- Which settings a library has ---

#: First versions with the cooperative assignor. Java: CooperativeStickyAssignor.java (KIP-429); librdkafka:
#: CHANGELOG.md; kafka-python: CHANGES.md; Sarama: balance_strategy.go; franz-go: pkg/kgo/group_balancer.go, always.
#: aiokafka (aiokafka/coordinator/assignors) and kafkajs (src/consumer/assigners) have none.
_COOPERATIVE_SINCE: MappingProxyType[str, Version] = MappingProxyType(
    {JAVA: (2, 4), LIBRDKAFKA: (1, 6), KAFKA_PYTHON: (3,), SARAMA: (1, 60, 1), FRANZ_GO: ()}
)
#: Those that have had it for years: of one whose version is not known it is taken for granted.
_COOPERATIVE_LONG = frozenset({JAVA, LIBRDKAFKA, FRANZ_GO})
#: Those that refuse a list in which it stands beside an eager one: all members have to stop for the change.
#: librdkafka: rdkafka_assignor.c, kafka-python: kafka/consumer/group.py.
MIXES_NOT = frozenset({LIBRDKAFKA, KAFKA_PYTHON})
#: First versions with static membership (KIP-345): as the catalogue names them, Sarama's config.go and
#: franz-go's pkg/kgo/config.go. kafkajs has none.
_STATIC_SINCE: MappingProxyType[str, Version] = MappingProxyType(
    {JAVA: (2, 3), LIBRDKAFKA: (1, 4), KAFKA_PYTHON: (2, 3), AIOKAFKA: (0, 10), SARAMA: (), FRANZ_GO: ()}
)
#: Types of groups whose members may be static: ShareConsumerConfig.SHARE_GROUP_UNSUPPORTED_CONFIGS has it not, and
#: GroupCoordinatorService refuses it for streams groups ("Static membership is not yet supported").
_STATIC_TYPES = (GroupType.CLASSIC, GroupType.CONSUMER)
#: Libraries that fetch records one by one, or by bytes: they have no max.poll.records.
_NO_POLL_RECORDS = frozenset({LIBRDKAFKA, SARAMA, FRANZ_GO, KAFKAJS})
#: Libraries that speak KIP-848. The others refuse group.protocol.
_SPEAKS_KIP848 = frozenset({JAVA, LIBRDKAFKA, FRANZ_GO})


def has_keepalive(library: str | None) -> bool:
    """Whether a library has socket.keepalive.enable; one that is not known may have it.

    Java (Selector.java) and kafkajs (socketFactory.js) always send keep-alives, the others name it otherwise.
    """
    return library in (None, LIBRDKAFKA)


def has_cooperative(library: str | None, version: Version) -> bool:
    """Whether a library has the cooperative assignor; one that is not known may have it."""
    return library is None or _is_since(
        version, _COOPERATIVE_SINCE.get(library), if_unknown=library in _COOPERATIVE_LONG
    )


def has_static_members(library: str | None, version: Version, group_type: str) -> bool:
    """Whether a library has group.instance.id in a group of such a type; one that is not known may have it."""
    if group_type not in _STATIC_TYPES:
        return False
    return library is None or _is_since(version, _STATIC_SINCE.get(library), if_unknown=True)


def has_poll_records(library: str | None) -> bool:
    """Whether a library has max.poll.records; one that is not known may have it."""
    return library not in _NO_POLL_RECORDS


def speaks_kip848(library: str | None) -> bool:
    """Whether a library has group.protocol; one that is not known may have it."""
    return library is None or library in _SPEAKS_KIP848


def _is_since(version: Version, first: Version | None, *, if_unknown: bool) -> bool:
    if first is None:
        return False
    return version >= first if version else if_unknown


# --- Sessions ---


@dataclass(frozen=True, slots=True)
class SessionSetting:
    """What sets the session of a member, and between which values, in milliseconds, brokers take it by default.

    `of_group`: it is set for the group, or on the brokers, and clients refuse the name of theirs; `longest_by` is the
    brokers' setting that is the upper limit.
    """

    name: str
    shortest_ms: int
    longest_ms: int
    longest_by: str
    of_group: bool


#: GroupCoordinatorConfig.java: GROUP_MIN_SESSION_TIMEOUT_MS_DEFAULT, GROUP_MAX_SESSION_TIMEOUT_MS_DEFAULT.
OWN_SESSION = SessionSetting("session.timeout.ms", 6_000, 1_800_000, "group.max.session.timeout.ms", of_group=False)


def _session_of_groups(kind: GroupType) -> SessionSetting:
    """Return what GroupConfig.java calls it, with the limits of GroupCoordinatorConfig.java, which are alike for all.

    A client with group.protocol=consumer refuses session.timeout.ms (ConsumerConfig.java, rdkafka_conf.c), as a share
    consumer does (ShareConsumerConfig.java).
    """
    longest_by = f"group.{kind}.max.session.timeout.ms"
    return SessionSetting(f"{kind}.session.timeout.ms", 45_000, 60_000, longest_by, of_group=True)


_GROUP_SESSIONS: MappingProxyType[str, SessionSetting] = MappingProxyType(
    {kind: _session_of_groups(kind) for kind in (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)}
)
#: Names of the session where the coordinator sets it.
GROUP_SESSION_NAMES = frozenset(each.name for each in _GROUP_SESSIONS.values())


def session_setting(group_type: str, session_ms: int | None) -> SessionSetting:
    """Return what sets the session of a member of a group; `session_ms` as its records have it, null: they do not.

    A classic member in a group of KIP-848, as there are while it moves, has its own.
    """
    return OWN_SESSION if session_ms is not None else _GROUP_SESSIONS.get(group_type, OWN_SESSION)


def session_or_usual(session_ms: int | None) -> int:
    """Return the session of a member whose records do not have it: the default of those that brokers set."""
    return USUAL_SESSION_MS if session_ms is None else session_ms


@dataclass(frozen=True, slots=True)
class ClientBound:
    """The longest session that a client starts with, in milliseconds, and the setting of its own that has to grow."""

    longest_ms: int
    setting: str
    why: str


#: kafka-python before 3.0 refuses a session that is not shorter than a request may take (kafka/consumer/group.py).
_KAFKA_PYTHON_REQUEST_MS, _KAFKA_PYTHON_FREE = 305_000, (3,)
#: Upper bounds of max.poll.interval.ms: rdkafka_conf.c; elsewhere it is an int.
_LONGEST_POLL_MS: MappingProxyType[str, int] = MappingProxyType({LIBRDKAFKA: 86_400_000})
_LONGEST_INT = 2**31 - 1


def session_bound(
    library: str | None, version: Version, *, poll_ms: int | None, request_ms: int | None = None
) -> ClientBound | None:
    """Return what bounds the session in a client itself; null where nothing does.

    `poll_ms` is its max.poll.interval.ms and `request_ms` its request.timeout.ms, null where they are not known.
    librdkafka refuses to start with a session above the poll interval (rd_kafka_conf_finalize in rdkafka_conf.c).
    """
    if library == LIBRDKAFKA and poll_ms:
        return ClientBound(poll_ms, "max.poll.interval.ms", "librdkafka takes no session above it")
    if library == KAFKA_PYTHON and version < _KAFKA_PYTHON_FREE:
        longest_ms = (request_ms or _KAFKA_PYTHON_REQUEST_MS) - 1_000
        return ClientBound(longest_ms, "request.timeout.ms", "kafka-python takes no session that is not below it")
    return None


def longest_poll_interval_ms(library: str | None) -> int:
    """Return the largest max.poll.interval.ms that a library takes."""
    return _LONGEST_INT if library is None else _LONGEST_POLL_MS.get(library, _LONGEST_INT)
