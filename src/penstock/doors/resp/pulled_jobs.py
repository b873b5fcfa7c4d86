"""Jobs that one connection has pulled WITHACK and must acknowledge."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.commit.completion import Callback
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.dispatch.dispatchers import Dispatchers
from penstock.obs.reasons import DisconnectReason


class JobSource(NamedTuple):
    """What is pulled from."""

    topic: bytes
    group: bytes


class PulledJob(NamedTuple):
    """A job with a client, known by its lease: offsets begin anew if the topic is deleted."""

    sequence: int
    source: JobSource
    lease: int
    consumer: bytes


class PulledJobs:
    """The jobs of the connection with this number."""

    def __init__(self, dispatchers: Dispatchers, number: int) -> None:
        self._dispatchers = dispatchers
        self._number = number
        self._pulls = 0
        self._jobs: dict[int, list[PulledJob]] = {}  # by sequence; one for each group of a client
        self._left: dict[tuple[JobSource, bytes], int] = {}  # per PULL, those not settled on disk

    def next_name(self) -> bytes:
        self._pulls += 1
        return b"pull#%d#%d" % (self._pulls, self._number)

    def keep(self, source: JobSource, consumer: bytes, jobs: list[LeasedMessage]) -> None:
        self._left[source, consumer] = len(jobs)
        self._hold([PulledJob(job.message.sequence, source, job.lease, consumer) for job in jobs])

    def _hold(self, jobs: list[PulledJob]) -> None:
        for job in jobs:
            self._jobs.setdefault(job.sequence, []).append(job)

    def take(self, sequences: Iterable[int]) -> dict[JobSource, list[PulledJob]]:
        jobs_of: dict[JobSource, list[PulledJob]] = {}
        for sequence in sequences:
            for job in self._jobs.pop(sequence, ()):
                jobs_of.setdefault(job.source, []).append(job)
        return jobs_of

    def hold(self, jobs_of: dict[JobSource, list[PulledJob]]) -> None:
        """Undo ``take``."""
        for jobs in jobs_of.values():
            self._hold(jobs)

    def settle(
        self,
        source: JobSource,
        jobs: list[PulledJob],
        ended: Callable[[DisconnectReason | None], None],
    ) -> None:
        def done(_value: object) -> None:
            self._settled(jobs)
            ended(None)

        def refused(reason: DisconnectReason, _detail: str) -> None:
            self._hold(jobs)
            ended(reason)

        leases = [job.lease for job in jobs]
        self._dispatchers.leases.settle(*source, leases, Callback(done, refused))

    def _settled(self, jobs: list[PulledJob]) -> None:
        """On disk: a PULL whose jobs are all settled leaves its group."""
        for job in jobs:
            pull = (job.source, job.consumer)
            if pull in self._left:  # else the connection has ended
                self._left[pull] -= 1
                if not self._left[pull]:
                    del self._left[pull]
                    self._dispatchers.leave(*job.source, job.consumer)

    def return_all(self) -> None:
        for source, consumer in self._left:
            self._dispatchers.leave(*source, consumer)
        self._left = {}
