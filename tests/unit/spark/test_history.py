"""Archive and broker as one table: each offset from one of them, or lost."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq
from tests.spark.archives import ARROW, BEGIN, row

from penstock.errors import StorageDamaged
from penstock.spark import history
from penstock.spark.archived.layout import topic_key
from penstock.spark.archived.snapshot import ArchivedTopic
from penstock.spark.archived.snapshot import ArchiveFile as FilePart
from penstock.spark.history import (
    ArchivedRange,
    FilesPartition,
    divide,
    files_partitions,
    merged,
    rows_of,
)
from penstock.spark.options import source_options
from penstock.spark.planning import TopicState

OPTIONS = source_options({"servers": "127.0.0.1:1", "subscribe": "#", "archive": "/a"})
SCHEMA = pa.schema([("offset", pa.int64()), ("topic", pa.string())])

offsets = st.integers(0, 12)
spans = st.tuples(offsets, offsets).map(sorted).map(tuple)


@given(spans, spans, st.none() | spans)
def test_every_offset_comes_from_one_place_or_is_lost(
    asked: tuple[int, int], live: tuple[int, int], stored: tuple[int, int] | None
) -> None:
    begin, end = asked[0], min(asked[1], live[1])
    archived = None if stored is None else ArchivedTopic(1, *stored)
    divided = divide(ArchivedRange("t", 1, begin, end), TopicState(1, *live), archived)

    def bits(span: tuple[int, ...]) -> list[int]:
        return list(range(span[0], span[1]))

    files = bits(divided.stored[2:4]) if divided.stored else []
    broker = [offset for one in divided.live for offset in bits(one[2:4])]
    lost = [offset for loss in divided.losses for offset in bits(loss[2:4])]
    assert sorted(files + broker + lost) == bits((begin, end))
    is_cut_back = stored is not None and live[1] < stored[1]
    kept = set(bits(stored or (0, 0))) - (set(range(live[0], 99)) if is_cut_back else set())
    assert set(files) == kept & set(bits((begin, end)))
    assert set(broker) == set(bits(live)) & set(bits((begin, end))) - kept


def test_a_topic_gone_from_the_broker_ends_where_the_archive_does() -> None:
    both = merged({}, {"t": ArchivedTopic(3, 2, 9)})
    assert both == {"t": (TopicState(3, 9, 9), ArchivedTopic(3, 2, 9))}


def test_another_incarnation_in_the_archive_is_not_mixed_in() -> None:
    both = merged({"t": TopicState(4, 0, 5)}, {"t": ArchivedTopic(3, 2, 9)})
    assert both == {"t": (TopicState(4, 0, 5), None)}


# ── Files


def write(path: Path, rows: list[dict[str, object]], group: int = 100) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, ARROW), path, row_group_size=group)
    return str(path)


def read(paths: list[str], *wanted: ArchivedRange) -> list[tuple[str, int]]:
    batches = rows_of(OPTIONS, FilesPartition(paths, wanted), SCHEMA)
    return [(r["topic"], r["offset"]) for batch in batches for r in batch.to_pylist()]


def test_only_the_wanted_rows_of_a_file_are_read(tmp_path: Path) -> None:
    rows = [row("a", n, n) for n in range(6)] + [row("b", n, 10 + n) for n in range(6)]
    rows += [row("a", n, 20 + n, incarnation=2) for n in range(6)] + [row("c", 1, 30)]
    path = write(tmp_path / "f", rows)
    found = read([path], ArchivedRange("a", 1, 2, 4), ArchivedRange("b", 1, 5, 99))
    assert found == [("a", 2), ("a", 3), ("b", 5)]


def test_times_limit_what_is_read_to_the_millisecond(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [row("a", n, n) for n in range(6)])
    begin_ms = int(BEGIN.timestamp() * 1000)
    assert read([path], ArchivedRange("a", 1, 0, 6, begin_ms + 1001, begin_ms + 4000)) == [
        ("a", 2),
        ("a", 3),
    ]


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        (ArchivedRange("a", 1, 4, 5), [1]),
        (ArchivedRange("b", 1, 0, 9), []),
        (ArchivedRange("a", 1, 0, 9), [0, 1, 2]),
        (ArchivedRange("a", 1, 0, 9, int(BEGIN.timestamp() * 1000) + 6000), [2]),
        (ArchivedRange("a", 1, 0, 9, None, int(BEGIN.timestamp() * 1000) + 3000), [0]),
    ],
)
def test_row_groups_without_wanted_rows_are_not_read(
    tmp_path: Path, wanted: ArchivedRange, groups: list[int]
) -> None:
    path = write(tmp_path / "f", [row("a", n, n) for n in range(9)], group=3)
    with pq.ParquetFile(path) as file:
        found = [n for n in range(3) if history._may_have(file, n, {wanted.topic: wanted})]
    assert found == groups


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, damage: str) -> None:
    path = Path(write(tmp_path / "f", [row("a", 0, 0)]))
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(StorageDamaged, match=str(path)):
        read([str(path)], ArchivedRange("a", 1, 0, 1))


def test_files_are_dealt_by_size_with_the_ranges_they_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "PART_BYTES", 10)
    a, b = (f"/r/topic_key={topic_key(t)}/date=2026-01-0" for t in "ab")
    files = [FilePart(f"{a}1/f", 6), FilePart(f"{a}2/f", 6), FilePart(f"{b}2/f", 4)]
    wanted = [ArchivedRange("a", 1, 0, 9), ArchivedRange("b", 1, 0, 9)]
    dealt = files_partitions(files, wanted)
    assert [(part.paths, part.wanted) for part in dealt] == [
        ((f"{a}1/f",), (wanted[0],)),
        ((f"{a}2/f", f"{b}2/f"), (wanted[0], wanted[1])),
    ]
    assert files_partitions(files, []) == []
    since = int(datetime(2026, 1, 2, tzinfo=UTC).timestamp() * 1000)
    late = files_partitions(files, [wanted[0]._replace(since_ms=since)])
    assert [part.paths for part in late] == [(f"{a}2/f",)]
