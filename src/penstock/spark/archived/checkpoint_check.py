"""Whether a checkpoint and a directory of the file sink belong together.

Spark's file sink passes over a batch whose number its log has already: that is how a batch which is
repeated after a kill counts once. But it goes by the number alone. A query with a new checkpoint
counts from 0 again, and one whose checkpoint was restored from a copy counts from there: all of
their batches would be passed over, up to the number in the log, and their rows would be nowhere,
without a word. So it is looked at before a query starts.
"""

from pathlib import Path

from penstock.errors import ConfigError
from penstock.spark.archived import sink_log


def last_planned_batch(checkpoint: Path) -> int:
    """Return the last batch that a checkpoint knows, done or not; -1 if it knows none."""
    names = (path.name for path in (checkpoint / "offsets").glob("*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def check_ahead(directory: Path, checkpoint: Path) -> None:
    """Raise ConfigError if batches of this checkpoint would be passed over."""
    done, known = sink_log.last(directory), last_planned_batch(checkpoint)
    if done > known:
        raise ConfigError(
            f"{directory} has batches up to {done}, the checkpoint {checkpoint} up to {known}: it "
            "is lost, or of another query, and the next batches would be taken for done",
            "Restore the checkpoint, or write to another directory.",
        )


def check_lineage(directory: Path, checkpoint: Path) -> None:
    """Raise ConfigError if one of both is not where the other has come to."""
    check_ahead(directory, checkpoint)
    done, known = sink_log.last(directory), last_planned_batch(checkpoint)
    if done < known - 1:
        raise ConfigError(
            f"{directory} has batches up to {done}, but the checkpoint {checkpoint} is at {known}: "
            "rows that were written once are not there",
            "Restore the directory, or begin another one with a checkpoint of its own.",
        )
