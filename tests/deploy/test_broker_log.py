"""Reads the truth from a broker's log, with lines of real brokers."""
# ruff: noqa: E501

from rebalance_deploy.broker_log import read_truth
from rebalance_deploy.counts import Counted, expected

NEW = """
[2026-11-21 06:30:11,204] INFO Preparing to rebalance group g in state PreparingRebalance with old generation 0
[2026-11-21 06:30:11,211] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=14] Stabilized group g generation 1 with 1 members. (x)
[2026-11-21 06:30:11,215] INFO Assignment received from leader m1-4a for group g for generation 1. The group has 1 members, 0 of which are static. (x)
[2026-11-21 06:30:12,211] INFO Stabilized group g generation 2 with 2 members. (x)
[2026-11-21 06:30:13,211] INFO Stabilized group g generation 3 with 2 members. (x)
[2026-11-21 06:30:13,215] INFO Assignment received from leader m1-4a for group g for generation 3. The group has 2 members, 0 of which are static. (x)
[2026-11-21 06:30:14,211] INFO Group g with generation 4 is now empty. (x)
"""
OLD = """
[2026-11-21 06:30:11,211] INFO [GroupCoordinator 1]: Stabilized group my group generation 1 (__consumer_offsets-34) with 1 members (kafka)
[2026-11-21 06:30:11,351] INFO [GroupCoordinator 1]: Assignment received from leader m1 for group my group for generation 1. The group has 1 members, 0 of which are static. (kafka)
[2026-11-21 06:30:12,351] INFO [GroupCoordinator 1]: Group my group with generation 2 is now empty (__consumer_offsets-34) (kafka)
"""


def test_a_generation_without_an_assignment_is_an_aborted_round():
    """The Java coordinator's format: generation 2 only passed the barrier."""
    assert expected(read_truth(NEW.splitlines())["g"]) == Counted(generation=4, completed=3, aborted=1)


def test_the_old_coordinator_is_understood_too():
    """The Scala coordinator's format, and a group whose name contains a space."""
    assert expected(read_truth(OLD.splitlines())["my group"]) == Counted(2, 2, 0)
