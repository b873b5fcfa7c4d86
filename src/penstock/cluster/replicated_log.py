"""Between the broker and the log: batches go one way, their outcome comes back the other.

A broker collects commands into a batch and submits it (``ReplicatedLog.submit``). As the
``LogListener`` it hears the outcome of that batch, and of the batches of all other nodes, in the
order of the log. It does not know who leads, nor whether there are other nodes.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.errors import PenstockError
from penstock.store.batch import Batch
from penstock.store.store import Commit


class LogListener(Protocol):
    """Hears what is in the log. Called on the event loop, in order."""

    def committed(self, batch: Batch, commit: Commit) -> None: ...

    def foreign(self, batch: Batch, commit: Commit) -> None:
        """A batch of another node, or of an earlier incarnation, is in the log for good."""

    def refused(self, batch: Batch, error: PenstockError) -> None:
        """The batch was given up, and with it all that were submitted after it.

        After ``NoQuorum`` they may still turn up in the log, as foreign ones.
        """

    def made_room(self) -> None:
        """The log ``has_room`` again, although batches are in flight."""

    def when_readable(self, act: Callable[[], None]) -> None:
        """Call back once everything that was acknowledged so far can be read from the log."""


class ReplicatedLog(Protocol):
    """Where batches go."""

    @property
    def is_lone(self) -> bool:
        """Whether no other node gets what is written here."""

    @property
    def term(self) -> int:
        """The current term: what a leader decides is valid in no other (``Batch.term``)."""

    @property
    def has_room(self) -> bool:
        """Whether it takes another batch while earlier ones are in flight."""

    def begin(self, listener: LogListener) -> None:
        """Start, and report to this listener. Once, before the first batch."""

    def submit(self, batch: Batch) -> None:
        """Put a batch into the log, after those in flight; ``has_room`` tells if there may be any.

        Batches are committed in the order of submission; none is without the one before it. The
        listener may hear the outcome before this returns.
        """

    def run_on_writer(self, job: Callable[[], None]) -> None:
        """Run ``job`` on the writer thread, between two writes."""

    def close(self) -> None:
        """Finish what is being written, and take nothing more."""
