"""Whether the disk is swift enough for the event loop to wait for a commit itself.

To hand a commit to the writer thread and its outcome back takes two wake-ups and two changes of the
interpreter's lock. So a small commit is made on the loop itself, as long as commits are known to be
short: where nothing else is going on there is no hand-off at all. Nobody waits much longer for
that. Those who need the disk would wait for this commit anyway; the others wait a fraction of the
time that the loop may work on one client's input.

What counts is the average: every disk takes a few milliseconds now and then, and so does a thread
that has to wait for a core. A disk can also become slow at any moment. The loop waits for it once:
after a commit that took really long, a series of others is needed, made by the writer thread, and
twice as many after the next surprise. Large batches always go to the thread, since the loop can
read and parse meanwhile.
"""

from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.store.batch import Batch
from penstock.store.store import Commit

SHORT_S = 0.001  # the loop does not wait for commits that take longer on average
WEIGHT = 1 / 16  # of the last commit in the average
LONG_S = 0.005  # a commit that takes as long is a surprise
SERIES_MIN = 32  # commits without a surprise after which the disk may be taken to be swift
SERIES_MAX = 8_192
MESSAGES_MAX = 32
BYTES_MAX = 16 * KIB
ROWS_MAX = 64  # of a checkpoint


class Swiftness:
    """Observes commits, and decides about the next. One thread at a time."""

    def __init__(self) -> None:
        self._series = 0  # commits without a surprise
        self._needed = SERIES_MIN
        self._mean_s = 0.0

    def allows(self, batch: Batch) -> bool:
        """Whether the loop may wait for the commit of ``batch``."""
        return (
            self._series >= self._needed
            and self._mean_s < SHORT_S
            and batch.count <= MESSAGES_MAX
            and batch.payload_bytes <= BYTES_MAX
            and len(batch.rows) <= ROWS_MAX
            and not batch.drops
        )

    def note(self, outcome: Commit | StorageError, *, is_here: bool = False) -> None:
        """A commit has ended; ``is_here``: the loop waited for it.

        One that flushed nothing says nothing about the disk.
        """
        if isinstance(outcome, Commit) and outcome.fsync_s > 0 and outcome.commit_s < LONG_S:
            self._mean_s += WEIGHT * (outcome.commit_s - self._mean_s)
            self._series += 1
            if self._series > 2 * self._needed:
                self._needed = SERIES_MIN
            return
        self._series = 0
        if is_here:
            self._needed = min(2 * self._needed, SERIES_MAX)
