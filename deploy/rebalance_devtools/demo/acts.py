"""The founding incidents as the demo shows them, by letter: the story, its random seed, and its fix in words.

Data only; it does not depend on brokers or the monitor.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rebalance_devtools.stories import held_interpreter, idle_lock, join_barrier, long_batches, owner_lock
from rebalance_devtools.stories.script import Expected
from rebalance_devtools.stories.story import Story


@dataclass(frozen=True, slots=True)
class Act:
    """A story as the demo shows it: with parameters drawn from `seed`, and its fix in words."""

    story: Story
    seed: int
    fix: str

    @property
    def expected(self) -> Expected:
        """The findings that the monitor must report for the incident."""
        return self.story.expect(self.story.draw(random.Random(self.seed)))  # noqa: S311 - to be repeatable is the point


#: The acts, by the letter of the founding incident.
ACTS: Mapping[str, Act] = MappingProxyType(
    {
        "a": Act(
            idle_lock.UPGRADED,
            4,
            "kafka-python 1.4.7 takes the place of 1.4.6, in which the idle poll keeps the lock that heartbeats need. "
            "The settings are the same. Where one cannot upgrade, a short metadata_max_age_ms helps mostly.",
        ),
        "b": Act(
            join_barrier.STORY,
            2,
            "The first consumer goes on polling: whatever kept its thread is gone. The settings are the same.",
        ),
        "c": Act(
            long_batches.STORY,
            2,
            "max.poll.records is lowered until a batch takes at most half of max.poll.interval.ms.",
        ),
        "d": Act(
            held_interpreter.STORY,
            2,
            "The work is done in a process of its own and takes as long as before: the interpreter lock stays free for "
            "the heartbeat thread.",
        ),
        "e": Act(
            owner_lock.STORY,
            2,
            "consumer_timeout_ms is set: consume() returns now and then even if nothing comes, and then gives the "
            "partitions up that others are waiting for. pykafka 2.7.0 and later need no such thing.",
        ),
    }
)


def describe_expected(expected: Expected) -> str:
    """Return the expected finding in words: cause, culprits, and what to change (without the target version)."""
    variant = "" if expected.variant is None else f" ({expected.variant})"
    by = f", by {' and '.join(expected.culprits)}" if expected.culprits else ""
    changes = [each.parameter for each in expected.advice]
    if expected.upgrade_to is not None:
        changes.append(f"an upgrade of {expected.upgrade_of}")
    change = f"; to change: {' or '.join(changes)}" if changes else ""
    return f"{expected.diagnosis}{variant}{by}{change}"
