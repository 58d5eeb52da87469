"""Pauses between failed attempts."""

from rebalance_kafka.backoff import Backoff


def test_pauses_double_up_to_the_longest():
    """However often it fails; after a success the first one again."""
    backoff = Backoff(1.0, 15.0)
    assert [backoff.fail() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    assert {backoff.fail() for _ in range(5_000)} == {15.0}
    backoff.succeed()
    assert backoff.fail() == 1.0


def test_a_first_pause_is_not_longer_than_the_longest():
    """For example of a prober with a short period."""
    assert Backoff(60.0, 30.0).fail() == 30.0


def test_chance_spreads_a_pause_over_its_upper_half():
    """So that many probers do not retry at the same time."""
    assert Backoff(4.0, 30.0, chance=lambda: 0.0).fail() == 2.0
    assert Backoff(4.0, 30.0, chance=lambda: 0.5).fail() == 3.0
