"""The verdict of an audit: figures in, faults out."""

import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.archives import ARROW, row

from penstock.errors import ConfigError
from penstock.spark.offsets import OffsetRange
from penstock.spark.pipelines import audit
from penstock.spark.pipelines.audit_report import (
    AuditReport,
    Counted,
    Double,
    Forged,
    missing,
    suspects,
    text_of,
    without,
)
from penstock.trust.signatures import key_pair, sign_1, sign_2

KEY = ("t", 1)


def counted(rows: int, distinct: int, lowest: int, highest: int) -> Counted:
    return Counted(*KEY, rows, distinct, lowest, highest)


@pytest.mark.parametrize(
    ("figures", "is_suspect"),
    [
        ((10, 10, 0, 9), False),
        ((10, 9, 0, 9), True),  # one double, one hole: rows alone would not tell
        ((9, 9, 0, 9), True),
        ((11, 10, 0, 9), True),
        ((10, 10, 1, 10), True),  # moved by one
        ((9, 9, 0, 8), True),
    ],
)
def test_only_exactly_once_is_above_suspicion(
    figures: tuple[int, int, int, int], is_suspect: bool
) -> None:
    assert bool(suspects([counted(*figures)], {KEY: (0, 10)})) is is_suspect


def test_a_topic_without_any_row_is_suspect_unless_nothing_was_archived_of_it() -> None:
    assert suspects([], {KEY: (0, 10)}) == {KEY}
    assert suspects([], {KEY: (7, 7)}) == set()


offsets = st.integers(0, 30)
ranges = st.tuples(offsets, offsets).map(sorted).map(tuple)


@given(st.sets(offsets), ranges)
def test_what_is_missing_is_what_is_not_there(present: set[int], expected: tuple[int, int]) -> None:
    begin, end = expected
    ordered = sorted(present)
    gaps = [(a + 1, b) for a, b in pairwise(ordered) if b > a + 1]
    seen = counted(len(present), len(present), ordered[0], ordered[-1]) if present else None
    holes = missing(OffsetRange(*KEY, begin, end), gaps, seen)
    listed = [offset for hole in holes for offset in range(hole.begin, hole.end)]
    assert listed == sorted(set(range(begin, end)) - present)


@given(st.lists(ranges), st.lists(ranges))
def test_taking_ranges_away_divides_without_loss(
    spans: list[tuple[int, int]], taken: list[tuple[int, int]]
) -> None:
    def bits(found: list[OffsetRange]) -> list[int]:
        return sorted(offset for span in found for offset in range(span.begin, span.end))

    others = [OffsetRange(*KEY, *each) for each in taken]
    whole = [OffsetRange(*KEY, *each) for each in spans]
    rest, gone = without(whole, [*others, OffsetRange("u", 1, 0, 30), OffsetRange("t", 2, 0, 30)])
    covered = set(bits(others))
    assert bits(rest) == [offset for offset in bits(whole) if offset not in covered]
    assert bits(gone) == [offset for offset in bits(whole) if offset in covered]


@pytest.mark.parametrize(
    "fault",
    [
        {"holes": [OffsetRange(*KEY, 3, 5)]},
        {"doubled": 1, "doubles": [Double(*KEY, 3, 2)]},
        {"strays": [OffsetRange(*KEY, 10, 11)]},
        {"damaged": ["f: cut"]},
        {"ahead": [OffsetRange(*KEY, 3, 5)]},
        {"is_listed": False},
        {"is_void": True},
        {"signed": 2, "valid": 1, "forged": [Forged("t", 3, 7, "invalid")]},
    ],
)
def test_each_fault_alone_fails_the_audit_and_is_shown(fault: dict[str, object]) -> None:
    report = AuditReport(what="archive a", **fault)
    assert not report.is_ok
    assert text_of(report).startswith("FAILED: archive a: ")


def test_names_from_strangers_do_not_steer_the_terminal() -> None:
    hole, key = OffsetRange("t\x1b[2J", 1, 3, 5), ("t\x1b[2J", 1)
    report = AuditReport(what="a", holes=[hole], doubles=[Double(*key, 3, 2)])
    report.forged = [Forged(key[0], 3, 7, "invalid")]
    assert "\x1b" not in text_of(report)
    assert text_of(report).count(r"t\x1b[2J") == 3


def test_what_is_explained_is_no_fault() -> None:
    spans = [OffsetRange(*KEY, 3, 5)]
    report = AuditReport(
        what="archive a", rows=8, lost=spans, deleted=spans, waiting=9, signed=1, valid=1
    )
    assert report.is_ok
    assert text_of(report).startswith("PASSED: archive a: every offset is there exactly once and")


# ── Signatures, as tasks verify them


def judged(batch: pa.RecordBatch, keys: dict[int, bytes]) -> list[tuple[object, ...]]:
    (out,) = audit.judge_signatures(keys)(iter([batch]))
    return [tuple(line.values()) for line in out.to_pylist() if line["number"]]


def signed(offset: int, payload: bytes, version: int = 2, topic: str = "t/ü") -> dict[str, object]:
    seed, name = b"s" * 32, topic.encode()
    more = {"signed_ms": 5, "nonce": offset.to_bytes(8, "big")}
    made = (
        sign_2(seed, 7, name, payload, **more) if version == 2 else sign_1(seed, 7, name, payload)
    )
    proof = {name: getattr(made, name) for name in made.__struct_fields__}
    return row(topic, offset, offset, payload=payload, signature=proof)


def test_signatures_are_verified_one_by_one_and_told_apart() -> None:
    rows = [signed(0, b"a"), signed(1, b"", 1), signed(2, b"c"), signed(3, b"d"), signed(4, b"e")]
    rows[2]["payload"] = b"C"
    rows[3]["topic"] = "t/u"
    rows[4]["signature"]["key_id"] = 8
    batch = pa.RecordBatch.from_pylist(rows, ARROW)
    assert judged(batch, {7: key_pair(b"s" * 32).public_key}) == [
        ("invalid", 1, "t/ü", 2, 7),
        ("invalid", 1, "t/u", 3, 7),
        ("unknown_key", 1, "t/ü", 4, 8),
        ("valid", 2, None, None, None),
    ]


def test_bad_signatures_beyond_the_bound_are_just_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FORGED_MAX", 2)
    batch = pa.RecordBatch.from_pylist([signed(n, b"a") for n in range(5)], ARROW)
    assert [line[1] for line in judged(batch, {})] == [1, 1, 3]


def test_keys_come_from_a_file_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{"id": 7, "public_key": "ab" * 32, "device": "d"}]))
    assert audit.keys_from(path) == {7: b"\xab" * 32}
    path.write_text("{}]")
    with pytest.raises(ConfigError, match="penstock keys list"):
        audit.keys_from(path)
