"""Checks that a checkpoint and a directory of Spark's file sink belong together.

The file sink skips a batch whose number is in its log. With a new or restored checkpoint numbers
repeat: the batches would be skipped, and their rows silently lost.
"""

from pathlib import Path

from penstock.errors import ConfigError
from penstock.spark.archived import sink_log


def last_planned_batch(checkpoint: Path) -> int:
    names = (path.name for path in (checkpoint / "offsets").glob("*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def check_ahead(directory: Path, checkpoint: Path) -> None:
    done, known = sink_log.last(directory), last_planned_batch(checkpoint)
    if done > known:
        raise ConfigError(
            f"{directory} has batches up to {done}, the checkpoint {checkpoint} only to {known}: "
            "it is lost or belongs to another query, and Spark would skip the next batches",
            "Restore the checkpoint, or write to another directory.",
        )


def check_lineage(directory: Path, checkpoint: Path) -> None:
    check_ahead(directory, checkpoint)
    done, known = sink_log.last(directory), last_planned_batch(checkpoint)
    if done < known - 1:
        raise ConfigError(
            f"{directory} has batches up to {done}, but the checkpoint {checkpoint} is at {known}: "
            "rows that were written are missing",
            "Restore the directory, or start a new one with a new checkpoint.",
        )
