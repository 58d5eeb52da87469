from rebalance_exporters.state.changes import ChangedItem, ChangeLog


def names_since(log: ChangeLog, version: int) -> list[str] | None:
    """The groups that changed after a version, oldest first; null when that is not remembered."""
    found = log.since(version)
    return None if found is None else [item.group for _, item in found]


def note_all(log: ChangeLog, names: str) -> None:
    """Note a change of one group per letter."""
    for name in names:
        log.note(ChangedItem("group", "c", name))


def test_each_thing_stands_at_its_latest_change() -> None:
    """Who was away hears of each thing once, in the order of the latest changes."""
    log = ChangeLog()
    note_all(log, "abcab")
    assert names_since(log, 0) == ["c", "a", "b"]
    assert names_since(log, 3) == ["a", "b"]
    assert names_since(log, log.version) == []


def test_what_is_no_longer_remembered_is_reported() -> None:
    """A version from before the oldest change kept gets no answer instead of half of one."""
    log = ChangeLog(keep=2)
    note_all(log, "abc")
    assert names_since(log, 0) is None
    assert names_since(log, 1) == ["b", "c"]


def test_a_version_from_elsewhere_is_unknown() -> None:
    """One that was never reached cannot be followed on from."""
    log = ChangeLog()
    note_all(log, "a")
    assert log.since(7) is None
    assert log.since(-1) is None
