"""Checks that a checkpoint and a directory of Spark's file sink belong together.

The file sink skips a batch whose number is in its log, so a batch repeated after a crash counts
once. But it compares numbers only. With a new checkpoint batches start at 0 again, with a restored
one at an older number: all of them would be skipped, and their rows silently lost. So this is
checked before a query starts.
"""

from pathlib import Path

from penstock.errors import ConfigError
from penstock.spark.archived import sink_log


def last_planned_batch(checkpoint: Path) -> int:
    """Return the last batch that a checkpoint knows, done or not; -1 if none."""
    names = (path.name for path in (checkpoint / "offsets").glob("*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def check_ahead(directory: Path, checkpoint: Path) -> None:
    """Raise ``ConfigError`` if batches of this checkpoint would be skipped."""
    done, known = sink_log.last(directory), last_planned_batch(checkpoint)
    if done > known:
        raise ConfigError(
            f"{directory} has batches up to {done}, the checkpoint {checkpoint} only to {known}: "
            "it is lost or belongs to another query, and Spark would skip the next batches",
            "Restore the checkpoint, or write to another directory.",
        )


def check_lineage(directory: Path, checkpoint: Path) -> None:
    """Raise ``ConfigError`` unless directory and checkpoint are at the same batch."""
    check_ahead(directory, checkpoint)
    done, known = sink_log.last(directory), last_planned_batch(checkpoint)
    if done < known - 1:
        raise ConfigError(
            f"{directory} has batches up to {done}, but the checkpoint {checkpoint} is at {known}: "
            "rows that were written are missing",
            "Restore the directory, or start a new one with a new checkpoint.",
        )
