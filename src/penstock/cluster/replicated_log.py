"""Between the broker and the log: a batch goes one way, what became of batches comes the other.

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
    """Who is told what is in the log. Called on the event loop, in order."""

    def committed(self, batch: Batch, commit: Commit) -> None:
        """The batch that was handed over is in the log for good, at this place."""

    def foreign(self, batch: Batch, commit: Commit) -> None:
        """A batch of another node, or of an earlier incarnation, is in the log for good."""

    def refused(self, batch: Batch, error: PenstockError) -> None:
        """The batch that was handed over was given up.

        After ``NoQuorum`` it may turn up in the log all the same, as a foreign one: those who wait
        were told that nothing is known of it.
        """

    def when_readable(self, act: Callable[[], None]) -> None:
        """Call back once everything that was acknowledged so far is in the log, and can be read.

        A broker alone may acknowledge before that.
        """


class ReplicatedLog(Protocol):
    """Where batches go."""

    @property
    def is_lone(self) -> bool:
        """Whether no other node gets what is written here."""

    @property
    def term(self) -> int:
        """The term of now: what a leader decides counts in no other (``Batch.term``)."""

    def begin(self, line: LogListener) -> None:
        """Tell this one from now on. Once, before anything is handed over."""

    def submit(self, batch: Batch) -> None:
        """Put a batch into the log. The next one only after this one was answered."""

    def run_on_writer(self, job: Callable[[], None]) -> None:
        """Run ``job`` in the thread that writes, between two writes."""

    def close(self) -> None:
        """Finish what is being written, and take nothing more."""
