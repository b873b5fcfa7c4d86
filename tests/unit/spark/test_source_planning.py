"""How far a batch goes, how it is cut, what is lost: pure functions, checked on many inputs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.spark.offsets import (
    OffsetRange,
    Partitioning,
    StreamPosition,
    TopicPosition,
    decode,
    encode,
    ranges_between,
)
from penstock.spark.planning import (
    Loss,
    TopicState,
    advance,
    clamp,
    lag_of,
    lost_with_topics,
    partition_count,
    share,
    share_bytes,
    split,
    with_deleted_ends,
)

names = st.sampled_from([f"t/{number}" for number in range(12)])
spots = st.builds(TopicPosition, st.integers(1, 3), st.integers(0, 1000), st.integers(0, 1000))
cuts = st.builds(
    Partitioning,
    st.integers(1, 8),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 500),
)
ends = st.dictionaries(names, st.integers(0, 1000))
positions = st.builds(StreamPosition, st.dictionaries(names, spots), cuts, st.booleans(), ends)


# ── Offsets


@given(positions)
def test_an_offset_comes_back_as_it_was(position):
    assert decode(json.loads(json.dumps(encode(position)))) == position


@given(positions)
def test_the_same_position_is_always_the_same_text(position):
    backwards = dict(reversed(list(position.topics.items())))
    gone = dict(reversed(list(position.gone.items())))
    other = StreamPosition(backwards, position.cut, position.is_initial, gone)
    assert json.dumps(encode(other)) == json.dumps(encode(position))


def test_an_offset_is_written_as_documented():
    position = StreamPosition(
        {"b": TopicPosition(1, 20, 10), "a": TopicPosition(2, 5, 0)}, Partitioning(2, None, 100)
    )
    assert json.dumps(encode(position)) == (
        '{"plan": {"cores": 2, "maxRecordsPerPartition": 100, "minPartitions": null, '
        '"order": "incarnation"}, '
        '"topics": {"a": [2, 5, 0], "b": [1, 20, 10]}, "v": 1}'
    )


def test_an_offset_of_another_version_is_refused():
    with pytest.raises(PenstockError, match="version 2"):
        decode({"v": 2})


def test_a_batch_begins_where_the_one_before_ended():
    start, end = (
        StreamPosition({"a": TopicPosition(1, 10, 4)}),
        StreamPosition({"a": TopicPosition(1, 30, 4)}),
    )
    assert ranges_between(start, end) == [OffsetRange("a", 1, 10, 30)]


def test_batch_0_begins_where_its_end_says_whatever_the_initial_offset_says():
    """On a repetition after a kill, ``initialOffset`` may say "latest" of another moment."""
    moved = StreamPosition({"a": TopicPosition(1, 25, 25)}, is_initial=True)
    assert ranges_between(moved, StreamPosition({"a": TopicPosition(1, 30, 4)})) == [
        OffsetRange("a", 1, 4, 30)
    ]


def test_a_new_topic_begins_at_its_first_and_one_made_anew_as_well():
    start = StreamPosition({"a": TopicPosition(1, 10, 0)})
    end = StreamPosition({"a": TopicPosition(2, 8, 3), "b": TopicPosition(1, 5, 2)})
    assert ranges_between(start, end) == [OffsetRange("a", 2, 3, 8), OffsetRange("b", 1, 2, 5)]


def test_what_goes_nowhere_is_no_range():
    same = StreamPosition({"a": TopicPosition(1, 10, 0)})
    assert ranges_between(same, same) == []
    assert ranges_between(same, StreamPosition({"a": TopicPosition(1, 9, 0)})) == []


# ── How far


def test_lag_is_counted_from_where_we_are_or_from_the_first():
    start = StreamPosition(
        {"a": TopicPosition(1, 10, 0), "b": TopicPosition(1, 10, 0), "c": TopicPosition(1, 10, 0)}
    )
    seen = {
        "a": TopicState(1, 0, 15),
        "b": TopicState(2, 3, 9),
        "c": TopicState(1, 0, 10),
        "d": TopicState(1, 0, 2),
    }
    assert lag_of(start, seen) == {"a": 5, "b": 6, "d": 2}


def test_to_advance_is_to_take_and_to_keep_where_it_began():
    start = StreamPosition({"a": TopicPosition(1, 10, 4)})
    seen = {"a": TopicState(1, 0, 15), "b": TopicState(7, 3, 9)}
    assert advance(start, seen, {"a": 5, "b": 2}, Partitioning(3)) == StreamPosition(
        {"a": TopicPosition(1, 15, 4), "b": TopicPosition(7, 5, 3)}, Partitioning(3)
    )


def test_a_topic_that_is_gone_leaves_and_one_that_was_cut_back_is_followed_back():
    start = StreamPosition({"a": TopicPosition(1, 10, 4), "b": TopicPosition(1, 10, 4)})
    assert advance(start, {"b": TopicState(1, 0, 7)}, {}, Partitioning()).topics == {
        "b": TopicPosition(1, 7, 4)
    }


lags = st.dictionaries(names, st.integers(1, 10_000), min_size=1)


@given(lags, st.integers(1, 30_000), st.integers(0, 10**9))
def test_a_limit_is_used_up_and_never_exceeded(lags, total, turn):
    taken = share(lags, total, turn)
    assert sum(taken.values()) == min(total, sum(lags.values()))
    assert all(0 < rows <= lags[name] for name, rows in taken.items())


@given(lags, st.integers(12, 30_000))
def test_every_topic_gets_one_at_least_while_there_are_enough(lags, total):
    assert share(lags, total).keys() == lags.keys()


@given(lags, st.integers(12, 30_000))
def test_shares_are_in_proportion_to_lag(lags, total):
    taken, whole = share(lags, total), sum(lags.values())
    if whole > total:
        assert all(
            abs(rows - total * lags[name] / whole) <= len(lags) + 1 for name, rows in taken.items()
        )


def test_more_topics_than_rows_take_turns():
    """Each batch begins where the one before stopped, as the count of rows read so far says."""
    lags = {f"t{number}": 1_000_000 for number in range(7)}
    read = dict.fromkeys(lags, 0)
    for _ in range(70):
        taken = share(lags, 3, turn=sum(read.values()))
        assert len(taken) == 3
        for name, rows in taken.items():
            read[name] += rows
    assert set(read.values()) == {30}


means = st.dictionaries(names, st.integers(0, 5_000), min_size=1)


@given(means, st.integers(1, 50_000), st.integers(0, 10**6))
def test_bytes_are_shared_within_the_limit_unless_one_message_is_larger(means, total, turn):
    sizes = {name: mean * 10 for name, mean in means.items()}
    taken = share_bytes(sizes, means, total, turn)
    assert taken
    assert sum(taken.values()) <= total or len(taken) == 1
    if sum(max(1, mean) for mean in means.values()) <= total:
        assert all(taken[name] >= means[name] for name in means)


def test_topics_whose_messages_do_not_fit_together_take_turns():
    means = dict.fromkeys("abc", 1_000)
    sizes = dict.fromkeys("abc", 50_000)
    chosen = [list(share_bytes(sizes, means, 1_500, turn)) for turn in range(4)]
    assert chosen == [["a"], ["b"], ["c"], ["a"]]


# ── Partitions


ranges_lists = st.lists(
    st.builds(
        lambda name, begin, rows: OffsetRange(name, 1, begin, begin + rows),
        names,
        st.integers(0, 10**12),
        st.integers(1, 300),
    ),
    max_size=15,
)


@given(ranges_lists, cuts)
def test_partitions_have_every_row_once_in_order(ranges, cut):
    pieces = [piece for part in split(ranges, cut) for piece in part]
    joined = []
    for piece in pieces:
        last = joined[-1] if joined else None
        open_before = len(joined) and last != ranges[len(joined) - 1]
        if open_before:
            assert piece.begin == last.end
            joined[-1] = last._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == ranges


@given(ranges_lists, cuts)
def test_partitions_are_as_many_as_asked_equal_and_never_empty(ranges, cut):
    parts = [sum(one.end - one.begin for one in part) for part in split(ranges, cut)]
    rows = sum(one.end - one.begin for one in ranges)
    if cut.min_partitions is not None:
        assert len(parts) >= min(cut.min_partitions, rows)
    if cut.max_rows is not None:
        assert all(part <= cut.max_rows for part in parts)
    if parts:
        assert len(parts) == partition_count(ranges, cut)
        assert min(parts) > 0
        assert max(parts) - min(parts) <= 1


def test_partitions_are_in_the_order_of_incarnations_those_of_earlier_checkpoints_by_name():
    ranges = [OffsetRange("a", 3, 0, 1), OffsetRange("b", 1, 0, 1), OffsetRange("c", 2, 0, 1)]
    [part] = split(ranges, Partitioning())
    assert [one.topic for one in part] == ["b", "c", "a"]
    earlier = decode({"v": 1, "plan": {"cores": 1}, "topics": {}}).cut
    assert split(ranges, earlier) == [ranges]


@given(ranges_lists, cuts)
def test_the_same_ranges_are_always_cut_alike(ranges, cut):
    assert split(ranges, cut) == split(list(ranges), cut)


def test_50_000_small_topics_are_as_many_tasks_as_there_are_cores():
    ranges = [OffsetRange(f"t{number}", 1, 0, 2) for number in range(50_000)]
    assert [len(part) for part in split(ranges, Partitioning(4))] == [12_500] * 4


def test_a_large_topic_is_read_by_all_cores_and_a_small_one_by_one():
    assert len(split([OffsetRange("t", 1, 0, 10_000_000)], Partitioning(4))) == 4
    assert len(split([OffsetRange("t", 1, 0, 10_000)], Partitioning(4))) == 1


def test_nothing_is_no_partition():
    assert split([], Partitioning(4)) == []


# ── Loss


def test_what_retention_has_removed_is_cut_off_and_told():
    left, losses = clamp([OffsetRange("a", 1, 10, 30)], {"a": TopicState(1, 17, 40)})
    assert left == [OffsetRange("a", 1, 17, 30)]
    assert losses == [Loss("a", 1, 10, 17, "removed")]


def test_a_range_that_is_gone_as_a_whole_is_told_as_a_whole():
    left, losses = clamp([OffsetRange("a", 1, 10, 30)], {"a": TopicState(1, 35, 40)})
    assert (left, losses) == ([], [Loss("a", 1, 10, 30, "removed")])


def test_a_topic_that_is_gone_or_another_is_told():
    left, losses = clamp(
        [OffsetRange("a", 1, 1, 3), OffsetRange("b", 1, 1, 3)], {"b": TopicState(2, 0, 9)}
    )
    assert left == []
    assert losses == [Loss("a", 1, 1, 3, "deleted"), Loss("b", 1, 1, 3, "made anew")]


def test_a_topic_that_came_back_shorter_is_told():
    left, losses = clamp([OffsetRange("a", 1, 1, 9)], {"a": TopicState(1, 0, 4)})
    assert left == [OffsetRange("a", 1, 1, 4)]
    assert losses == [Loss("a", 1, 4, 9, "cut back")]


@given(
    ranges_lists,
    st.dictionaries(
        names,
        st.builds(TopicState, st.integers(1, 2), st.integers(0, 10**12), st.integers(0, 10**12)),
    ),
)
def test_what_is_left_and_what_is_lost_are_all_there_was(ranges, has):
    left, losses = clamp(ranges, has)
    rows = sum(one.end - one.begin for one in ranges)
    assert sum(one.end - one.begin for one in (*left, *losses)) == rows


def test_what_was_read_to_its_end_is_not_lost_with_its_topic():
    start, last = StreamPosition({"a": TopicPosition(1, 10, 0)}), {"a": TopicState(1, 0, 10)}
    for end in (StreamPosition({}), StreamPosition({"a": TopicPosition(2, 3, 0)})):
        assert lost_with_topics(start, with_deleted_ends(start, end, last)) == []


def test_what_was_not_read_is_lost_with_its_topic():
    start = StreamPosition({"a": TopicPosition(1, 10, 0)})
    end = with_deleted_ends(start, StreamPosition({}), {"a": TopicState(1, 0, 12)})
    assert lost_with_topics(start, end) == [Loss("a", 1, 10, 12, "deleted")]
    assert lost_with_topics(start, StreamPosition({"a": TopicPosition(2, 3, 0)})) == [
        Loss("a", 1, 10, None, "made anew")
    ]


def test_what_is_known_of_another_incarnation_says_nothing():
    start = StreamPosition({"a": TopicPosition(1, 10, 0)})
    assert with_deleted_ends(start, StreamPosition({}), {"a": TopicState(2, 0, 10)}).gone == {}


def test_only_what_has_gone_is_noted():
    start = StreamPosition({"a": TopicPosition(1, 10, 0)})
    end = StreamPosition({"a": TopicPosition(1, 12, 0)})
    assert (
        with_deleted_ends(start, end, {"a": TopicState(1, 0, 10), "b": TopicState(5, 0, 10)}).gone
        == {}
    )


def test_a_topic_that_goes_back_has_lost_its_end():
    start, end = (
        StreamPosition({"a": TopicPosition(1, 10, 0)}),
        StreamPosition({"a": TopicPosition(1, 7, 0)}),
    )
    assert lost_with_topics(start, end) == [Loss("a", 1, 7, 10, "cut back")]
