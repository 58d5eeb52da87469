"""Keys of rows: encoding and decoding agree for any names."""

import pytest

from rebalance_contract import (
    DecodeTotals,
    QuarantineTotals,
    QueryStatus,
    group_key,
    query_key,
    rebalance_key,
    silence_key,
    split_key,
    status_key,
)


@pytest.mark.parametrize("group", ["orders", "a/b/c", "", "grün", "/"])
def test_a_group_is_found_in_its_key(group: str):
    """The cluster ends at the first slash; a group's name may contain slashes."""
    key = group_key("prod", group)
    assert split_key(key) == split_key(key.encode()) == ("prod", group)


def test_a_silence_is_found_in_its_key():
    """The tombstone of a silence has only its key."""
    assert split_key(silence_key("prod", "s-1").encode()) == ("prod", "s-1")


@pytest.mark.parametrize(
    ("key", "parts"), [(None, ("", "")), (b"", ("", "")), (b"prod", ("prod", "")), ("x", ("x", ""))]
)
def test_what_is_no_key_has_empty_parts(key: bytes | str | None, parts: tuple[str, str]):
    """Any client with access to a topic may write any key."""
    assert split_key(key) == parts


def test_bytes_that_are_no_text_raise_nothing():
    """Undecodable keys give the name of a group that does not exist."""
    assert split_key(b"prod/\xff") == ("prod", "\ufffd")


def test_the_id_of_a_rebalance_stands_last():
    """The id has no slash, so it is parsed from the end."""
    assert rebalance_key("prod", "a/b", "7-12") == "prod/a/b/7-12"


def test_the_key_of_a_query_is_that_of_its_status():
    """A reader of a query's status knows only the name of the query."""
    status = QueryStatus("prod", "membership", "host", 1, 0, 0, 0, 0, 0, 0)
    assert status_key(status) == query_key("prod", "membership") == "prod/query/membership"


def test_rows_of_one_kind_and_query_have_keys_of_their_own():
    """A bucket's row must not replace that of another bucket."""
    assert status_key(DecodeTotals("prod", "membership", ())) == "prod/records/membership"
    assert status_key(QuarantineTotals("prod", "membership", 3, ())) == "prod/quarantine/membership/3"
