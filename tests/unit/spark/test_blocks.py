"""Rows become blocks: each row once, messages of a topic in order, whatever the columns are."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits import (
    STAGED_BLOCK_BYTES_MAX,
    STAGED_HEADERS_BYTES_MAX,
    STAGED_LOTS_MAX,
    STAGED_MESSAGES_MAX,
)
from penstock.spark import blocks
from penstock.spark.blocks import Blocks, RowError
from penstock.spark.sink_schema import Layout
from penstock.wire.queue._generated.queue_pb2 import StagedBlock

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("payload", pa.binary()),
        ("headers", HEADERS),
        ("priority", pa.int32()),
        ("content_type", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("expires", pa.timestamp("us", "UTC")),
    ]
)
ALL = Layout(topic=0, payload=1, headers=2, priority=3, content_type=4, timestamp=5, expires=6)
NOW = datetime(2030, 1, 31, tzinfo=UTC)
TYPES = ["raw", "text", "json", "msgpack"]


def cut(
    rows: list[dict[str, Any]], layout: Layout = ALL, batch: int = 10_000, **more
) -> list[bytes]:
    table = pa.Table.from_pylist(rows, SCHEMA)
    made = Blocks(layout, **more)
    found = [one for part in table.to_batches(batch) for one in made.add(part)]
    found += made.finish()
    assert made.rows == len(rows)
    return found


def messages(found: list[bytes]) -> dict[str, list[tuple[Any, ...]]]:
    """What the broker would publish, topic by topic."""
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for one in found:
        for lot in StagedBlock.FromString(one).lots:
            headers = tuple((header.name, header.value) for header in lot.headers)
            assert len(lot.times_ms) in {0, len(lot.payloads)}
            times = list(lot.times_ms) or [None] * len(lot.payloads)
            ends = list(lot.expires_ms) or [None] * len(lot.payloads)
            topics.setdefault(lot.topic, []).extend(
                (payload, lot.priority, lot.content_type, headers, time, end)
                for payload, time, end in zip(lot.payloads, times, ends, strict=True)
            )
    return topics


def expected(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        pairs = tuple((pair["key"], pair["value"] or b"") for pair in row["headers"] or ())
        topics.setdefault(row["topic"], []).append(
            (
                row["payload"],
                row["priority"] or 0,
                TYPES.index(row["content_type"] or "raw"),
                pairs,
                _milliseconds(row["timestamp"]),
                _milliseconds(row["expires"]),
            )
        )
    return topics


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


a_header = st.fixed_dictionaries(
    {"key": st.sampled_from(["a", "b", ""]), "value": st.sampled_from([b"", b"x", b"yy", None])}
)
a_row = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["t", "u", "v/w"]),
        "payload": st.binary(max_size=5),
        "headers": st.none() | st.lists(a_header, max_size=3),
        "priority": st.none() | st.integers(0, 7),
        "content_type": st.none() | st.sampled_from(TYPES),
        "timestamp": st.none()
        | st.integers(0, 2_000_000_000_000).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC)),
        "expires": st.none()
        | st.integers(1, 2_000_000_000_000).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC)),
    }
)


def row(topic: str = "t", payload: bytes = b"x", **more: Any) -> dict[str, Any]:
    empty = {
        "headers": None,
        "priority": None,
        "content_type": None,
        "timestamp": None,
        "expires": None,
    }
    return {"topic": topic, "payload": payload, **empty, **more}


@given(st.lists(a_row, max_size=30), st.integers(1, 7))
def test_each_row_is_in_one_block_and_each_topic_keeps_its_order(rows, batch):
    assert messages(cut(rows, batch=batch)) == expected(rows)


@given(st.lists(st.none() | st.lists(a_header, max_size=2), max_size=20), st.integers(1, 2))
def test_headers_stay_with_their_rows_where_nothing_else_tells_rows_apart(headers, topics):
    rows = [row(f"t{at % topics}", headers=one) for at, one in enumerate(headers)]
    assert messages(cut(rows)) == expected(rows)


@given(st.lists(a_row, max_size=20), st.integers(60, 300), st.integers(1, 400))
def test_where_blocks_and_pieces_are_cut_changes_nothing(rows, block_bytes, piece_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks.limits, "STAGED_BLOCK_BYTES_MAX", 200 + block_bytes)
        patch.setattr(blocks, "PIECE_BYTES", piece_bytes)
        found = cut(rows, batch=3)
    assert messages(found) == expected(rows)
    assert all(len(one) <= 200 + block_bytes for one in found)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 100_000, 1_000_000])
def test_no_block_is_larger_than_the_broker_takes(size):
    rows = [row(f"t{number % 3}", bytes(size)) for number in range(3_000_000 // (size + 100) + 2)]
    found = cut(rows)
    assert all(len(one) <= STAGED_BLOCK_BYTES_MAX for one in found)
    assert messages(found) == expected(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [row(payload=b"")] * (2 * STAGED_MESSAGES_MAX + 3),
        [row(f"t{number}") for number in range(2 * STAGED_LOTS_MAX + 3)],
        [row(priority=number % 8) for number in range(2 * STAGED_LOTS_MAX)],
    ],
)
def test_no_block_has_more_messages_or_lots_than_the_broker_takes(rows):
    found = cut(rows)
    for lots in (StagedBlock.FromString(one).lots for one in found):
        assert len(lots) <= STAGED_LOTS_MAX
        assert sum(len(lot.payloads) for lot in lots) <= STAGED_MESSAGES_MAX
    assert messages(found) == expected(rows)


def test_no_block_has_more_headers_than_the_broker_takes_counted_for_each_message():
    rows = [row(headers=[{"key": "k", "value": b"x" * 16_000}])] * 2_200
    found = cut(rows)
    assert len(found) == 3
    for one in found:
        count = sum(len(lot.payloads) for lot in StagedBlock.FromString(one).lots)
        assert count * 16_001 <= STAGED_HEADERS_BYTES_MAX
    assert messages(found) == expected(rows)


def test_full_blocks_are_nearly_full():
    found = cut([row(payload=bytes(100))] * 100_000)
    assert all(len(one) > 0.9 * STAGED_BLOCK_BYTES_MAX for one in found[:3])


def test_rows_that_differ_in_nothing_but_payload_and_time_are_one_lot():
    rows = [row(headers=[{"key": "k", "value": b"v"}], priority=3)] * 500
    (block,) = cut(rows)
    assert len(StagedBlock.FromString(block).lots) == 1


def test_an_option_names_topic_and_content_type_of_all_rows():
    layout = Layout(payload=1)
    found = cut([row("ignored"), row("too")], layout, topic="chosen", content_type=2)
    assert messages(found) == {"chosen": [(b"x", 0, 2, (), None, None)] * 2}


def test_the_option_is_the_content_type_of_rows_that_have_none():
    rows = [row(), row(content_type="text")]
    found = messages(cut(rows, content_type=3))
    assert [one[2] for one in found["t"]] == [3, 1]


def test_text_is_taken_as_utf8_and_maps_are_taken_as_headers():
    schema = pa.schema([("payload", pa.string()), ("headers", pa.map_(pa.string(), pa.string()))])
    rows = [{"payload": "é", "headers": [("a", "ü")]}, {"payload": "", "headers": None}]
    made = Blocks(Layout(payload=0, headers=1), "t")
    (batch,) = pa.Table.from_pylist(rows, schema).to_batches()
    found = messages([*made.add(batch), *made.finish()])
    pair = ("a", "ü".encode())
    assert found == {"t": [("é".encode(), 0, 0, (pair,), None, None), (b"", 0, 0, (), None, None)]}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (row(topic=None), "has no topic"),
        (row("a/+/b"), "'a/+/b': wildcard"),
        (row(""), "empty"),
        (row(payload=None), "has no payload"),
        (
            row(payload=bytes(STAGED_BLOCK_BYTES_MAX)),
            f"has a payload of {STAGED_BLOCK_BYTES_MAX} bytes",
        ),
        (row(priority=8), "has priority 8"),
        (row(priority=-1), "has priority -1"),
        (row(content_type="yaml"), "has content type 'yaml'"),
        (row(timestamp=datetime(1969, 12, 31, tzinfo=UTC)), "has a timestamp before 1970"),
        (row(headers=[{"key": None, "value": b""}]), "has a header without a key"),
        (row(headers=[None]), "has a header without a key"),
        (row(headers=[{"key": "k", "value": b""}] * 65), "has too many headers"),
        (row(headers=[{"key": "k", "value": b""}] * 64, timestamp=NOW), "has too many headers"),
        (row(headers=[{"key": "k", "value": bytes(16 * 1024)}]), "has too many headers"),
    ],
)
def test_what_cannot_become_a_message_is_told_with_its_row(bad, says):
    fine = row(headers=[{"key": "k", "value": b"v"}])
    with pytest.raises(RowError) as caught:
        cut([*[fine] * 7, bad, fine], batch=4)
    assert str(caught.value).startswith("row 7 of this task ")
    assert says in str(caught.value)


def test_rows_are_counted_over_pieces(monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_BYTES", 1)
    with pytest.raises(RowError, match=r"^row 5 of"):
        cut([*[row()] * 5, row("#")], batch=2)
