"""No change of an input goes unnoticed: each incident of a log is reported once, in one sentence, and counted."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import LogTotals, WatchedTopic, decode, decode_status, encode
from rebalance_streaming.brokers.log_watch import Ends, Incident, LogWatch, TopicState, Unread, compare, take_up

TOPIC = "log"
OLD, NEW = "uJW6Bb3sSz2nN3Aj0YyTDw", "AIvSgqBnQ0SVbX9iFKqX9A"


def a_look(*ends: tuple[int, int], topic_id: str | None = OLD, count: int | None = None) -> TopicState:
    """Return a topic whose partitions 0, 1, … have these bounds."""
    return TopicState(
        len(ends) if count is None else count, {p: Ends(*each) for p, each in enumerate(ends)}, topic_id=topic_id
    )


class Story:
    """A sequence of looks, and the reports about them."""

    def __init__(self, watch: LogWatch | None = None) -> None:
        self.watch = watch or LogWatch("membership")

    def look(
        self, look: TopicState, positions: Mapping[int, int] | None = None, started_with: int | None = None
    ) -> list[Incident]:
        started = {} if started_with is None else {TOPIC: started_with}
        self.watch, reported = compare(self.watch, {TOPIC: look}, {TOPIC: positions or {}}, started=started)
        return list(reported)

    def kinds(self, look: TopicState, positions: Mapping[int, int] | None = None) -> list[str]:
        return [each.kind for each in self.look(look, positions)]

    @property
    def totals(self) -> WatchedTopic:
        return self.watch.topics[TOPIC].totals

    def restart(self) -> "Story":
        """Continue like another process: from the row in the status topic."""
        row = decode_status(encode(self.watch.publish("c", 0)))
        assert isinstance(row, LogTotals)
        return Story(take_up(row))


def test_a_log_that_only_grows_has_no_incident():
    """Records arrive and are read; old ones are deleted after the reader has passed."""
    story = Story()
    assert story.look(a_look((0, 100)), {}) == []
    assert story.look(a_look((0, 120)), {0: 90}) == []
    assert story.look(a_look((90, 150)), {0: 120}) == []
    assert story.watch.eras(TOPIC) == {}


def test_retention_that_was_faster_is_counted_once():
    """The gap is reported at the first look, its growth at the next; nothing more when the query continues after it."""
    story = Story()
    (reported,) = story.look(a_look((150, 300)), {0: 100})
    assert (reported.kind, reported.count, reported.partitions) == ("skipped", 50, (0,))
    assert "lost 50 positions before the membership query had read them (partition 0)" in reported.sentence
    assert story.look(a_look((150, 300)), {0: 100}) == []
    (reported,) = story.look(a_look((170, 300)), {0: 100})
    assert reported.count == 20
    assert story.look(a_look((170, 300)), {0: 200}) == []
    assert story.totals.skipped_records == 70


def test_a_stream_that_was_stopped_learns_what_it_missed():
    """Retention overtook it: the exact gap is counted at the first look after the start, and not again at the next."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    story = story.restart()
    (reported,) = story.look(a_look((1_100, 2_000)), {0: 100})
    assert (reported.kind, reported.count) == ("skipped", 1_000)
    story = story.restart()
    assert story.look(a_look((1_100, 2_000)), {0: 100}) == []
    assert story.totals.skipped_records == 1_000


def test_a_new_query_has_missed_nothing():
    """Records that were gone before its first read are no loss."""
    assert Story().look(a_look((500, 900))) == []


def test_a_tail_that_was_cut_begins_a_new_era_once():
    """While the query still has its old position, even while its last batch moves it, nothing more is reported."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    (reported,) = story.look(a_look((0, 80)), {0: 100})
    assert (reported.kind, reported.count) == ("rewound", 20)
    assert story.watch.eras(TOPIC) == {0: 1}
    assert story.look(a_look((0, 85)), {0: 100}) == []
    assert story.look(a_look((0, 90)), {0: 103}) == []
    (reported,) = story.look(a_look((0, 95)), {0: 90})
    assert (reported.kind, reported.count) == ("skipped", 10), "the query came down behind the cut"
    assert story.look(a_look((0, 95)), {0: 95}) == []
    assert story.totals.rewinds == 1
    assert story.totals.lost_positions == 20
    (reported,) = story.look(a_look((0, 90)), {0: 95})
    assert story.watch.eras(TOPIC) == {0: 2}


def test_a_query_behind_a_cut_has_read_nothing_of_what_follows():
    """Until it is where the new era begins; a partition with a position before the truncation is not awaited."""
    story = Story()
    story.look(a_look((0, 100), (0, 100), (0, 100)), {0: 100, 1: 60, 2: 100})
    story.look(a_look((0, 80), (0, 80), (0, 100)), {0: 100, 1: 60, 2: 100})
    assert story.watch.unread() == {TOPIC: {0: Unread(stood_at=100, begin=80)}}
    story.look(a_look((0, 70), (0, 80), (0, 100)))
    assert story.watch.unread() == {TOPIC: {0: Unread(stood_at=100, begin=70)}}, "cut again before it was started"
    again = story.restart()
    again.look(a_look((0, 75), (0, 80), (0, 100)), {0: 100, 1: 60, 2: 100})
    assert again.watch.unread() == {TOPIC: {0: Unread(stood_at=100, begin=70)}}, "another process finds it still there"
    assert story.look(a_look((0, 90), (0, 80), (0, 100)), {0: 70, 1: 60, 2: 100}) == []
    assert story.watch.unread() == {}


def test_a_query_that_came_down_may_have_read_what_follows():
    """Its earlier position is no evidence for that."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    story.watch, (reported,) = compare(story.watch, {TOPIC: a_look((0, 97))}, {TOPIC: {0: 95}}, {TOPIC: {0: 100}})
    assert reported.kind == "rewound"
    assert story.watch.unread() == {TOPIC: {0: Unread(begin=95, stood_at=None)}}


def test_a_query_behind_the_end_of_a_new_topic_has_read_nothing_of_it():
    """A topic with as many records as the old one may have been read already."""
    story = Story()
    story.look(a_look((0, 100), (0, 5)), {0: 100, 1: 5})
    story.look(a_look((0, 10), (0, 10), topic_id=NEW), {0: 100, 1: 5})
    assert story.watch.unread() == {TOPIC: {0: Unread(stood_at=100, begin=0), 1: Unread(begin=0, stood_at=None)}}


def test_a_cut_that_a_running_batch_hides_is_seen_by_the_end():
    """The end decreased although the position is before it: an unfinished batch may have read the lost records."""
    story = Story()
    story.look(a_look((0, 100)), {0: 60})
    (reported,) = story.look(a_look((0, 80)), {0: 60})
    assert (reported.kind, reported.count) == ("rewound", 0)
    assert story.watch.eras(TOPIC) == {0: 1}


def test_a_cut_during_a_stop_is_seen_by_the_position():
    """There is no earlier look, only the query's position; a restart before it has gone back reports nothing new."""
    story = Story().restart()
    assert story.kinds(a_look((0, 40), (0, 10)), {0: 50, 1: 10}) == ["rewound"]
    story = story.restart()
    assert story.look(a_look((0, 45), (0, 10)), {0: 50, 1: 10}) == []
    assert story.watch.eras(TOPIC) == {0: 1}
    assert story.totals.rewinds == 1


@pytest.mark.parametrize("end", [3, 5_000])
def test_a_recreated_topic_is_recognised_by_its_id(end: int):
    """Whether its offsets are below or above the read ones; every partition begins a new era, and the topic one."""
    story = Story()
    story.look(a_look((0, 100), (0, 100)), {0: 100, 1: 70})
    (reported,) = story.look(a_look((0, end), (0, end), topic_id=NEW), {0: 100, 1: 70})
    assert (reported.kind, reported.partitions) == ("recreated", (0, 1))
    assert "was deleted and recreated (partitions 0, 1)" in reported.sentence
    assert story.watch.eras(TOPIC) == {0: 1, 1: 1}
    read_on = story.look(a_look((0, end), (0, end), topic_id=NEW), {0: 0, 1: 0})
    assert read_on == []
    assert story.look(a_look((0, end), (0, end), topic_id=NEW), {0: end, 1: end}) == []
    totals = story.totals
    assert (totals.recreations, totals.rewinds, totals.skipped_records) == (1, 0, 0)


def test_what_a_query_jumps_over_in_a_new_log_is_counted():
    """With an empty batch Spark goes back from its old position to the current end."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    story.look(a_look((0, 10), topic_id=NEW), {0: 100})
    assert story.look(a_look((0, 11), topic_id=NEW), {0: 100}) == []
    (reported,) = story.look(a_look((0, 12), topic_id=NEW), {0: 10})
    assert (reported.kind, reported.count) == ("skipped", 10)
    assert story.look(a_look((0, 12), topic_id=NEW), {0: 12}) == []
    assert story.totals.skipped_records == 10


def test_a_topic_recreated_during_a_stop_is_reported():
    """The row has the id."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    assert story.restart().kinds(a_look((0, 200), topic_id=NEW), {0: 100}) == ["recreated"]


def test_a_topic_made_anew_on_an_old_broker_is_a_rewind():
    """Without ids only the ends show that."""
    story = Story()
    story.look(a_look((0, 100), topic_id=None), {0: 100})
    assert story.kinds(a_look((0, 3), topic_id=None), {0: 100}) == ["rewound"]


def test_an_id_that_is_missing_once_is_no_other():
    """A broker of another version in the same cluster may not report it."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    assert story.look(a_look((0, 100), topic_id=None), {0: 100}) == []
    assert story.look(a_look((0, 100)), {0: 100}) == []


def test_partitions_without_a_leader_are_compared_with_what_was_there_before():
    """A partition that could not be looked at for a while is neither truncated nor intact."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    assert story.look(TopicState(1, {}, OLD), {0: 100}) == []
    assert story.kinds(a_look((0, 90)), {0: 100}) == ["rewound"]
    story.look(TopicState(1, {}, NEW), {0: 90})
    assert story.look(a_look((0, 5), topic_id=NEW), {0: 90}) == [], "a new topic has no old end"


def test_growth_is_said_once_and_may_be_read_from_its_beginning():
    """New partitions are named, so that the query is restarted with them; including those created during a stop."""
    story = Story()
    story.look(a_look((0, 9), (0, 9)), {0: 9, 1: 9})
    (reported,) = story.look(a_look((0, 9), (0, 9), (0, 4)), {0: 9, 1: 9})
    assert (reported.kind, reported.count) == ("partitions_added", 1)
    assert reported.sentence == "log has 1 more partitions (partition 2), which the membership query does not read yet"
    assert story.look(a_look((0, 9), (0, 9), (0, 4)), {0: 9, 1: 9}) == []
    story = story.restart()
    (reported,) = story.look(a_look((0, 9), (0, 9), (0, 4), (0, 0)), {0: 9, 1: 9})
    assert reported.partitions == (3,)
    assert story.totals.added_partitions == 2


def test_a_query_that_was_started_without_known_partitions_is_reported():
    """The broker that it asked did not know them yet; they are counted as added once, when they were seen first."""
    story = Story()
    story.look(a_look((0, 9), (0, 9)), started_with=2)
    (reported,) = story.look(a_look((0, 9), (0, 9), (0, 4)), started_with=2)
    assert reported.kind == "partitions_added"
    (reported,) = story.look(a_look((0, 9), (0, 9), (0, 4)), started_with=1)
    assert (reported.kind, reported.partitions) == ("partitions_unread", (1, 2))
    assert reported.sentence.startswith("the membership query was started without 2 partitions of log (partitions 1, ")
    assert story.look(a_look((0, 9), (0, 9), (0, 4)), started_with=3) == []
    assert story.totals.added_partitions == 1


def test_a_broker_that_knows_fewer_partitions_than_the_query_reads_changes_nothing():
    """It has just started, and is the first one that the watcher asks."""
    story = Story()
    assert story.look(a_look((0, 9)), started_with=2) == []
    assert story.kinds(a_look((0, 9), (0, 9))) == ["partitions_added"]


def test_a_topic_is_gone_when_two_looks_say_so():
    """A broker that has just started temporarily knows no topics."""
    story = Story()
    whole, gone = a_look((0, 9), (0, 9)), TopicState(0, {})
    story.look(whole)
    assert story.look(gone) == []
    assert story.look(whole) == []
    assert story.look(gone) == []
    (reported,) = story.look(gone)
    assert (reported.kind, reported.partitions) == ("partitions_removed", (0, 1))
    assert story.look(gone) == []
    assert story.kinds(a_look((0, 0), (0, 0), topic_id=NEW)) == ["partitions_added", "recreated"]


def test_many_partitions_are_one_sentence():
    """Fifty partitions that retention overtook are one incident, with their total count."""
    (reported,) = Story().look(a_look(*[(10, 20)] * 50), dict.fromkeys(range(50), 4))
    assert reported.count == 300
    assert "(partitions 0, 1, 2, 3, 4 and 45 more)" in reported.sentence


def test_a_topic_that_cannot_be_looked_at_says_nothing():
    """The brokers were down."""
    story = Story()
    story.look(a_look((0, 100)), {0: 100})
    before = story.watch
    assert compare(before, {}, {TOPIC: {0: 100}}) == (before, ())


_ENDS = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda each: (min(each), max(each)))
_LOOKS = st.builds(
    lambda ends, topic_id, count: a_look(*ends[:count], topic_id=topic_id, count=count),
    st.lists(_ENDS, min_size=3, max_size=3),
    st.sampled_from([OLD, NEW, None]),
    st.integers(0, 3),
)
_POSITIONS = st.dictionaries(st.integers(0, 3), st.integers(0, 60), max_size=4)


@pytest.mark.generated
@given(st.lists(st.tuples(_LOOKS, _POSITIONS), max_size=8))
def test_whatever_befalls_a_log_totals_never_fall_and_repetition_says_nothing(history):
    """A repeated look has nothing new once it was confirmed; totals and eras never decrease, even over restarts."""
    story, before, eras = Story(), None, {}
    for look, positions in history:
        story.look(look, positions)
        # The second look confirms removed partitions, and the position that a query went back to.
        assert set(story.kinds(look, positions)) <= {"partitions_removed", "skipped"}
        assert story.look(look, positions) == []
        totals = story.totals
        if before is not None:
            for name in ("skipped_records", "lost_positions", "rewinds", "recreations", "added_partitions"):
                assert getattr(totals, name) >= getattr(before, name)
        now = story.watch.eras(TOPIC)
        assert all(now.get(partition, 0) >= era for partition, era in eras.items())
        before, eras = totals, now
        restarted = story.restart()
        assert (restarted.totals, restarted.watch.eras(TOPIC)) == (totals, eras)


def test_the_row_is_small_while_nothing_happens():
    """It has no partition without incidents."""
    story = Story()
    story.look(a_look(*[(0, 5)] * 1_000), dict.fromkeys(range(1_000), 5))
    row = encode(story.watch.publish("c", 0))
    assert len(row) < 500
    assert decode(row, LogTotals).topics[0].partition_count == 1_000
