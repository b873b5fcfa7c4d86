"""The manifest: each row counts once, at every step and with concurrent writers."""

import threading
from datetime import date
from pathlib import Path

import msgspec
import pytest

from penstock.errors import ConfigError, StorageDamaged
from penstock.spark.archived import layout, sink_log, snapshot
from penstock.spark.archived import manifest as manifests
from penstock.spark.archived.manifest import (
    ArchiveSegment,
    CompactedFile,
    Manifest,
    ManifestConflict,
)
from penstock.spark.archived.sink_log import SinkLog, SinkLogEntry
from penstock.spark.archived.snapshot import ArchivedTopic, ArchiveFile


def log_of(*names: str) -> SinkLog:
    return SinkLog(len(names) - 1, tuple(SinkLogEntry(name, 1) for name in names))


def write_log(root: Path, segment: str, *names: str) -> None:
    """As Spark would: a batch for each file."""
    log = root / "live" / segment / sink_log.DIRECTORY
    log.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        path = f"file://{root}/live/{segment}/{name}"
        text = msgspec.json.encode({"path": path, "size": 1, "action": "add"}).decode()
        (log / str(number)).write_text(f"v1\n{text}")


def names(root: Path) -> list[str]:
    return [part.path.removeprefix(f"{root}/") for part in snapshot.take(root).parts]


FIRST = Manifest(0, "topic,date", "checkpoint")
MADE = (CompactedFile("compacted/x/f", 9, 3),)


def conclude(
    newest: Manifest, taken: Manifest, *, merged: frozenset[str] = frozenset(), **logs: SinkLog
) -> Manifest:
    named = {name.removeprefix("s"): log for name, log in logs.items()}
    return manifests.compacted(newest, taken, logs=named, merged=merged, made=MADE, at_ms=100)


def test_an_archive_is_the_log_beyond_the_mark_and_what_compaction_made(tmp_path: Path) -> None:
    write_log(tmp_path, "0", "a", "b")
    first = manifests.create(tmp_path, "topic,date", "checkpoint")
    assert names(tmp_path) == ["live/0/a", "live/0/b"]
    manifests.publish(tmp_path, conclude(first, first, s0=log_of("a", "b")))
    assert names(tmp_path) == ["compacted/x/f"]
    write_log(tmp_path, "0", "a", "b", "c")
    assert names(tmp_path) == ["compacted/x/f", "live/0/c"]


def test_a_batch_that_comes_during_compaction_stays_live() -> None:
    done = conclude(FIRST, FIRST, s0=log_of("a", "b"))
    assert done.segments == (ArchiveSegment("0", 2, "b"),)
    assert done.retired[0].paths == ("live/0/a", "live/0/b")


def test_the_second_of_two_compactions_changes_nothing() -> None:
    faster = conclude(FIRST, FIRST, s0=log_of("a", "b"))
    with pytest.raises(ManifestConflict):
        conclude(faster, FIRST, s0=log_of("a", "b"))


def test_a_compaction_that_merged_files_is_overtaken_by_one_that_did_too() -> None:
    old = msgspec.structs.replace(FIRST, files=(CompactedFile("compacted/o/f", 1, 1),))
    faster = conclude(old, old, merged=frozenset({"compacted/o/f"}))
    assert [file.path for file in faster.files] == ["compacted/x/f"]
    with pytest.raises(ManifestConflict):
        conclude(faster, old, merged=frozenset({"compacted/o/f"}))


def test_a_segment_rotated_away_during_compaction_keeps_its_last_batch() -> None:
    rotated = manifests.rotated(FIRST, FIRST.current)
    done = conclude(rotated, FIRST, s0=log_of("a", "b"))  # "c" may have come before the rotation
    assert [segment.name for segment in done.segments] == ["0", "1"]
    assert "live/0" not in done.retired[0].paths
    later = conclude(done, done, s0=log_of("a", "b", "c"), s1=log_of("d"))
    assert later.segments == (ArchiveSegment("1", 1, "d"),)
    assert later.retired[1].paths == ("live/0/c", "live/1/d", "live/0")


def test_only_one_of_two_queries_begins_a_segment() -> None:
    rotated = manifests.rotated(FIRST, FIRST.current)
    with pytest.raises(ManifestConflict):
        manifests.rotated(rotated, FIRST.current)


def test_a_log_that_is_not_the_one_compacted_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, "0", "a", "b")
    first = manifests.create(tmp_path, "topic,date", "checkpoint")
    manifests.publish(tmp_path, conclude(first, first, s0=log_of("a", "b")))
    write_log(tmp_path, "0", "a", "other", "c")
    with pytest.raises(StorageDamaged, match="not the log"):
        snapshot.take(tmp_path)


def test_a_log_shorter_than_what_was_compacted_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, "0", "a")
    first = manifests.create(tmp_path, "topic,date", "checkpoint")
    manifests.publish(tmp_path, conclude(first, first, s0=log_of("a", "b")))
    with pytest.raises(StorageDamaged, match="not the log"):
        snapshot.take(tmp_path)


def test_what_is_retired_is_deleted_only_after_its_time() -> None:
    done = conclude(FIRST, FIRST, s0=log_of("a"))
    assert manifests.vacuumed(done, 100)[0] == ()
    paths, rest = manifests.vacuumed(done, 101)
    assert paths == ("live/0/a",)
    assert rest.retired == ()
    assert rest.number == done.number + 1


def test_of_many_who_publish_the_same_number_one_succeeds(tmp_path: Path) -> None:
    outcomes: list[bool] = []

    def publish(who: int) -> None:
        try:
            manifests.publish(tmp_path, Manifest(1, "date", str(who)))
            outcomes.append(True)
        except ManifestConflict:
            outcomes.append(False)

    threads = [threading.Thread(target=publish, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]
    assert sorted(p.name for p in (tmp_path / "manifest").iterdir()) == ["0000000001.json"]


def test_old_manifests_go_and_the_newest_counts(tmp_path: Path) -> None:
    for number in range(40):
        manifests.publish(tmp_path, Manifest(number, "date", "checkpoint"))
    assert manifests.load(tmp_path).number == 39
    assert len(list((tmp_path / "manifest").iterdir())) == 16


def test_a_directory_without_a_manifest_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not an archive"):
        manifests.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["{", '{"number": 0, "partitioning": "date", "checkpoint": "c", "version": 9}']
)
def test_a_manifest_that_can_not_be_understood_is_refused(tmp_path: Path, text: str) -> None:
    manifests.create(tmp_path, "date", "checkpoint")
    (tmp_path / "manifest" / "0000000000.json").write_text(text)
    with pytest.raises(StorageDamaged):
        manifests.load(tmp_path)


# ── Positions, and which files to read


def test_the_position_is_that_of_the_last_batch_in_the_log(tmp_path: Path) -> None:
    write_log(tmp_path, "0", "a", "b")
    manifests.create(tmp_path, "date", "checkpoint")
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for batch, end in enumerate((10, 20, 30)):
        (offsets / str(batch)).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{{"v":1,"plan":{{}},"topics":{{"t":[7,{end},2]}}}}'
        )
    assert snapshot.position(snapshot.take(tmp_path)) == {"t": ArchivedTopic(7, 2, 20)}


def test_an_archive_without_batches_has_no_position(tmp_path: Path) -> None:
    manifests.create(tmp_path, "date", "checkpoint")
    assert snapshot.position(snapshot.take(tmp_path)) == {}


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, "0", "a")
    manifests.create(tmp_path, "date", "checkpoint")
    with pytest.raises(StorageDamaged, match="lacks batch 0"):
        snapshot.position(snapshot.take(tmp_path))
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text('v1\n{}\n{"logOffset":3}')
    with pytest.raises(StorageDamaged, match="does not end with offsets"):
        snapshot.position(snapshot.take(tmp_path))


def test_files_are_left_out_by_their_directories_only() -> None:
    key = layout.topic_key("a/b")
    mine = ArchiveFile(f"/r/live/0/topic_key={key}/date=2026-01-02/f", 1)
    other = ArchiveFile("/r/live/0/topic_key=c-00000000/date=2026-01-02/f", 1)
    plain = ArchiveFile("/r/compacted/x/date=2026-01-03/f", 1)
    parts = [mine, other, plain]
    assert snapshot.chosen(parts, ["a/b"]) == [mine, plain]
    assert snapshot.chosen(parts, since=date(2026, 1, 3)) == [plain]
    assert snapshot.chosen(parts, until=date(2026, 1, 2)) == [mine, other]
    assert snapshot.chosen(parts) == parts


def test_keys_of_topics_are_short_plain_and_distinct() -> None:
    topics = [
        "a/b",
        "a_b",
        "a=b",
        "ü/ß",
        "x" * 1024,
        "x" * 1023,
        "007",
        "A/b",
        "",
        "\U0001f600" * 9,
    ]
    keys = [layout.topic_key(topic) for topic in topics]
    assert len({key.lower() for key in keys}) == len(topics)
    assert all(key.isascii() and len(key) <= 89 and not set(key) & set("/=%*?") for key in keys)


@pytest.mark.parametrize("path", ["s3://bucket/a", "/data/a*", "/data/[a]"])
def test_a_path_that_can_not_be_an_archive_is_refused(path: str) -> None:
    with pytest.raises(ConfigError):
        layout.root_of(path)
