"""The connection as a worker: jobs of the queues that its client subscribed to.

A client **with a name** (a client id) must acknowledge its jobs. Until then they are leased to it,
``WINDOW`` at most, or as many as it asks for; a late acknowledgement, after the job went to another
worker, has no effect. For a client **without a name** a job is done when it is sent. A client that
gives itself a name while it works becomes another worker: its jobs go back, and it joins its queues
anew.

Settling jobs counts with the replies, so a PONG after an acknowledgement says that the job will not
come again.
"""

from typing import Protocol

from penstock.dispatch.dispatcher import LeasedMessage
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import OrderedReplies
from penstock.model.message import Message
from penstock.model.queue_names import WORKERS
from penstock.obs.reasons import DisconnectReason

UNSENT_LEASE_MS = 30_000  # lease of a job that is done when it is sent
WINDOW = 64  # jobs leased to one worker, unless it asks for another number
WINDOW_MAX = 1_024


class JobSink(Protocol):
    """Where the jobs go."""

    def is_full(self) -> bool: ...  # ``ask_for_jobs`` when that has changed
    def send_jobs(self, jobs: list[Message]) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class QueueWorker:
    """One client as dispatchers see it: the same ``GroupWorker`` in all its queues."""

    takes_turns = True

    __slots__ = (
        "_door",
        "_leases",
        "_must_acknowledge",
        "_number",
        "_replies",
        "_sink",
        "_window",
        "consumer",
        "queues",
    )

    def __init__(
        self, door: BinaryParts, sink: JobSink, replies: OrderedReplies, number: int
    ) -> None:
        self._door = door
        self._sink = sink
        self._replies = replies
        self._number = number
        self._must_acknowledge = False
        self._leases: dict[tuple[bytes, int], int] = {}  # by queue and offset
        self.queues: set[bytes] = set()
        self._window = WINDOW
        self.consumer = b"#%d" % self._number

    def join(self, topic: bytes) -> None:
        self._door.connections.counters.workers_connected += topic not in self.queues
        self.queues.add(topic)
        self._door.dispatchers.join(topic, WORKERS, self)

    def prefetch(self, count: int) -> None:
        """Lease so many jobs at most, in all queues together."""
        self._window = min(count, WINDOW_MAX)

    def leave(self, topic: bytes) -> None:
        self._door.connections.counters.workers_connected -= 1
        self.queues.discard(topic)
        self.forget(topic)
        self._door.dispatchers.leave(topic, WORKERS, self.consumer)

    def forget(self, topic: bytes) -> None:
        self._leases = {job: lease for job, lease in self._leases.items() if job[0] != topic}

    def leave_all(self) -> None:
        for topic in list(self.queues):
            self.leave(topic)

    def take_name(self, client_id: bytes) -> None:
        queues = list(self.queues)
        self.leave_all()
        self._must_acknowledge = True
        self.consumer = b"%b#%d" % (client_id, self._number)
        for topic in queues:
            self.join(topic)

    def drop_name(self) -> None:
        """Be a worker without a name again; it has left its queues before."""
        self._must_acknowledge = False
        self.consumer = b"#%d" % self._number
        self._leases = {}

    @property
    def visibility_ms(self) -> int:
        """With a name, a job is leased until the worker leaves."""
        return 0 if self._must_acknowledge else UNSENT_LEASE_MS

    @property
    def settles(self) -> bool:
        return not self._must_acknowledge

    def room(self) -> int:
        return 0 if self._sink.is_full() else self._window - len(self._leases)

    def ask_for_jobs(self) -> None:
        for topic in self.queues:
            self._door.dispatchers.dispatch(topic, WORKERS)

    def work(self, jobs: list[LeasedMessage]) -> None:
        messages = [job.message for job in jobs]
        self._sink.send_jobs(messages)
        if self._must_acknowledge:
            self._leases.update(((j.message.topic, j.message.offset), j.lease) for j in jobs)

    def idle(self) -> None:
        pass

    def limited(self, _retry_ms: int) -> None:
        pass

    def finish(self, topic: bytes, ranges: list[tuple[int, int]]) -> None:
        leases = [
            self._leases.pop((topic, offset))
            for start, end in ranges
            for offset in range(start, end)
            if (topic, offset) in self._leases
        ]
        if leases:
            self._replies.await_acknowledgement()
            self._door.dispatchers.leases.settle(topic, WORKERS, leases, self)
            self.ask_for_jobs()

    def done(self, _value: object) -> None:
        self._replies.acknowledged()

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._sink.close(reason, detail)
