"""Compaction of an archive: readers see each row once, whatever happens when."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from penstock.errors import ConfigError, StorageDamaged
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.layout import topic_key
from penstock.spark.archived.manifest import ManifestConflict
from penstock.spark.archived.snapshot import take
from penstock.spark.pipelines import archive, compaction
from tests.spark.archives import BEGIN, Archive, expected, rows

TOPICS = ["plant/1", "a=b/ü ✓", "007"]


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Archive:
    return Archive(spark, tmp_path)


def test_rows_come_back_exact_and_prunable_whatever_the_topic_is_called(
    spark: SparkSession, made: Archive
) -> None:
    names = [*TOPICS, "x{y}[z]*?%2F", "sp ace\\'\"", "long/" * 200]
    made.put(rows(names, 0, 4))
    made.run()
    assert made.found() == expected(names, 0, 4)
    one = archive.read(spark, made.root, topics=["007"], since=BEGIN + timedelta(seconds=5))
    assert {r["topic"] for r in one.collect()} == {"007"}
    assert {str(r["date"]) for r in one.collect()} == {"2026-01-01", "2026-01-02"}
    assert all(topic_key("007") in path for path in one.inputFiles())
    assert archive.read(spark, made.root, until=BEGIN).count() == 0


def test_each_step_of_a_compaction_may_be_the_last(spark: SparkSession, made: Archive) -> None:
    made.put(*(rows(TOPICS, n, n + 1) for n in range(4)))
    made.run()
    work = compaction.plan(take(made.root), saved_min=1)
    assert work is not None
    assert made.found() == expected(TOPICS, 0, 4)

    files = compaction.rewrite(spark, work)  # killed after this: nothing has changed
    assert made.found() == expected(TOPICS, 0, 4)
    assert compaction.sweep(made.root) == 1
    files = compaction.rewrite(spark, work)
    begun = archive.read(spark, made.root)

    made.put(rows(TOPICS, 4, 5))
    made.run()  # the archive goes on meanwhile
    compaction.conclude(work, files, at_ms=1000)  # killed after this: all has
    assert made.found() == expected(TOPICS, 0, 5)
    assert len(take(made.root).parts) < len(work.parts)
    assert compaction.sweep(made.root) == 0
    with pytest.raises(ManifestConflict):
        compaction.conclude(work, files, at_ms=1000)

    assert compaction.vacuum(made.root, 1000) == 0
    assert begun.count() == 12  # a reader that began before is not disturbed
    assert compaction.vacuum(made.root, 1001) == len(work.parts)
    assert not any(Path(part.path).exists() for part in work.parts)
    assert made.found() == expected(TOPICS, 0, 5)
    made.put(rows(TOPICS, 5, 6))
    made.run()  # nor is the query, whose log names files that are gone
    assert made.found() == expected(TOPICS, 0, 6)


def test_segments_follow_each_other_and_the_old_one_goes(
    spark: SparkSession, made: Archive
) -> None:
    ends = [3, 12, 22]  # batches: the log of Spark is compacted at 9 and 19
    begin = 0
    for end in ends:
        made.put(*(rows(TOPICS[:1], n, n + 1) for n in range(begin, end)))
        made.run(entries_max=2)
        begin = end
    assert [segment.name for segment in manifests.load(made.root).segments] == ["0", "1", "2"]
    assert made.found() == expected(TOPICS[:1], 0, 22)
    figures = compaction.compact(spark, made.root, grace_s=0)
    assert figures["rows"] == 22
    assert figures["files_after"] == figures["made"] == 2  # two days
    assert [segment.name for segment in manifests.load(made.root).segments] == ["2"]
    made.put(rows(TOPICS[:1], 22, 23))
    made.run()
    again = compaction.compact(spark, made.root, grace_s=-1, saved_min=1)
    assert (again["taken"], again["made"], again["deleted"]) == (2, 1, 24)
    assert not (made.root / "live" / "0").exists()
    assert made.found() == expected(TOPICS[:1], 0, 23)
    assert compaction.compact(spark, made.root)["taken"] == 0


def test_an_archive_divided_by_day_alone_is_compacted_too(
    spark: SparkSession, made: Archive
) -> None:
    made.put(*(rows(TOPICS, n, n + 1) for n in range(5)))
    made.run(partition_by="date")
    assert compaction.compact(spark, made.root, saved_min=1)["made"] == 2
    assert made.found() == expected(TOPICS, 0, 5)
    with pytest.raises(ConfigError, match="partitioned by 'date'"):
        made.run()


def test_a_file_that_was_cut_short_stops_compaction_and_changes_nothing(
    spark: SparkSession, made: Archive
) -> None:
    made.put(*(rows(TOPICS[:1], n, n + 1) for n in range(3)))
    made.run()
    victim = Path(take(made.root).parts[1].path)
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    before = manifests.load(made.root)
    with pytest.raises(StorageDamaged, match=victim.name):
        compaction.compact(spark, made.root, saved_min=1)
    assert manifests.load(made.root) == before


def test_rows_lost_in_rewriting_are_noticed(spark: SparkSession, made: Archive) -> None:
    made.put(*(rows(TOPICS[:1], n, n + 2) for n in range(0, 4, 2)))
    made.run()
    work = compaction.plan(take(made.root), saved_min=1)
    assert work is not None
    files = compaction.rewrite(spark, work)
    path = made.root / files[0].path
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(StorageDamaged, match="4 rows were read, but 3 written"):
        compaction._checked(made.root, made.root / "compacted" / files[0].path.split("/")[1], 4)


class Query:
    """As much of a query as is looked at."""

    isActive = True  # noqa: N815 - Spark's name


def test_a_job_compacts_beside_its_batches_and_outlives_a_failure(
    spark: SparkSession, made: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    made.put(*(rows(TOPICS[:1], n, n + 1) for n in range(12)))
    made.run()
    victim = Path(take(made.root).parts[1].path)
    aside = victim.rename(made.root / "aside")
    query = Query()
    thread = compaction.compact_periodically(spark, made.root, query, every_s=0.1)
    try:
        until(lambda: "could not compact" in caplog.text)
        aside.rename(victim)
        until(lambda: take(made.root).manifest.files)
    finally:
        query.isActive = False
        thread.join(60)
    assert made.found() == expected(TOPICS[:1], 0, 12)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
