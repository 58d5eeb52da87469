"""The liveness matrix: what a client's own reports show about the time in which its group lost it.

Heartbeats, polls and the process as a whole may each go on or stop. The client's reports of the three, and whether they
came in time, distinguish causes that look alike from outside.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_streaming.observed.clients import ClientHistory, Clients, LossReports
from rebalance_streaming.observed.fingerprints import Fingerprint

STARVED, PAUSED, UNREACHABLE, GONE, RESTARTED, NOT_POLLING, HEALTHY, ALIVE = (
    "starved",
    "paused",
    "unreachable",
    "gone",
    "restarted",
    "not_polling",
    "healthy",
    "alive",
)

#: Reports that come later than this were delayed by some problem.
_STALLED_MS = 5_000
#: A client notices late that max.poll.interval has passed (measured: up to 3.8 s), and ages are reported in whole
#: seconds.
POLL_SLACK_MS = 2_500
#: A member has sent its first heartbeat after this many intervals (KafkaConsumer: the first is due after one).
_FIRST_BEATS = 2
#: Reports have ended when none came for this many intervals.
_ENDED = 2.2
#: Part of librdkafka's reason for having left because nobody polled.
_POLL_REASON = "max.poll.interval"
#: librdkafka's reason after a session without a usable answer (rd_kafka_cgrp_session_timeout_check), and how broker
#: errors begin there (rd_kafka_err2str).
_UNANSWERED_REASON, _ANSWERED = "Consumer group session timed out", "last error was Broker:"


@dataclass(frozen=True, slots=True)
class LostClient:
    """A lost client, its timeouts and the time of the loss, with its reports until `now_ms`.

    `joined_ms` is when it got its partitions, null if not known.
    """

    client: ClientHistory
    seen: LossReports
    fingerprint: Fingerprint
    session_ms: int
    poll_ms: int | None
    at_ms: int
    now_ms: int
    joined_ms: int | None = None

    @property
    def never_beat(self) -> bool:
        """Whether it still reported that it had never sent a heartbeat when one had been due for long."""
        never = self.seen.never_beat_ms
        if never is None:
            return False
        joined = None if self.joined_ms is None else self.seen.last_report_ms - self.joined_ms
        return max(never, joined or 0) >= _FIRST_BEATS * self.fingerprint.heartbeat_ms

    @property
    def beats_late(self) -> bool:
        """Whether it had sent no heartbeat for most of its session."""
        gap = self.seen.beat_gap_ms
        return self.never_beat or (gap is not None and gap >= 0.75 * self.session_ms)

    @property
    def unpolled_ms(self) -> float | None:
        """How long it had not polled when it was lost, in ms; null where not reported."""
        return None if self.seen.polled_ms is None else self.at_ms - self.seen.polled_ms

    @property
    def polls_ran_out(self) -> bool | None:
        """Whether its poll limit was over when it was lost; null where not known."""
        if self.unpolled_ms is None or not self.poll_ms:
            return None
        return self.unpolled_ms >= self.poll_ms - POLL_SLACK_MS

    @property
    def outlived_polls(self) -> bool:
        """Whether its poll limit was over when it was lost, and its process still ran: a dead one does not poll either.

        It ran if it reported at or after that time, or so late that its session would not have been over if it had died
        with that report.
        """
        seen = self.seen
        if not self.polls_ran_out or seen.polled_ms is None or not self.poll_ms:
            return False
        reported = seen.last_report_ms - seen.polled_ms >= self.poll_ms - POLL_SLACK_MS
        return reported or seen.same_process or self.at_ms - seen.last_report_ms < self._least_end_ms

    @property
    def _least_end_ms(self) -> int:
        """Minimum time from a dead member's last report to its loss: its last heartbeat was before the report."""
        return self.session_ms - self.fingerprint.heartbeat_ms

    @property
    def beats_fresh(self) -> bool:
        """Whether its heartbeats are known to have gone on."""
        if self.beats_late:
            return False
        usual = 1_000 / self.fingerprint.heartbeat_ms
        return self.seen.beat_gap_ms is not None or (self.seen.beat_rate or 0) >= 0.6 * usual

    @property
    def stood_still(self) -> bool:
        """Whether its reporting stopped for a good part of its session, without known heartbeats in that time."""
        known_fresh = self.beats_fresh and self.seen.beat_gap_ms is not None
        return self.seen.stood_still_ms >= max(0.3 * self.session_ms, 1_500) and not known_fresh


def said_unpolled(seen: LossReports) -> bool:
    """Whether the client's own reason, given in this period, is that it left because nobody polled."""
    return (seen.reason or "").startswith(_POLL_REASON) and seen.reason_is_new


def read_liveness(lost: LostClient, clients: Clients) -> str | None:
    """Return the cell of the matrix for a lost client; null when its reports are too sparse to decide."""
    if said_unpolled(lost.seen):
        return NOT_POLLING
    return _by_delivery(lost) or _by_running(lost) or _by_silence(lost, clients) or _by_polls(lost)


def _by_delivery(lost: LostClient) -> str | None:
    """Judge by reports that came late although they were written in time, or by the client's reason."""
    seen = lost.seen
    if lost.client.through_application:
        # Statistics of a stall arrive in a burst once the application polls again.
        stalled = seen.late_ms > _STALLED_MS and not lost.beats_late
        known = lost.beats_fresh or (lost.poll_ms is not None and seen.late_ms >= 0.8 * lost.poll_ms)
        return NOT_POLLING if stalled and known else None
    late = seen.undelivered or is_unanswered(seen)
    return UNREACHABLE if late and seen.stood_still_ms < _STALLED_MS // 5 else None


def is_unanswered(seen: LossReports) -> bool:
    """Whether the client's own reason, given in this period, is that its coordinator did not answer for a session."""
    return _is_unanswered(seen.reason) and seen.reason != seen.reason_before


def gave_up(seen: LossReports) -> bool:
    """Whether the client reported, in a period or at its start, that its coordinator did not answer for a session."""
    return _is_unanswered(seen.reason) or _is_unanswered(seen.reason_before)


def _is_unanswered(reason: str | None) -> bool:
    return (reason or "").startswith(_UNANSWERED_REASON) and _ANSWERED not in (reason or "")


def _by_running(lost: LostClient) -> str | None:
    """Judge by whether the process ran while its heartbeats did not."""
    seen = lost.seen
    if lost.stood_still:
        return RESTARTED if seen.restarted else PAUSED
    if lost.beats_late and (seen.witnesses or seen.next_report_ms is not None):
        return STARVED
    return NOT_POLLING if lost.outlived_polls else None


def _by_silence(lost: LostClient, clients: Clients) -> str | None:
    """Judge by reports that stopped altogether."""
    seen = lost.seen
    missed = lost.at_ms - seen.last_report_ms > 1.5 * seen.interval_ms
    ends_ms = reports_end_ms(seen)
    ended = ends_ms is not None and lost.now_ms > ends_ms
    if not (missed or ended or seen.restarted):
        return None
    if seen.restarted or _has_successor(lost, clients):
        return RESTARTED
    return GONE if seen.next_report_ms is None else PAUSED


def reports_end_ms(seen: LossReports) -> int | None:
    """Return the time (epoch ms) after which missing reports have ended; null if one came after the loss."""
    return None if seen.next_report_ms is not None else seen.last_report_ms + round(_ENDED * seen.interval_ms)


def _has_successor(lost: LostClient, clients: Clients) -> bool:
    """Whether a later process reports under the same client id."""
    last = lost.client.latest()
    return last is not None and any(
        other is not lost.client
        and other.client_id == lost.client.client_id
        and bool(other.reports)
        and (other.reports[0].process_start_ms or 0) > min(lost.at_ms, last.emitted_ms) - 60_000
        and other.reports[0].emitted_ms > last.emitted_ms
        for other in clients
    )


def _by_polls(lost: LostClient) -> str | None:
    """Judge by reports that went on normally."""
    seen = lost.seen
    if lost.beats_fresh and seen.witnesses:
        # Without the age of the last poll, a client that fetches nothing may either be idle or not poll.
        return None if lost.polls_ran_out is None and seen.fetches is False else HEALTHY
    return ALIVE if seen.witnesses and seen.same_process else None
