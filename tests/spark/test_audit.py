"""An audit of archives with planted faults: each is found, and nothing else is."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.archived.snapshot import take
from penstock.spark.offsets import OffsetRange
from penstock.spark.pipelines import audit, compaction
from penstock.spark.pipelines.audit_report import Double, Forged
from penstock.trust.signatures import key_pair
from tests.spark.archives import Archive, row, rows
from tests.unit.spark.test_audit_report import signed

KEYS = {7: key_pair(b"s" * 32).public_key}


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Archive:
    return Archive(spark, tmp_path)


def test_a_whole_archive_passes_before_and_after_compaction(
    spark: SparkSession, made: Archive
) -> None:
    proved = [signed(offset, b"x", 1 + offset % 2) for offset in range(3)]
    made.put(rows(["a", "b/c"], 0, 5), [*rows(["a", "b/c"], 5, 9), *proved])
    # "a" was deleted and recreated: its offsets begin again
    made.put([row("a", offset, 100 + offset, incarnation=2) for offset in range(3)])
    made.run()
    made.mark(**{"a": (2, 3, 0), "b/c": (1, 9, 0), "t/ü": (1, 3, 0), "empty": (5, 4, 4)})
    for _ in range(2):
        report = audit.audit(spark, made.root, keys=KEYS)
        assert report.is_ok, report.faults()
        assert (report.rows, report.topics, report.incarnations) == (24, 3, 4)
        assert (report.signed, report.valid, report.unsigned) == (3, 3, 21)
        compaction.compact(spark, made.root, saved_min=1)
    outcome = audit.run(spark, path=str(made.root), subscribe="b/#")
    assert outcome.is_ok
    assert outcome.document["rows"] == 9
    assert outcome.text.startswith("PASSED")


def test_planted_faults_are_listed_and_told_losses_are_not(
    spark: SparkSession, made: Archive
) -> None:
    loss = {"topic": "a", "incarnation": 1, "begin": 5, "end": 7, "reason": "removed"}
    letter = audit.msgspec.json.encode(loss)
    made.put(
        [r for r in rows(["a"], 0, 10) if r["offset"] not in {2, 5, 6, 9}],
        [row("a", 4, 99), *rows(["b"], 0, 4)],
        [row("penstock/spark/loss", 0, 101, payload=letter)],
        [signed(0, b"x") | {"payload": b"y"}, signed(1, b"x"), row("t/ü", 2, 120)],
    )
    made.run()
    made.mark(
        **{
            "a": (1, 10, 0),
            "b": (1, 3, 0),
            "c": (1, 2, 0),
            "penstock/spark/loss": (1, 1, 0),
            "t/ü": (1, 3, 0),
        }
    )
    report = audit.audit(spark, made.root, keys=KEYS)
    assert report.holes == [
        OffsetRange("a", 1, 2, 3),
        OffsetRange("a", 1, 9, 10),
        OffsetRange("c", 1, 0, 2),
    ]
    assert report.lost == [OffsetRange("a", 1, 5, 7)]
    assert report.doubles == [Double("a", 1, 4, 2)]
    assert report.doubled == 1
    assert report.strays == [OffsetRange("b", 1, 3, 4)]
    assert report.forged == [Forged("t/ü", 0, 7, "invalid")]
    assert (report.signed, report.valid) == (2, 1)
    outcome = audit.run(spark, path=str(made.root), no_signatures=True)
    assert not outcome.is_ok
    assert "hole      a 2 to 2" in outcome.text
    assert "double    a 4, 2 times" in outcome.text


def test_files_cut_short_or_gone_are_named_and_their_rows_are_holes(
    spark: SparkSession, made: Archive
) -> None:
    made.put(*(rows(["a"], n, n + 2) for n in range(0, 8, 2)))
    made.run()
    made.mark(a=(1, 8, 0))
    parts = take(made.root).parts
    os.truncate(parts[1].path, parts[1].size - 1)
    Path(parts[3].path).unlink()
    report = audit.audit(spark, made.root, verify=False)
    assert [Path(text.split(":")[0]) for text in report.damaged] == [
        Path(parts[1].path),
        Path(parts[3].path),
    ]
    assert report.holes == [OffsetRange("a", 1, 2, 4), OffsetRange("a", 1, 6, 8)]
