"""Finding the entry of a line: real lines, fragments, lines changed by editors and chats, and other lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.messages.real_lines import LINES, Line
from fuzz.timing import least_time
from rebalance_contract.api_messages import MessageMatch
from rebalance_exporters.messages.answers import answer
from rebalance_exporters.messages.index import read_index
from rebalance_exporters.messages.loglines import read_origin
from rebalance_exporters.messages.matching import LONGEST_TEXT, Matcher, read_matcher
from rebalance_exporters.messages.times import read_time

MATCHER = read_matcher()
POLL = LINES[0].text


def best(text: str) -> str | None:
    """The id of the first entry found, as a whole or partial match."""
    found = MATCHER.search(text)
    return None if found.match is MessageMatch.NONE else found.hits[0].message.id


@pytest.mark.parametrize("line", LINES, ids=lambda each: each.message)
def test_a_real_line(line: Line):
    """Its entry, group, client and time."""
    reported = answer(line.text, MATCHER)
    assert (reported.match, reported.messages[0].id) == (MessageMatch.WHOLE, line.message)
    assert (reported.group, reported.client, read_time(line.text)) == (line.group, line.client, line.at)


def read_meant() -> list[tuple[str, str, str]]:
    """The lines of meant_lines.txt with their message and meaning."""
    raw = Path(__file__).with_name("meant_lines.txt").read_text(encoding="utf-8").splitlines()
    split = [line.partition(" | ") for line in raw if line and not line.startswith("#")]
    return [(text, *known.split(" ")) for known, _, text in split]


@pytest.mark.parametrize(("text", "message", "meaning"), read_meant(), ids=lambda each: each[:40])
def test_what_a_real_line_means(text: str, message: str, meaning: str):
    """Its entry, and its meaning with the error that it contains."""
    found = MATCHER.search(text)
    best_one = found.hits[0].message
    assert (found.match, best_one.id, best_one.meaning.id) == (MessageMatch.WHOLE, message, meaning)


@pytest.mark.parametrize(
    "text",
    [
        "MyCommitFailedException",
        "CommitFailedExceptions",
        "COMMITFAILEDEXCEPTION_2",
        "unrebalanceinprogress",
        "SESSTMOUT1",
    ],
)
def test_a_name_inside_of_a_longer_word_is_another(text):
    """RetriableCommitFailedException is not CommitFailedException."""
    assert MATCHER.search(f"at x: {text}: y").match is not MessageMatch.WHOLE


def test_prefixes_of_codes_do_not_hide_them():
    """As written by librdkafka and its wrappers."""
    for text in ("RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION", "Errors.ILLEGAL_GENERATION", "错误ILLEGAL_GENERATION。"):
        assert best(text) == "code_generation"


def test_an_error_within_an_error_decides():
    """The error must be in the place of the text; other parts of the line do not count."""
    line = (
        "Asynchronous auto-commit of offsets {t-0=OffsetAndMetadata{offset=5}} failed: Offset commit failed with a "
        "retriable exception. You should retry committing the latest consumed offsets. The underlying error was: "
    )
    hit = MATCHER.match(line + "This is not the correct coordinator.")[0]
    assert hit.message.meaning.id == "commit_retriable"
    assert hit.message.text.startswith("Asynchronous auto-commit of offsets {any} failed: Offset commit failed with a")
    assert hit.message.text.endswith("The underlying error was: This is not the correct coordinator.")
    before = MATCHER.match(
        "REBALANCE_IN_PROGRESS before: Offset commit failed on partition t-0 at offset 5: Who knows."
    )
    assert (before[0].message.id, before[0].message.meaning.id) == ("java_commit_partition_failed", "commit_failed")


@pytest.mark.parametrize(
    ("line", "meanings"),
    [
        (
            "[GroupCoordinator 1]: Preparing to rebalance group orders in state PreparingRebalance with old generation "
            "41 (__consumer_offsets-23) (reason: Adding new member a-1 with group instance id None; client reason: "
            "rebalance failed due to MemberIdRequiredException) (kafka.coordinator.group.GroupCoordinator)",
            ["member_joins", "member_id_assigned"],
        ),
        (
            '"[Consumer] Crash: KafkaJSGroupCoordinatorNotFound: Failed to find group coordinator","groupId":"orders"',
            ["coordinator_gone"],
        ),
    ],
)
def test_a_cause_is_listed_too_where_both_have_a_combined_meaning(line: str, meanings: list[str]):
    """Otherwise the line has the meaning of the cause, which would be listed twice."""
    assert [each.message.meaning.id for each in MATCHER.match(line)] == meanings


def trace(frames: int) -> str:
    """A stack trace of Spring with its cause at the end."""
    frame = "\tat org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.run(K.java:1313)\n"
    return (
        "2026-03-01 14:05:01,123 ERROR [C-1] o.s.k.l.DefaultErrorHandler - Stopping (groupId=orders)\n"
        f"org.springframework.kafka.listener.ListenerExecutionFailedException: Listener failed\n{frame * frames}"
        "Caused by: org.apache.kafka.common.errors.FencedInstanceIdException: The broker rejected this static consumer "
        "since another consumer with the same group.instance.id has registered with a different member.id.\n"
        f"\t... {frames} common frames omitted"
    )


@pytest.mark.parametrize("frames", [0, 3, 40, 400])
def test_the_cause_at_the_end_of_a_stack_trace_is_found(frames: int):
    """With the group of its first line, however many frames are in between."""
    reported = answer(trace(frames), MATCHER)
    assert (reported.match, reported.messages[0].id, reported.group) == (
        MessageMatch.WHOLE,
        "java_fenced_text",
        "orders",
    )


def test_words_of_several_lines_make_no_message():
    """A pasted log is searched line by line; only a single line wrapped by a terminal is joined."""
    lines = "2026-03-01 14:05:01 Member a joined\n2026-03-01 14:05:02 x in group b\n2026-03-01 14:05:03 has failed, "
    assert MATCHER.search(f"{lines}removing it from the group").match is not MessageMatch.WHOLE


@pytest.mark.generated
@pytest.mark.parametrize(
    "piece",
    ["x", " ", "\n", "a\n", "xCommitFailedException", "JoinGroup failed: ", "group:,", " at a(", "member  in group ",
     "Offset commit failed on partition a at offset b: OffsetCommit failed with c: Request joining group due to: "],
)  # fmt: skip
def test_a_hostile_text_takes_linear_time(piece: str):
    """For each kind of repetition eight times the length takes about eight times as long."""
    short, long = (piece * (length // len(piece) + 1) for length in (LONGEST_TEXT // 8, LONGEST_TEXT))
    least = least_time(lambda: answer(short, MATCHER))
    assert least_time(lambda: answer(long, MATCHER)) < 30 * least + 0.05


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ('{"level":"info","ts":1709287200.1239,"msg":"x"}', "2024-03-01T10:00:00.123Z"),
        ('{"level":"info","ts":1709287200.1,"msg":"x"}', "2024-03-01T10:00:00.100Z"),
        ('{"time":1709287200,"msg":"x"}', "2024-03-01T10:00:00.000Z"),
        ("level=info ts=1709287200.5 msg=x", "2024-03-01T10:00:00.500Z"),
        ('{"instant" : {"epochSecond" : 1709287200, "nanoOfSecond" : 7000000}}', "2024-03-01T10:00:00.007Z"),
        ('{"instant":{"epochSecond":1709287200}}', "2024-03-01T10:00:00.000Z"),
        ('{"ts":17092872001,"msg":"x"}', None),
        ('{"ts":170928720,"msg":"x"}', None),
    ],
)
def test_seconds_since_1970_are_a_time(line: str, at: str | None):
    """In the formats of zap, logfmt and Log4j 2; numbers of other lengths are not times."""
    assert read_time(line) == at


def test_every_client_has_a_real_line():
    """All clients of the index are covered."""
    ids = {line.message for line in LINES}
    tried = {printer.client.id for each in read_index().messages if each.id in ids for printer in each.printed}
    assert tried == read_index().clients.keys()


@pytest.mark.parametrize("line", LINES, ids=lambda each: each.message)
def test_case_blanks_and_line_breaks_do_not_count(line: Line):
    """As wrapped by a terminal, or typed by a user."""
    for text in (line.text.upper(), line.text.lower(), line.text.replace(" ", "\n      "), f"\t{line.text}   "):
        assert best(text) == line.message


def test_quotes_as_chats_rewrite_them():
    """Typographic quotes, accents, and those escaped in JSON."""
    for opening, closing in (("\u201c", "\u201d"), ('\\"', '\\"'), ('"', '"')):
        text = f"Group {opening}orders{closing}: failed to run assignor {opening}range{closing} for 3 member(s): x"
        assert best(text) == "rdkafka_assignor"
    assert (
        best("Member a has left group orders through explicit \u2018LeaveGroup\u2019; client reason: x")
        == "broker_left"
    )


def test_a_message_that_was_cut():
    """At its end, inside a word, and at its beginning."""
    failed = "Member a-1 in group orders has failed, removing it from the group"
    for end in (28, 35, 45):
        assert best(failed[:end]) == "broker_member_failed"
    found = MATCHER.search("failed, removing it from the group")
    assert (found.match, found.hits[0].message.id) == (MessageMatch.PART, "broker_member_failed")
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
    """Typical search terms lead to their message."""
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
    """No result claims a match."""
    assert MATCHER.search(text).match is MessageMatch.NONE


def test_what_is_not_known_gets_what_is_nearest():
    """The entry with the same rare words; none without common words."""
    near = MATCHER.search("my heartbeat thread died")
    assert near.match is MessageMatch.NONE
    assert "heartbeat_thread_failed" in {each.message.meaning.id for each in near.hits}
    assert not MATCHER.search("disk quota exceeded while writing checkpoint").hits


def test_of_several_messages_in_a_line_the_longest_comes_first():
    """Messages that are only a part of it are left out."""
    line = next(each for each in LINES if each.message == "java_commit_partition_failed")
    assert [each.message.id for each in MATCHER.match(line.text)] == ["java_commit_partition_failed", "unknown_member"]
    assert [each.message.id for each in MATCHER.match("Broker: Not coordinator for group")] == [
        "rdkafka_not_coordinator_old"
    ]


def test_a_place_that_is_repeated_or_last_is_read_as_it_stands():
    """The last word of a line belongs to it, words after the message do not."""
    (hit,) = MATCHER.match("INFO (Re-)joining group Orders.EU (kafka.coordinator)")
    assert dict(hit.places) == {"group": "Orders.EU"}


def test_a_name_before_a_message_is_read_unless_it_is_a_level():
    """Spring puts the group in front."""
    known = ("x.y : orders.eu: ", "orders.eu"), ('{"message":"orders: ', "orders")
    for before, group in (*known, ("INFO: ", None), ("", None), (": ", None)):
        assert answer(f"{before}partitions assigned: [orders-0]", MATCHER).group == group


def test_only_so_much_of_a_text_is_looked_at():
    """A pasted file costs no more than its beginning."""
    assert MATCHER.search("x" * LONGEST_TEXT + POLL).match is MessageMatch.NONE


@pytest.mark.generated
@given(st.text(max_size=300))
def test_no_text_is_too_strange(text):
    """Any pasted text gets an answer."""
    reported = answer(text, MATCHER)
    assert reported.messages or reported.match is MessageMatch.NONE
    read_origin(text, MATCHER.match(text))


@pytest.mark.generated
@given(st.sampled_from(LINES), st.text(max_size=40), st.text(max_size=40))
def test_what_stands_around_a_message_does_not_hide_it(line, before, after):
    """Its entry is among the results."""
    hits = MATCHER.match(f"{before} {line.text} {after}")
    assert line.message in {each.message.id for each in hits} or hits[0].weight > len(line.text)


def test_a_text_with_two_places_side_by_side_is_refused():
    """The boundary between them would be ambiguous."""
    message = read_index().messages[0]
    broken = type(message)(message.id, "a {group}{member} b", message.meaning, message.printed)
    with pytest.raises(ValueError, match="two places"):
        Matcher([broken])
