"""A directory and a checkpoint: what Spark would pass over in silence is refused before."""

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.spark.archived import checkpoint_check
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.streams import Output, to_both


def batches(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text("v1")
    return directory


def both(path: Path, done: tuple[str, ...], noted: tuple[str, ...]) -> tuple[Path, Path]:
    batches(path / "d" / "_spark_metadata", *done)
    batches(path / "c" / "offsets", *noted)
    return path / "d", path / "c"


@pytest.mark.parametrize(
    ("done", "noted"),
    [
        ((), ()),
        ((), ("0",)),
        (("0",), ("0",)),
        (("9.compact", "10", ".11.tmp"), ("9", "10", "11", ".12.tmp")),
    ],
)
def test_a_batch_that_was_noted_and_not_done_yet_is_the_only_difference(tmp_path, done, noted):
    checkpoint_check.check_lineage(*both(tmp_path, done, noted))


def test_a_checkpoint_that_is_behind_or_gone_is_refused(tmp_path):
    directory, checkpoint = both(tmp_path, ("9.compact", "10"), ("8", "9"))
    with pytest.raises(ConfigError, match="would skip the next batches"):
        checkpoint_check.check_ahead(directory, checkpoint)
    with pytest.raises(ConfigError, match=r"up to 10, the checkpoint .* only to -1"):
        checkpoint_check.check_ahead(directory, tmp_path / "lost")


def test_a_directory_that_is_behind_is_refused_for_an_archive(tmp_path):
    directory, checkpoint = both(tmp_path, ("0",), ("0", "1", "2"))
    checkpoint_check.check_ahead(directory, checkpoint)
    with pytest.raises(ConfigError, match="are missing"):
        checkpoint_check.check_lineage(directory, checkpoint)


def test_an_archive_without_its_checkpoint_is_not_written_to(tmp_path):
    archive.prepare(tmp_path)
    batches(tmp_path / "live" / "0" / "_spark_metadata", "0", "1")
    with pytest.raises(ConfigError, match="Restore the checkpoint"):
        archive.prepare(tmp_path)
    batches(tmp_path / "checkpoint" / "offsets", "1")
    archive.prepare(tmp_path)


def test_another_place_for_the_checkpoint_does_not_depend_on_where_one_stands(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    made = archive.prepare(tmp_path / "a", checkpoint="here")
    assert made.checkpoint == str(tmp_path / "here")


def test_windows_are_not_written_to_a_directory_that_has_other_batches(tmp_path):
    batches(tmp_path / "p" / "_spark_metadata", "0")
    output = Output("rollup", "", "rollup", str(tmp_path / "p"), str(tmp_path / "c"), "1m")
    with pytest.raises(ConfigError, match="would skip the next batches"):
        to_both(None, output)
