"""Blocks cut into pieces: nothing is lost, duplicated or reordered, wherever a restart happens."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import StorageError
from penstock.model.stages import Stage, stage_of, stage_topic
from penstock.staging import blocks as staged_blocks
from penstock.staging.blocks import Pieces, validate
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.wire.queue._generated.queue_pb2 import StagedBlock

SINK, EPOCH = b"job/1", 3

lots = st.builds(
    lambda topic, payloads, has_headers, has_times: {
        "topic": topic,
        "payloads": payloads,
        "headers": [{"name": "k", "value": b"v"}] if has_headers else [],
        "times_ms": list(range(len(payloads))) if has_times else [],
    },
    st.sampled_from(["a", "b"]),
    st.lists(st.binary(max_size=6), max_size=5),
    st.booleans(),
    st.booleans(),
)
blocks_of_lots = st.lists(lots, max_size=3).filter(
    lambda block: any(lot["payloads"] for lot in block)
)
epochs = st.lists(st.lists(blocks_of_lots, max_size=3), max_size=3)
"""Parts, each of blocks, each of lots."""


def staged(epoch):
    """A store that has the blocks, and the parts as a commit names them."""
    store, parts = MemoryStore(), []
    for number, blocks in enumerate(epoch):
        stage = Stage(SINK, EPOCH, b"%d" % number)
        for block in blocks:
            batch = Batch()
            content = StagedBlock(lots=block).SerializeToString()
            assert not validate(content).fault
            batch.append(stage_topic(stage), [content], 1, 0)
            store.commit(batch)
        parts.append((stage.part, len(blocks)))
    return store, parts


def plain(epoch):
    """Every message in its order: topic, payload, headers."""
    found = []
    for lot in (lot for blocks in epoch for block in blocks for lot in block):
        for number, payload in enumerate(lot["payloads"]):
            headers = [(b"k", b"v")] if lot["headers"] else []
            headers += [(b"time", b"%d" % number)] if lot["times_ms"] else []
            found.append((lot["topic"].encode(), payload, tuple(headers)))
    return found


def published(piece):
    return [
        (lot.topic, payload, lot.extras[number].headers if lot.extras else ())
        for lot in piece.runs
        for number, payload in enumerate(lot.payloads)
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs, st.integers(1, 40), st.integers(1, 20), st.data())
def test_pieces_are_the_rows_in_their_order_whoever_goes_on(monkeypatch, epoch, weight, size, data):
    monkeypatch.setattr(staged_blocks, "PIECE_WEIGHT", weight)
    monkeypatch.setattr(staged_blocks, "PIECE_BYTES", size)
    store, parts = staged(epoch)
    pieces, found, is_last = Pieces(store, SINK, EPOCH, parts, (0, 0, 0)), [], False
    while not is_last:
        piece = pieces.next()
        assert piece.messages == len(published(piece))
        assert piece.messages or piece.is_last
        found += published(piece)
        is_last = piece.is_last
        if data.draw(st.booleans(), "another life"):
            pieces = Pieces(store, SINK, EPOCH, parts, piece.place)
    assert found == plain(epoch)


def test_a_block_that_is_not_there_is_an_error_and_not_a_gap():
    store, parts = staged([[[{"topic": "a", "payloads": [b"x"]}]]])
    pieces = Pieces(store, SINK, EPOCH, [*parts, (b"lost", 1)], (0, 0, 0))
    with pytest.raises(StorageError, match="lost"):
        pieces.next()


@given(
    st.lists(st.sampled_from(["a", "7", "$x"]), min_size=1, max_size=3),
    st.integers(0, 2**63 - 1),
    st.sampled_from(["0-0-ab", "7"]),
)
def test_a_name_tells_whose_blocks_lie_there(levels, epoch, part):
    stage = Stage("/".join(levels).encode(), epoch, part.encode())
    assert stage_of(stage_topic(stage)) == stage


@pytest.mark.parametrize("count", [1, 63])
def test_a_piece_counts_the_headers_of_each_of_its_messages(count):
    """A lot has them once: a small block would be a piece of a hundred mebibytes."""
    headers = [
        {"name": f"{number:02}", "value": b"x" * (16_000 // count)} for number in range(count)
    ]
    block = [{"topic": "a", "payloads": [b""] * 1_000, "headers": headers}]
    store, parts = staged([[block]])
    pieces, messages, is_last = Pieces(store, SINK, EPOCH, parts, (0, 0, 0)), 0, False
    while not is_last:
        piece = pieces.next()
        assert piece.messages * 16_000 <= staged_blocks.PIECE_BYTES + 16_000
        messages, is_last = messages + piece.messages, piece.is_last
    assert messages == 1_000


def test_many_headers_weigh_more_than_few():
    def first_piece(count):
        headers = [{"name": "h"}] * count
        store, parts = staged([[[{"topic": "a", "payloads": [b""] * 5_000, "headers": headers}]]])
        return Pieces(store, SINK, EPOCH, parts, (0, 0, 0)).next().messages

    assert first_piece(1) > 4 * first_piece(60)
