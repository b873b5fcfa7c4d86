"""Columns of answers as Arrow: the same rows as the slow way gives, one by one."""

import struct
from array import array

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from tests.unit.spark.readers import scanned

from penstock.client.errors import BrokerProtocolError
from penstock.model.message import Signature
from penstock.spark.columns import (
    BATCH_ROWS_MAX,
    LAST_MS,
    MAKERS,
    FetchedColumns,
    ScannedRows,
    ScannedTopics,
    batches,
    strings,
)
from penstock.spark.schema import COLUMNS, struct_of
from penstock.store.extras import pack_headers, pack_schedule, pack_signatures
from penstock.store.producers import pack_producer_runs
from penstock.wire.queue._generated.queue_pb2 import Fetched, Slice

TYPES = ("raw", "text", "json", "msgpack")
SCHEMA = to_arrow_schema(struct_of(COLUMNS), timezone="UTC")

texts = st.binary(max_size=6)
signatures = st.builds(
    Signature,
    st.integers(1, 2),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=64, max_size=64),
    st.integers(0, 2**63 - 1),
    st.binary(max_size=8),
)
times_ms = st.integers(0, 2**64 - 1)  # 0: never
messages = st.fixed_dictionaries(
    {
        "payload": texts,
        "headers": st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
        "signature": st.none() | signatures,
        "schedule": st.none() | st.tuples(times_ms, times_ms),
    }
)
runs = st.fixed_dictionaries(
    {
        "messages": st.lists(messages, min_size=1, max_size=4),
        "position": st.integers(0, 2**32 - 1),
        "time": st.integers(0, 2**32 - 1),
        "priority": st.integers(0, 7),
        "type": st.integers(0, 3),
    }
)
slices = st.fixed_dictionaries(
    {
        "runs": st.lists(runs, min_size=1, max_size=4),
        "offset": st.integers(0, 2**40),
        "sequence": st.integers(1, 2**40),
        "time": st.integers(0, 2**40),
        "shift": st.integers(0, 2**20),
        "notes": st.lists(
            st.tuples(st.integers(0, 2), st.integers(1, 3), texts, st.integers(0, 2**62)),
            max_size=4,
        ),
    }
)


def u32(numbers) -> bytes:
    return array("I", numbers).tobytes()


def cumulated(lengths, shift: int = 0) -> bytes:
    bounds = [shift]
    for length in lengths:
        bounds.append(bounds[-1] + length)
    return u32(bounds)


def notes_of(model, count: int) -> list[tuple[int, int, bytes, int]]:
    """Notes with gaps between them, none beyond the slice."""
    notes, place = [], 0
    for gap, length, name, seq in model["notes"]:
        place += gap
        if place + length <= count:
            notes.append((place, length, name, seq))
        place += length
    return notes


def slice_of(model) -> Slice:
    rows = [message for run in model["runs"] for message in run["messages"]]
    starts = [0]
    for run in model["runs"]:
        starts.append(starts[-1] + len(run["messages"]))
    sent = Slice(
        first_offset=model["offset"],
        count=len(rows),
        base_sequence=model["sequence"],
        time_ms=model["time"],
        bounds=cumulated([len(row["payload"]) for row in rows], model["shift"]),
        payloads=b"".join(row["payload"] for row in rows),
        run_starts=u32(starts[:-1]),
        run_positions=u32(run["position"] for run in model["runs"]),
        run_times=u32(run["time"] for run in model["runs"]),
        run_flags=bytes(run["priority"] << 4 | 0b101 for run in model["runs"]),
        run_types=bytes(run["type"] for run in model["runs"]),
    )
    if not any(run["type"] for run in model["runs"]):
        sent.run_types = b""
    _add_sparse(sent, model, rows)
    return sent


def _add_sparse(sent: Slice, model, rows) -> None:
    headers = [(number, row["headers"]) for number, row in enumerate(rows) if row["headers"]]
    if headers:
        (
            sent.header_numbers,
            sent.header_bounds,
            sent.header_text_bounds,
            sent.header_texts,
        ) = pack_headers(headers)
    signed = [(number, row["signature"]) for number, row in enumerate(rows) if row["signature"]]
    if signed:
        sent.signature_numbers, sent.signatures = pack_signatures(signed)
    times = [(number, row["schedule"]) for number, row in enumerate(rows) if row["schedule"]]
    if times:
        sent.schedule_numbers, sent.schedule_due, sent.schedule_expiry = pack_schedule(times)
    notes = notes_of(model, len(rows))
    if notes:
        (
            sent.producer_numbers,
            sent.producer_counts,
            sent.producer_seqs,
            sent.producer_name_ends,
            sent.producer_names,
        ) = pack_producer_runs(notes)


def rows_of(model):
    """The slow way."""
    number = 0
    for run in model["runs"]:
        for place, message in enumerate(run["messages"]):
            signature = message["signature"]
            producer, seq = producer_of(model, number)
            yield {
                "topic": "t/ü",
                "offset": model["offset"] + number,
                "sequence": model["sequence"] + run["position"] + place,
                "timestamp": (model["time"] + run["time"]) * 1000,
                "payload": message["payload"],
                "content_type": TYPES[run["type"]],
                "priority": run["priority"],
                "producer": producer,
                "producer_seq": seq,
                "signer": signature and signature.key_id,
                "signature_verdict": "verified" if signature else None,
                "headers": [
                    {"key": key.decode(errors="replace"), "value": value}
                    for key, value in message["headers"]
                ]
                or None,
                "expires": expiry_of(message["schedule"]),
                "signature": signature
                and {
                    "version": signature.version,
                    "key_id": signature.key_id,
                    "signature": signature.signature,
                    "signed_ms": signature.signed_ms,
                    "nonce": signature.nonce,
                },
                "incarnation": 5,
            }
            number += 1


def expiry_of(schedule: tuple[int, int] | None) -> int | None:
    return min(schedule[1], LAST_MS) * 1000 if schedule and schedule[1] else None


def producer_of(model, number: int):
    count = sum(len(run["messages"]) for run in model["runs"])
    for first, length, name, seq in notes_of(model, count):
        if first <= number < first + length:
            return name.decode(errors="replace"), seq + number - first
    return None, None


def converted(fetched: Fetched, names=tuple(COLUMNS)) -> list[dict]:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    found = []
    for batch in batches(FetchedColumns(scanned([("t/ü", fetched.slices)]), 1_000_000), schema):
        batch.validate(full=True)
        table = pa.table(batch)
        for name in {"timestamp", "expires"} & set(names):
            place = names.index(name)
            table = table.set_column(place, name, batch.column(place).cast(pa.int64()))
        found += table.to_pylist()
    return found


@settings(max_examples=150)
@given(st.lists(slices, min_size=1, max_size=5))
def test_every_column_is_what_the_slow_way_gives(models):
    fetched = Fetched(incarnation=5, slices=[slice_of(model) for model in models])
    assert converted(fetched) == [row for model in models for row in rows_of(model)]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(slices, max_size=2)), min_size=1))
def test_answers_of_several_topics_are_taken_together(sent):
    parts = [
        part
        for topic, models in sent
        for part in scanned([(topic, [slice_of(model) for model in models])], ord(topic))
    ]
    names = ("topic", "incarnation", "offset")
    schema = pa.schema([SCHEMA.field(name) for name in names])
    found = [
        row for batch in batches(FetchedColumns(parts, 1000), schema) for row in batch.to_pylist()
    ]
    assert found == [
        {"topic": topic, "incarnation": ord(topic), "offset": row["offset"]}
        for topic, models in sent
        for model in models
        for row in rows_of(model)
    ]


def test_a_slice_has_messages_of_several_topics():
    first = plain(
        4,
        group_topics=u32([2, 0, 2]),
        group_starts=u32([0, 1, 3]),
        group_offsets=struct.pack("<3Q", 7, 5, 9),
    )
    second = plain(1, group_topics=u32([1]), group_starts=u32([0]), group_offsets=bytes(8))
    topics = ScannedTopics(strings(["a", "b", "c"]), np.array([10, 11, 12]))
    other = ScannedTopics(strings(["a", "x"]), np.array([10, 13]))
    answer = FetchedColumns([ScannedRows(topics, [first]), ScannedRows(other, [second])], 9)
    assert answer.topics().to_pylist() == ["c", "a", "a", "c", "x"]
    assert answer.offsets().to_pylist() == [7, 5, 6, 9, 0]
    assert answer.incarnations().to_pylist() == [12, 10, 10, 12, 13]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_made_without_the_others(name):
    model = {
        "runs": [{"messages": [{"payload": b"x", "headers": (), "signature": None, "schedule": None}] * 3, "position": 0, "time": 0, "priority": 1, "type": 0}],
        "offset": 7,
        "sequence": 9,
        "time": 1,
        "shift": 0,
        "notes": [],
    }  # fmt: skip
    fetched = Fetched(incarnation=5, slices=[slice_of(model)] * 2)
    if COLUMNS[name].needs != 1:
        for sent in fetched.slices:
            sent.ClearField("payloads")
            sent.ClearField("bounds")
    expected = [{name: row[name]} for row in rows_of(model)] * 2
    assert converted(fetched, (name,)) == expected


def test_columns_that_can_be_made_are_those_of_the_schema():
    assert list(MAKERS) == list(COLUMNS)


def plain(count: int, **changes) -> Slice:
    fields = {
        "count": count,
        "bounds": u32(range(count + 1)),
        "payloads": bytes(count),
        "run_starts": u32([0]),
        "run_positions": u32([0]),
        "run_times": u32([0]),
        "run_flags": b"\0",
    }
    return Slice(**{**fields, **changes})


def test_a_large_answer_is_several_batches():
    rows = 2 * BATCH_ROWS_MAX + 5
    schema = pa.schema([SCHEMA.field("offset"), SCHEMA.field("payload")])
    found = list(batches(FetchedColumns(scanned([("t", [plain(rows)])]), rows), schema))
    assert [batch.num_rows for batch in found] == [BATCH_ROWS_MAX, BATCH_ROWS_MAX, 5]
    assert pa.Table.from_batches(found)["offset"].to_pylist() == list(range(rows))


def test_payloads_of_one_slice_are_not_copied():
    column = FetchedColumns(scanned([("t", [plain(100)])]), 100).payloads()
    whole = FetchedColumns(scanned([("t", [plain(100)])]), 100)
    assert column.buffers()[2].size == 100
    assert whole.offsets().buffers()[0] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"bounds": u32(range(3))},
        {"bounds": u32([0, 1, 2, 3, 9])},
        {"bounds": u32([0, 3, 1, 3, 4])},
        {"payloads": b"123"},
        {"run_starts": u32([1])},
        {"run_starts": u32([0, 3, 2]), "run_flags": b"\0\0\0"},
        {"run_flags": b"\0\0"},
        {"group_topics": u32([1]), "group_starts": u32([0]), "group_offsets": bytes(8)},
        {"group_topics": u32([0]), "group_starts": u32([1]), "group_offsets": bytes(8)},
        {"group_topics": u32([0, 0]), "group_starts": u32([0, 9]), "group_offsets": bytes(16)},
        {"group_topics": u32([0, 0]), "group_starts": u32([0]), "group_offsets": bytes(8)},
        {"group_topics": u32([0]), "group_starts": u32([0]), "group_offsets": bytes(16)},
        {"run_types": b"\1\1"},
        {"header_numbers": u32([4]), "header_bounds": u32([0, 0]), "header_text_bounds": u32([0])},
        {"header_numbers": u32([1]), "header_bounds": u32([0])},
        {"header_numbers": u32([1]), "header_bounds": u32([0, 1]), "header_text_bounds": u32([0, 9, 10]), "header_texts": b"ab"},
        {"header_numbers": u32([1]), "header_bounds": u32([0, 2]), "header_text_bounds": u32([0, 1, 2]), "header_texts": b"ab"},
        {"signature_numbers": u32([2, 1]), "signatures": bytes(176)},
        {"signature_numbers": u32([1]), "signatures": bytes(87)},
        {"producer_numbers": u32([0]), "producer_counts": u32([1])},
        {"producer_numbers": u32([0]), "producer_counts": u32([1]), "producer_seqs": bytes(8)},
        {"producer_numbers": u32([0]), "producer_counts": u32([1]), "producer_seqs": bytes(8), "producer_name_ends": u32([5]), "producer_names": b"x"},
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused_before_arrow_reads_beyond_them(changes):
    fetched = Fetched(incarnation=5, slices=[plain(4, **changes)])
    with pytest.raises(BrokerProtocolError, match="inconsistent columns"):
        converted(fetched)


def test_a_count_that_nobody_asked_for_is_refused_before_anything_is_allocated():
    with pytest.raises(BrokerProtocolError, match="4000000000 rows in 1 answers"):
        FetchedColumns(scanned([("t", [Slice(count=4_000_000_000)])]), 65_536)


def test_a_producer_that_covers_more_than_the_slice_is_cut():
    sent = plain(
        3,
        producer_numbers=u32([1]),
        producer_counts=u32([100]),
        producer_seqs=struct.pack("<Q", 7),
        producer_name_ends=u32([1]),
        producer_names=b"p",
    )
    answer = FetchedColumns(scanned([("t", [sent, plain(2)])]), 5)
    assert answer.producers().to_pylist()[:3] == [None, "p", "p"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((b"pump", b"pump"), ["pump"] * 4),
        ((b"pump", b"pond"), ["pump"] * 2 + ["pond"] * 2),
        ((b"pump", b"pumps"), ["pump"] * 2 + ["pumps"] * 2),
        ((b"", b""), [""] * 4),
        ((b"\xff", b"\xff"), ["\ufffd"] * 4),
    ],
)
def test_rows_say_which_producer_numbered_them_whether_there_is_one_or_another(names, expected):
    sent = [
        plain(
            2,
            producer_numbers=u32([0]),
            producer_counts=u32([2]),
            producer_seqs=bytes(8),
            producer_name_ends=u32([len(name)]),
            producer_names=name,
        )
        for name in names
    ]
    assert FetchedColumns(scanned([("t", sent)]), 4).producers().to_pylist() == expected


def test_an_empty_answer_is_no_batch():
    assert converted(Fetched(incarnation=5)) == []
