from rebalance_exporters.state.changes import ChangedItem, ChangeLog


def names_since(log: ChangeLog, version: int) -> list[str] | None:
    """Return the groups that changed after a version, oldest first; null if that is no longer known."""
    found = log.since(version)
    return None if found is None else [item.group for _, item in found]


def note_all(log: ChangeLog, names: str) -> None:
    """Record a change of one group per letter."""
    for name in names:
        log.note(ChangedItem("group", "c", name))


def test_each_thing_stands_at_its_latest_change() -> None:
    """A reader gets each item once, in the order of the latest changes."""
    log = ChangeLog()
    note_all(log, "abcab")
    assert names_since(log, 0) == ["c", "a", "b"]
    assert names_since(log, 3) == ["a", "b"]
    assert names_since(log, log.version) == []


def test_what_is_no_longer_remembered_is_reported() -> None:
    """A version before the oldest kept change gets no answer instead of an incomplete one."""
    log = ChangeLog(keep=2)
    note_all(log, "abc")
    assert names_since(log, 0) is None
    assert names_since(log, 1) == ["b", "c"]


def test_a_version_from_elsewhere_is_unknown() -> None:
    """It is impossible to continue from a version that was never reached."""
    log = ChangeLog()
    note_all(log, "a")
    assert log.since(7) is None
    assert log.since(-1) is None
