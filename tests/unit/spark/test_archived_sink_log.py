"""The log of the file sink: one growing list, whatever files it is cut into."""

import json
import re
from pathlib import Path

import pytest

from penstock.errors import StorageDamaged
from penstock.spark.archived import sink_log
from penstock.spark.archived.sink_log import EMPTY, SinkLogEntry


def line(path: str, action: str = "add") -> str:
    return json.dumps({"path": path, "size": 7, "isDir": False, "action": action, "blockSize": 1})


def put(sink: Path, name: str, *files: str, uri: str = "file:///data/a/live/0/") -> None:
    log = sink / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_text("\n".join(["v1", *(line(uri + file) for file in files)]))


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    return tmp_path / "live" / "0"


def paths(sink: Path) -> list[str]:
    return [entry.path for entry in sink_log.read(sink).entries]


def test_nothing_written_is_an_empty_list(sink: Path) -> None:
    assert sink_log.read(sink) == EMPTY


def test_batches_come_in_the_order_of_their_numbers_not_of_their_names(sink: Path) -> None:
    for number in range(9):
        put(sink, str(number), f"f{number}")
    put(sink, "9.compact", *(f"f{number}" for number in range(10)))
    put(sink, "10", "f10")
    assert paths(sink) == [f"f{number}" for number in range(11)]
    assert sink_log.read(sink).batch == 10


def test_what_a_compact_file_has_is_not_counted_again_from_the_older_ones(sink: Path) -> None:
    put(sink, "8", "f8")
    put(sink, "9.compact", "f0", "f8", "f9")
    put(sink, "19.compact", "f0", "f8", "f9", "f19")
    put(sink, "18", "f18")
    assert paths(sink) == ["f0", "f8", "f9", "f19"]


def test_drafts_and_checksums_beside_the_log_are_passed_over(sink: Path) -> None:
    put(sink, "0", "f0")
    put(sink, ".1.4ad3.tmp", "draft")
    put(sink, ".0.crc", "checksum")
    assert paths(sink) == ["f0"]


def test_paths_are_decoded_once_and_begin_below_the_directory(sink: Path) -> None:
    put(sink, "0", "k=a%2520b/d%C3%BC%20x.parquet", uri="file:/else/where/live/0/live/0/")
    assert paths(sink) == ["k=a%20b/dü x.parquet"]
    assert sink_log.read(sink).entries[0] == SinkLogEntry("k=a%20b/dü x.parquet", 7)


def test_a_batch_that_is_missing_is_damage_not_an_end(sink: Path) -> None:
    put(sink, "0", "f0")
    put(sink, "2", "f2")
    with pytest.raises(StorageDamaged, match=re.escape("lacks batches [1]")):
        sink_log.read(sink)


@pytest.mark.parametrize("text", ["v2\n{}", "", "v1\n{", 'v1\n{"path": 5}'])
def test_a_log_of_another_form_is_refused(sink: Path, text: str) -> None:
    put(sink, "0")
    (sink / "_spark_metadata" / "0").write_text(text)
    with pytest.raises(StorageDamaged):
        sink_log.read(sink)


def test_an_entry_that_is_not_an_addition_is_refused(sink: Path) -> None:
    put(sink, "0")
    (sink / "_spark_metadata" / "0").write_text("v1\n" + line("file:///a/live/0/f", "delete"))
    with pytest.raises(StorageDamaged, match="unknown action 'delete'"):
        sink_log.read(sink)


def test_a_file_of_another_directory_is_refused(sink: Path) -> None:
    put(sink, "0", "f0", uri="file:///data/a/live/1/")
    with pytest.raises(StorageDamaged, match="another directory"):
        sink_log.read(sink)


@pytest.mark.parametrize("batch", [-1, 0, 8, 9, 10, 19, 24, 1234])
def test_a_seeded_log_is_empty_and_has_every_batch_done(sink: Path, batch: int) -> None:
    sink_log.seed(sink, batch)
    assert sink_log.read(sink) == sink_log.SinkLog(batch, ())
    later = batch + 1
    put(sink, str(later), "fresh")
    assert paths(sink) == ["fresh"]


def test_a_seeded_log_tells_spark_the_interval_of_its_compactions(sink: Path) -> None:
    """It takes the distance of the last two, and with one alone it would guess another."""
    sink_log.seed(sink, 24)
    names = sorted(path.name for path in (sink / "_spark_metadata").glob("*.compact"))
    assert names == ["19.compact", "9.compact"]
