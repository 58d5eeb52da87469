"""Which groups are described, by the lists and descriptions so far."""

from rebalance_exporters.prober.answers import Described, GroupList, Listed
from rebalance_exporters.prober.group_registry import MOST_DESCRIBED, GroupRegistry


def row(group: str, state: str | None = "Stable", type_: str | None = "classic", coordinator: int = 1) -> Listed:
    """A row of a list of groups."""
    return Listed(group, coordinator, "consumer", state, type_)


def lists(*rows: Listed, answered: tuple[int, ...] = (1,)) -> GroupList:
    """A list of groups from the brokers that answered."""
    return GroupList(list(rows), set(answered))


def names(rows: list[Listed]) -> list[str]:
    """The names of listed groups."""
    return [listed.group for listed in rows]


def known(*rows: Listed) -> GroupRegistry:
    """A registry in which all rows were listed, and the classic ones described at 0 s."""
    registry = GroupRegistry()
    registry.note_all(lists(*rows))
    registry.note_described([Described(listed.group, listed.state) for listed in rows], 0.0)
    return registry


def test_new_groups_are_described_once():
    """A classic group is described when it is first listed, not in the next cycle."""
    registry = GroupRegistry()
    registry.note_all(lists(row("a"), row("b", type_="consumer")))
    assert names(registry.choose_described(0.0)) == ["a"]
    registry.note_described([Described("a", "Stable")], 0.0)
    assert registry.choose_described(2.0) == []


def test_unstable_groups_are_described_every_cycle():
    """As long as they are listed as unstable, and once more afterwards."""
    registry = known(row("a"))
    registry.note_unstable(lists(row("a", "PreparingRebalance")))
    for now in (2.0, 4.0):
        assert names(registry.choose_described(now)) == ["a"]
        registry.note_described([Described("a", "PreparingRebalance")], now)
    registry.note_unstable(lists())
    assert names(registry.choose_described(6.0)) == ["a"]
    registry.note_described([Described("a", "Stable")], 6.0)
    assert registry.choose_described(8.0) == []


def test_a_silent_broker_settles_no_group():
    """A group that is not listed because its coordinator did not answer is still unstable."""
    registry = known(row("a", "PreparingRebalance", coordinator=2))
    assert not registry.note_unstable(lists(answered=(1,)))
    assert registry.note_all(lists(answered=(1,))) == []
    assert names(registry.groups()) == ["a"]


def test_a_silent_broker_is_left_alone_until_it_answers():
    """Its groups are not described meanwhile, and all are once it is back: anything may have changed."""
    registry = known(row("a", coordinator=1), row("b", coordinator=2))
    registry.note_unstable(lists(answered=(1,)))
    assert registry.choose_described(2.0) == []
    registry.note_unstable(lists(answered=(1, 2)))
    assert names(registry.choose_described(4.0)) == ["b"]
    registry.note_unstable(lists(answered=()))
    registry.note_all(lists(row("a", coordinator=1), row("b", coordinator=2), answered=(1, 2)))
    assert set(names(registry.choose_described(6.0))) == {"a", "b"}


def test_newer_groups_that_settled_ask_for_a_list():
    """They cannot be described, so their new state comes from a list."""
    registry = known(row("n", "Reconciling", "consumer"))
    assert not registry.note_unstable(lists(row("n", "Reconciling", "consumer")))
    assert registry.note_unstable(lists())
    registry.note_newer(lists(row("n", "Stable", "consumer")))
    assert [listed.state for listed in registry.groups()] == ["Stable"]
    assert not registry.note_unstable(lists())


def test_stable_groups_are_described_once_a_minute():
    """A rebalance too short for any list shows in the members."""
    registry = known(row("a"))
    assert registry.choose_described(59.9) == []
    assert names(registry.choose_described(60.0)) == ["a"]


def test_groups_without_state_are_always_described():
    """Brokers older than 2.6 list no states."""
    registry = known(row("a", state=None, type_=None))
    for now in (1.0, 2.0):
        assert names(registry.choose_described(now)) == ["a"]
        registry.note_described([Described("a", "Stable")], now)
        registry.note_unstable(lists(row("a", state=None, type_=None)))


def test_urgent_groups_come_first_and_everyone_in_turn():
    """With more groups than a cycle may describe: the unstable one first, then those described longest ago."""
    stable = [row(f"s{number:04}") for number in range(MOST_DESCRIBED + 10)]
    registry = known(*stable)
    registry.note_unstable(lists(row("s1005", "PreparingRebalance")))
    first = names(registry.choose_described(60.0))
    assert len(first) == MOST_DESCRIBED
    assert first[0] == "s1005"
    registry.note_described([Described(name, "Stable") for name in first], 60.0)
    assert set(names(registry.choose_described(62.0))) == {listed.group for listed in stable} - set(first)


def test_a_group_that_no_list_has_is_gone():
    """It is returned once, for a last description."""
    registry = known(row("a"), row("b"))
    assert names(registry.note_all(lists(row("b")))) == ["a"]
    assert registry.note_all(lists(row("b"))) == []


def test_a_dead_answer_puts_the_list_in_doubt():
    """The group is gone or was converted: only a new list of all groups shows which."""
    registry = known(row("a"))
    assert not registry.wants_full_list
    registry.note_described([Described("a", "Dead")], 60.0)
    assert registry.wants_full_list
    registry.note_all(lists(row("a", type_="consumer")))
    assert not registry.wants_full_list
    assert registry.choose_described(200.0) == []


def test_an_unanswered_group_stays_due_a_denied_one_waits():
    """A coordinator may answer the next time; a permission is not granted within seconds."""
    registry = GroupRegistry()
    registry.note_all(lists(row("a"), row("b")))
    registry.note_described([Described("a", None, error="x"), Described("b", None, error="x", denied=True)], 0.0)
    assert names(registry.choose_described(2.0)) == ["a"]
    assert set(names(registry.choose_described(60.0))) == {"a", "b"}


def test_a_new_group_was_not_listed_before():
    """Its coordinator listed all its groups without it, at a time that is used once; groups at a start have none."""
    registry = GroupRegistry()
    registry.note_all(lists(row("a")), asked_ms=1_000)
    assert registry.take_unlisted_ms("a") is None
    registry.note_unstable(lists(row("b", "PreparingRebalance"), row("c", "PreparingRebalance", coordinator=2)), 3_000)
    assert [registry.take_unlisted_ms(each) for each in ("b", "b", "c")] == [1_000, None, None]
    registry.note_all(lists(row("a"), row("b"), row("d")), asked_ms=30_000)
    assert registry.take_unlisted_ms("d") == 1_000


def test_without_the_log_every_group_is_described_in_every_cycle():
    """In turns if they are too many for one cycle: those described longest ago first."""
    registry = GroupRegistry(describe_again_seconds=0.0)
    rows = [row(f"g{number}") for number in range(MOST_DESCRIBED + 1)]
    registry.note_all(lists(*rows))
    first = registry.choose_described(0.0)
    registry.note_described([Described(each.group, "Stable") for each in first], 0.0)
    (last,) = {each.group for each in rows} - {each.group for each in first}
    assert len(first) == MOST_DESCRIBED
    assert last in names(registry.choose_described(2.0))
