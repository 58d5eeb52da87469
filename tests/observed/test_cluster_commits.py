"""Whether a standstill of commits may be caused by the monitor itself."""

from __future__ import annotations

from histories import MINUTE, T0
from rebalance_streaming.observed.cluster_commits import ClusterCommits


def test_a_standstill_of_all_groups_may_be_the_monitors():
    """It is held back until another group has committed since, and then released once."""
    commits = ClusterCommits()
    commits.take("a", T0)
    commits.take("b", T0 + MINUTE)
    assert commits.hold_back("a", T0 + 2 * MINUTE)
    assert not commits.take_released()
    commits.take("b", T0 + 3 * MINUTE)
    assert commits.take_released() == ["a"]
    assert not commits.take_released()
    assert not commits.hold_back("a", T0 + 2 * MINUTE)


def test_a_single_group_decides_nothing():
    """Its standstill counts; a removed group holds nothing back."""
    commits = ClusterCommits()
    commits.take("a", T0)
    assert not commits.hold_back("a", T0 + MINUTE)
    commits.take("b", T0)
    assert commits.hold_back("b", T0 + MINUTE)
    commits.forget("b")
    assert not commits.hold_back("a", T0 + MINUTE)
    commits.take("a", T0 + 2 * MINUTE)
    assert not commits.take_released()
