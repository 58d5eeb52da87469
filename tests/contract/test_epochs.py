"""Rows of a superseded stream do not count, in whatever order readers and compaction leave them."""

from rebalance_contract.epochs import (
    MAX_KEYS,
    SETTLED_MS,
    Fence,
    RowWriter,
    decode_writer,
    encode_writer,
    find_writer,
    writer_headers,
)

OLD, NEW = RowWriter("prod", "membership", 1_000), RowWriter("prod", "membership", 2_000)
A, B = b"prod/a", b"prod/b"


def test_a_header_names_its_writer():
    """A header survives encoding and decoding; a cluster's name may contain anything except a slash."""
    writer = RowWriter("prod eu", "activity", 1_795_586_097_000)
    assert decode_writer(encode_writer(writer)) == writer
    assert (
        find_writer([("traceparent", b"x"), *((name, bytes(value)) for name, value in writer_headers(writer).items())])
        == writer
    )


def test_nonsense_names_nobody():
    """A row of an older version has no header, and other producers may write invalid ones."""
    assert find_writer([]) is None
    for value in (
        None,
        b"",
        b"a/b",
        b"prod/membership/",
        b"prod/membership/-1",
        b"prod/membership/x",
        b"\xff/\xfe",
        b"a/b/" + b"9" * 400,
    ):
        assert decode_writer(value) is None, value


def test_a_losers_row_does_not_replace_the_owners():
    """The owner's row of a key stands; an earlier row of the superseded stream is replaced."""
    fence = Fence()
    assert fence.admits("groups", A, OLD, 0)
    assert fence.admits("groups", A, NEW, 10)
    assert not fence.admits("groups", A, OLD, 20)
    assert fence.admits("groups", A, NEW, 30)


def test_a_losers_row_that_compaction_left_counts_until_the_owner_writes_the_key():
    """Otherwise a group that only the superseded stream reported last would be missing."""
    fence = Fence()
    assert fence.admits("groups", A, NEW, 10)
    assert fence.admits("groups", B, OLD, 20)
    assert fence.admits("groups", B, NEW, 30)
    assert not fence.admits("groups", B, OLD, 40)


def test_no_key_counts_that_a_loser_wrote_much_later():
    """A superseded stream does not run that long: such rows are replays of old ones."""
    fence = Fence()
    assert fence.admits("groups", A, NEW, 0)
    assert fence.admits("groups", B, OLD, SETTLED_MS)
    assert not fence.admits("groups", B, OLD, SETTLED_MS + 1)
    assert fence.admits("groups", B, NEW, SETTLED_MS + 2)


def test_made_up_keys_fill_no_memory():
    """When the number of remembered keys reaches its limit, all later rows of superseded streams are rejected."""
    fence = Fence()
    for number in range(MAX_KEYS):
        assert fence.admits("activity", b"%d" % number, NEW, 10)
    assert fence.admits("activity", b"one more", NEW, 20)
    assert not fence.admits("activity", b"another", OLD, 21)
    assert fence.admits("activity", b"another", OLD, 20)
    assert not fence.admits("activity", b"0", OLD, 20)
    assert fence.admits("groups", A, NEW, 30)
    assert fence.admits("groups", B, OLD, 30)
    assert not fence.admits("groups", B, OLD, 31)
    # A settled topic releases its keys, so that others have room.
    assert fence.admits("activity", A, NEW, 40)
    assert fence.admits("status", A, NEW, 50)
    assert not fence.admits("status", A, OLD, 51)
    assert fence.admits("status", B, OLD, 51)


def test_topics_clusters_and_queries_have_epochs_of_their_own():
    """Two clusters in one topic do not fence each other, nor do the queries that share the status topic."""
    fence = Fence()
    assert fence.admits("status", A, NEW, 0)
    assert fence.admits("status", A, OLD._replace(cluster="test"), 1)
    assert fence.admits("status", A, OLD._replace(query="activity"), 2)
    assert fence.admits("groups", A, OLD, 3)
    assert not fence.admits("status", A, OLD, 4)
