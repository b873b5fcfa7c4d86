"""The total removes the oldest blocks, of all topics alike, but for what is kept or spared."""

import os

import pytest
from tests.unit.store.test_store_conformance import batch_of, checkpoint, payloads

from penstock.store.retention import total_limit
from penstock.store.store import ProtectedTopics, RetentionLimits, RetentionRequest, RetentionRules
from penstock.store.verify import verify

NAMES = [b"t/%d" % number for number in range(10)]


@pytest.fixture
def store(open_store):
    """Three blocks of ten topics with a message each."""
    store = open_store()
    for number in range(3):
        fill(store, number)
    return store


def fill(store, number, names=NAMES):
    store.commit(batch_of(*((name, b"%d" % number + os.urandom(500)) for name in names)))
    checkpoint(store)
    store.fold()


def file_bytes(store):
    return sum(each.row.summary.file_bytes for each in store._blocks.current.blocks)


def make_room(store, goal, **protected):
    """Remove slices until there is nothing more to do; how many messages each has removed."""
    request = RetentionRequest(RetentionRules(), 0, 1, ProtectedTopics(**protected))
    removed = [store._remove(request, goal)]
    while removed[-1].more:
        removed.append(store._remove(request, goal))
    return [each.messages for each in removed]


def numbers(store, name=b"t/0"):
    return [int(payload[:1]) for payload in payloads(store, name)]


def test_the_oldest_block_goes_and_its_file_with_it(store):
    assert make_room(store, file_bytes(store) - 1) == [10]
    assert {tuple(numbers(store, name)) for name in NAMES} == {(1, 2)}
    assert len(list((store._directory.path / "blocks").iterdir())) == 2
    assert make_room(store, file_bytes(store)) == [0]


def test_what_is_waited_for_or_not_consumed_goes_too(store):
    """A full disk would refuse new messages to keep old ones."""
    make_room(store, 0, prefix=b"t", floors={})
    assert store.size().messages == 0


def test_a_slice_removes_some_groups_and_tells_which(store, monkeypatch):
    monkeypatch.setattr(total_limit, "SHRINK_GROUPS", 4)
    told = []
    store.on_removed = told.append
    assert make_room(store, file_bytes(store) - 1) == [4, 4, 2]
    assert [len(each.offsets) for each in told] == [4, 4, 2]
    assert {span for each in told for spans in each.offsets.values() for span in spans} == {(0, 1)}


def test_what_is_kept_is_carried_over(store, open_store, tmp_path):
    """Their block is folded again, without the others."""
    make_room(store, 0, kept=(b"t/3",), spared=(b"t/4",))
    assert (numbers(store, b"t/3"), numbers(store, b"t/4"), numbers(store)) == ([0, 1, 2],) * 2 + (
        [],
    )
    before = file_bytes(store)
    store.fold()
    assert file_bytes(store) < before / 3
    assert sum(each.row.summary.count for each in store._blocks.current.blocks) == 6
    assert numbers(open_store(), b"t/3") == [0, 1, 2]


def test_a_block_is_found_again_after_its_place_was_taken(store, monkeypatch):
    """The total has come half through a block when that is folded with its neighbours."""
    monkeypatch.setattr(total_limit, "SHRINK_GROUPS", 6)
    request = RetentionRequest(RetentionRules(), 0, 1)
    assert store._remove(request, 0).messages == 6
    store.fold()
    make_room(store, 0)
    assert store._blocks.current.blocks == ()


def test_messages_that_were_deleted_or_removed_before_are_not_counted_again(store):
    store.delete(b"t/0", [0])
    store.trim(b"t/1", 2)
    make_room(store, file_bytes(store) - 1)
    assert store.size().messages == 19
    assert (numbers(store), numbers(store, b"t/1")) == ([1, 2], [2])


def test_a_damaged_block_goes_when_it_is_its_turn(store, open_store, tmp_path):
    """Parts that are sound, or not: none of it is carried on."""
    oldest = min((tmp_path / "data" / "blocks").iterdir())
    content = bytearray(oldest.read_bytes())
    content[len(content) // 3] ^= 0xFF
    oldest.write_bytes(content)
    store = open_store()
    store._topics._by_id.clear()  # as if they were not in memory: names are in the block
    store._topics._by_name.clear()
    make_room(store, file_bytes(store) - 1)
    assert {tuple(numbers(store, name)) for name in NAMES} == {(1, 2)}
    assert not oldest.exists()


def test_a_damaged_block_that_is_young_does_not_keep_others_from_their_limits(
    store, open_store, tmp_path
):
    """The age that topics share stays at it; limits by count go on meanwhile."""
    oldest = min((tmp_path / "data" / "blocks").iterdir())
    content = bytearray(oldest.read_bytes())
    content[len(content) // 3] ^= 0xFF
    oldest.write_bytes(content)
    store = open_store()
    store._topics._by_id.clear()  # as if they were not in memory: names are in the block
    store._topics._by_name.clear()
    rules = RetentionRules(RetentionLimits(messages_max=1, age_ms_max=1_000))
    now_ms = store._blocks.current.blocks[0].row.summary.oldest_ms + 500
    while store.retain(RetentionRequest(rules, now_ms, 1 << 40)).more:
        pass
    assert {tuple(numbers(store, name)) for name in NAMES} == {(2,)}
    assert len(store._blocks.damage.found) == 1


def test_what_is_left_is_sound(store, tmp_path, monkeypatch):
    monkeypatch.setattr(total_limit, "SHRINK_GROUPS", 7)
    request = RetentionRequest(RetentionRules(), 0, 1, ProtectedTopics(kept=(b"t/3",)))
    for _ in range(4):
        store._remove(request, 0)
        store.fold()
    store.close()
    assert verify(tmp_path / "data").faults == []
