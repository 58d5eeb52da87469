"""How one member left its group: the departure and its classes.

A departure is measured in `departure_times`, classified in `departure_classes`, and determined for all members that are
gone after a rebalance in `departed_members`. Causes are determined by rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rebalance_contract import Evidence, Member
from rebalance_contract.client_settings import session_or_usual
from rebalance_streaming.groups.identity import client_stem
from rebalance_streaming.observed.clients import LossReports
from rebalance_streaming.observed.confidence import HINT
from rebalance_streaming.observed.coordinator_log import BEHIND, UNSUBSCRIBED, LoggedExit
from rebalance_streaming.observed.fingerprints import Fingerprint, poll_limit_ms
from rebalance_streaming.observed.liveness import ALIVE, HEALTHY
from rebalance_streaming.observed.progress import Rhythm

POLL_TIMEOUT, SESSION_EXPIRED, CLEAN, FENCED, UNSYNCED, REMOVED_BY_ADMIN, UNKNOWN = (
    "poll_timeout_leave",
    "session_expired",
    "clean_leave",
    "fenced",
    "sync_evicted",
    "admin_removed",
    "unknown",
)

#: Default interval of auto-commit, for clients with an unknown rhythm.
COMMIT_GAP_MS = 5_000
#: Broker timers do not fire early, but the times of two records may be off by this much.
TIMER_SLACK_MS = 250


class LikelyClasses(NamedTuple):
    """One source's result for a departure: the classes that fit, most likely first, and the confidence of the first."""

    classes: tuple[str, ...]
    confidence: float
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Departure:
    """How one member left.

    It left between `from_ms` and `to_ms`, and certainly not after `latest_ms`. It had its partitions since `joined_ms`,
    last came through a join barrier at `renewed_ms` and was in the group for at most `age_ms` (null: not known).
    `silence_ms` is the time since its partitions were last committed, null when no commit was due; `due`: a commit was
    certainly due. `classes` are the departure classes that fit, most likely first, and `confidence` is that of the
    first; `struck` are (impossible class, reason). `in_barrier`: it was lost while the others waited for it. `liveness`
    is what its client reported, null when it reports nothing. `arriving` is how many records its partitions got in the
    length of a session before, null without probes of their ends. `back_as` is the member it came back as, `back_ms`
    when. `ran_through`: one process reported before it can have left and after it was back. `logged` is what the
    coordinator logged about it, null where its broker's log is not shipped.
    """

    member: Member
    client: Fingerprint
    from_ms: int
    to_ms: int
    latest_ms: int
    joined_ms: int | None
    renewed_ms: int | None
    age_ms: int | None
    rhythm: Rhythm
    lag: int | None
    arriving: int | None
    silence_ms: int | None
    due: bool
    in_barrier: bool
    liveness: str | None = None
    loss_reports: LossReports | None = None
    classes: tuple[str, ...] = (UNKNOWN,)
    confidence: float = HINT
    evidence: tuple[Evidence, ...] = ()
    struck: tuple[tuple[str, str], ...] = ()
    back_as: Member | None = None
    back_ms: int | None = None
    ran_through: bool = False
    logged: LoggedExit | None = None

    @property
    def likely(self) -> str:
        """The class that fits best."""
        return self.classes[0]

    @property
    def away_ms(self) -> int | None:
        """How long it was gone before it was back; null while it is not."""
        return None if self.back_ms is None else self.back_ms - self.to_ms

    @property
    def process_survived(self) -> bool:
        """Whether its process is known to have gone on, from its reports before and after the loss, or from its id."""
        seen = self.loss_reports
        reported = self.liveness in (HEALTHY, ALIVE) or (seen is not None and seen.same_process and not seen.restarted)
        return reported or self.kept_id

    @property
    def stopped_in_order(self) -> bool:
        """Whether it left in order and its process ended, as far as known."""
        return self.likely == CLEAN and not self.kept_running

    @property
    def kept_running(self) -> bool:
        """Whether its process is known to have gone on until it was back, from reports, its id, or its own reason."""
        said = self.logged is not None and self.logged.meaning in (UNSUBSCRIBED, BEHIND)
        return said or self.kept_id or self.ran_through

    @property
    def kept_id(self) -> bool:
        """Whether it came back with the same id.

        Members of the protocols since KIP-848 generate their ids themselves, one for each process (KIP-1082); a classic
        member that was lost gets a new one.
        """
        return self.back_as is not None and self.back_as.member_id == self.member.member_id

    @property
    def session_ms(self) -> int:
        """Its session timeout in ms; the broker's default where records do not carry it."""
        return session_of(self.member)

    @property
    def poll_ms(self) -> int | None:
        """Its rebalance timeout in ms, which is max.poll.interval of clients that enforce one; null if not known."""
        return poll_limit_ms(self.member, self.client)


def session_of(member: Member) -> int:
    """Return a member's session timeout in milliseconds."""
    return session_or_usual(member.session_timeout_ms)


#: Identity of a member that stays the same when it comes back under a new id.
Slot = tuple[str, str]


def slot_of(member: Member) -> Slot:
    """Return the identity of a member that stays the same when it comes back under a new id."""
    if member.group_instance_id is not None:
        return (member.group_instance_id, "")
    return (client_stem(member.client_id), member.host)
