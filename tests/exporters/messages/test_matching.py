"""Finding the entry of a line: real ones, pieces, what editors and chats made of them, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.messages.real_lines import LINES, Line
from rebalance_contract.api_messages import MessageMatch
from rebalance_exporters.messages.answers import answer
from rebalance_exporters.messages.index import read_index
from rebalance_exporters.messages.loglines import read_origin, read_time
from rebalance_exporters.messages.matching import TEXT_LIMIT, Matcher, read_matcher

MATCHER = read_matcher()
POLL = LINES[0].text


def best(text: str) -> str | None:
    """The id of the entry found first, whole or in part."""
    found = MATCHER.search(text)
    return None if found.match is MessageMatch.NONE else found.hits[0].message.id


@pytest.mark.parametrize("line", LINES, ids=lambda each: each.message)
def test_a_real_line(line: Line):
    """Its entry, group, client and time."""
    told = answer(line.text, MATCHER)
    assert (told.match, told.messages[0].id) == (MessageMatch.WHOLE, line.message)
    assert (told.group, told.client, read_time(line.text)) == (line.group, line.client, line.at)


def test_every_client_has_a_real_line():
    """All clients of the index are tried."""
    ids = {line.message for line in LINES}
    tried = {printer.client.id for each in read_index().messages if each.id in ids for printer in each.printed}
    assert tried == read_index().clients.keys()


@pytest.mark.parametrize("line", LINES, ids=lambda each: each.message)
def test_case_blanks_and_line_breaks_do_not_count(line: Line):
    """As a terminal wraps a line, or a person types it."""
    for text in (line.text.upper(), line.text.lower(), line.text.replace(" ", "\n      "), f"\t{line.text}   "):
        assert best(text) == line.message


def test_quotes_as_chats_rewrite_them():
    """Typographic ones, accents, and those that JSON escapes."""
    for opening, closing in (("\u201c", "\u201d"), ('\\"', '\\"'), ('"', '"')):
        text = f"Group {opening}orders{closing}: failed to run assignor {opening}range{closing} for 3 member(s): x"
        assert best(text) == "rdkafka_assignor"
    assert (
        best("Member a has left group orders through explicit \u2018LeaveGroup\u2019; client reason: x")
        == "broker_left"
    )


def test_a_message_that_was_cut():
    """At its end, inside of a word, and at its beginning."""
    failed = "Member a-1 in group orders has failed, removing it from the group"
    for end in (28, 35, 45):
        assert best(failed[:end]) == "broker_member_failed"
    assert best("removing it from the group") == "broker_member_failed"
    assert MATCHER.search(POLL[180:260]).match is MessageMatch.PART
    assert "poll_limit" in {each.message.meaning.id for each in MATCHER.search(POLL[180:300]).hits}


@pytest.mark.parametrize(
    ("searched", "meaning"),
    [
        ("Heartbeat failed", "rebalancing"),
        ("already rebalanced", "commit_refused"),
        ("CommitFailedError", "commit_refused"),
        ("Unable to acquire", "zk_owned"),
        ("Attempt to heartbeat failed since group is rebalancing", "rebalancing"),
        ("member x-1 in group y has failed", "member_expired"),
        ("poll timeout has expired", "poll_limit"),
        ("REBALANCE_IN_PROGRESS", "rebalancing"),
        ("SESSTMOUT", "heartbeats_unanswered"),
    ],
)
def test_what_people_search_for(searched, meaning):
    """The pieces that they type lead to what they stand for."""
    found = MATCHER.search(searched)
    assert found.match is not MessageMatch.NONE
    assert meaning in {each.message.meaning.id for each in found.hits}


@pytest.mark.parametrize(
    "text",
    [
        "connection refused",
        "java.lang.OutOfMemoryError: Java heap space",
        "my consumer lags behind",
        "",
        "   ",
        "x",
        "…",
    ],
)
def test_what_is_no_message_is_not_known(text):
    """Nothing is claimed of it."""
    assert MATCHER.search(text).match is MessageMatch.NONE


def test_what_is_not_known_gets_what_is_nearest():
    """The entry that shares its rare words; none where there is nothing in common."""
    near = MATCHER.search("my heartbeat thread died")
    assert near.match is MessageMatch.NONE
    assert "heartbeat_thread_failed" in {each.message.meaning.id for each in near.hits}
    assert not MATCHER.search("disk quota exceeded while writing checkpoint").hits


def test_of_several_messages_in_a_line_the_longest_comes_first():
    """And what is only a part of it is left out."""
    line = next(each for each in LINES if each.message == "java_commit_partition_failed")
    assert [each.message.id for each in MATCHER.match(line.text)] == ["java_commit_partition_failed", "unknown_member"]
    assert [each.message.id for each in MATCHER.match("Broker: Not coordinator for group")] == [
        "rdkafka_not_coordinator_old"
    ]


def test_a_place_that_is_repeated_or_last_is_read_as_it_stands():
    """The last word of a line belongs to it, what follows does not."""
    (hit,) = MATCHER.match("INFO (Re-)joining group Orders.EU (kafka.coordinator)")
    assert dict(hit.places) == {"group": "Orders.EU"}


def test_only_so_much_of_a_text_is_looked_at():
    """A pasted file costs no more than its beginning."""
    assert MATCHER.search("x" * TEXT_LIMIT + POLL).match is MessageMatch.NONE


@pytest.mark.generated
@given(st.text(max_size=300))
def test_no_text_is_too_strange(text):
    """Whatever is pasted, there is an answer."""
    told = answer(text, MATCHER)
    assert told.messages or told.match is MessageMatch.NONE
    read_origin(text, MATCHER.match(text))


@pytest.mark.generated
@given(st.sampled_from(LINES), st.text(max_size=40), st.text(max_size=40))
def test_what_stands_around_a_message_does_not_hide_it(line, before, after):
    """Its entry is among those found."""
    hits = MATCHER.match(f"{before} {line.text} {after}")
    assert line.message in {each.message.id for each in hits} or hits[0].weight > len(line.text)


def test_a_text_with_two_places_side_by_side_is_refused():
    """Nobody could tell where one ends."""
    message = read_index().messages[0]
    broken = type(message)(message.id, "a {group}{member} b", message.meaning, message.printed)
    with pytest.raises(ValueError, match="two places"):
        Matcher([broken])
