"""Which client library a member runs, as far as its records and its own reports show.

The default client id, the form of the subscription, and the session and rebalance timeouts together narrow it down; a
report with library and version decides. The resulting properties are data, so that rules ask for a property and not
for a library name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_contract import Member
from rebalance_contract.client_settings import (
    AIOKAFKA,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    SARAMA,
    STREAM_THREAD,
    WITH_GENERATION,
    library_of,
    parse_version,
)
from rebalance_streaming.observed.clients import ClientHistory

_DEFAULT_HEARTBEAT_MS = 3_000
_KIP848_HEARTBEAT_MS = 5_000
_ROUND_ROBIN = "roundrobin"
#: Assignors without data of their own in a subscription.
_WITHOUT_DATA = ("range", _ROUND_ROBIN)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is known of a member's client. `library` and `version` null: not known.

    `enforces_poll`: it leaves by itself when max.poll.interval passes without a poll. `own_heartbeats`: heartbeats
    do not depend on the application's loop. `may_starve`: its heartbeats can nevertheless fail while the application is
    well, because they share a lock, an interpreter or an event loop with it; null where that is not known.
    `is_guessed`: the library is the likeliest of several by timeouts, assignor and subscription.
    """

    library: str | None
    version: str | None
    heartbeat_ms: int
    enforces_poll: bool
    own_heartbeats: bool
    may_starve: bool | None
    is_guessed: bool = False

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, empty when not known."""
        return parse_version(self.version)


_LIBRARY_NAMES = {
    "apache-kafka-java": JAVA,
    "kafka-clients": JAVA,
    "confluent-kafka": LIBRDKAFKA,
    "confluent-kafka-python": LIBRDKAFKA,
    "rdkafka": LIBRDKAFKA,
}

#: First versions that leave by themselves when max.poll.interval has passed.
_ENFORCES_SINCE = {LIBRDKAFKA: (1, 0), AIOKAFKA: (0, 5, 1)}


def make_fingerprint(member: Member, client: ClientHistory | None = None, assignor: str | None = None) -> Fingerprint:
    """Return what is known of a member's client, from its reports if there are any, else from its records.

    `assignor` is the group's, null where it is not known.
    """
    library, version = _library(member, client, assignor)
    session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
    heartbeat = client.config.heartbeat_interval_ms if client else None
    found = Fingerprint(
        library=library,
        version=version,
        heartbeat_ms=heartbeat or (_KIP848_HEARTBEAT_MS if session is None else _DEFAULT_HEARTBEAT_MS),
        enforces_poll=library not in (SARAMA, FRANZ_GO, KAFKAJS),
        own_heartbeats=library != KAFKAJS,
        may_starve=None if library is None else library in (KAFKA_PYTHON, AIOKAFKA, KAFKAJS),
    )
    if library is None:
        return _guessed(found, member, assignor)
    release = found.release
    if library == KAFKA_PYTHON and release and release < (1, 4):
        return replace(found, enforces_poll=False, own_heartbeats=False)
    if library in _ENFORCES_SINCE and release and release < _ENFORCES_SINCE[library]:
        return replace(found, enforces_poll=False)
    old = (member.subscription_version or 0) < WITH_GENERATION
    if library == JAVA and old and session is not None and session == poll and session <= 30_000:
        # Before KIP-62 there was one timeout and no heartbeat thread.
        return replace(found, enforces_poll=False, own_heartbeats=False)
    return found


def _guessed(found: Fingerprint, member: Member, assignor: str | None) -> Fingerprint:
    """Return the likely properties, from a member's records, of a client whose library is not named.

    KIP-848 is implemented by Java, by librdkafka and the libraries built on it, and by franz-go.
    """
    if member.epoch is not None or (member.subscription_version or 0) >= WITH_GENERATION:
        return replace(found, may_starve=False)
    session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
    if session is None:
        return found
    if session == poll and assignor == _ROUND_ROBIN:
        # Both are aiokafka's defaults, and defaults of neither Java, librdkafka nor kafka-python.
        return replace(found, library=AIOKAFKA, may_starve=True, is_guessed=True)
    if session != poll and assignor in _WITHOUT_DATA and _is_plain(member):
        return replace(found, library=KAFKA_PYTHON, may_starve=True, is_guessed=True)
    return found


def poll_limit_ms(member: Member, fingerprint: Fingerprint) -> int | None:
    """Return max.poll.interval from a member's records; null for aiokafka, whose records repeat its session."""
    return None if fingerprint.library == AIOKAFKA and not fingerprint.is_guessed else member.rebalance_timeout_ms


def is_closed_by_admin(member: Member) -> bool:
    """Whether a member is a Kafka Streams member that its own application removed while closing.

    KafkaStreams.close(CloseOptions) does that for static members through the admin API.
    """
    return member.group_instance_id is not None and STREAM_THREAD in member.client_id


def _library(member: Member, client: ClientHistory | None, assignor: str | None) -> tuple[str | None, str | None]:
    if client is not None and client.library is not None:
        name = client.library.lower()
        return _LIBRARY_NAMES.get(name, name), client.version
    return library_of(member, assignor)


def _is_plain(member: Member) -> bool:
    """Whether its subscription has the form of kafka-python up to 3.0 and of librdkafka before 1.6: old and empty."""
    return member.subscription_version == 0 and member.user_data_bytes == 0
