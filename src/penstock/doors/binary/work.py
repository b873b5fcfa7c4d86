"""The connection as a worker: jobs of the queues that its client subscribed to.

``dispatch.dispatcher`` deals; here is what one worker has in hand. A client **with a name** (a
client id) must acknowledge its jobs. Until then they are in hand, and there is a window: with that
many it is given no more. An acknowledgement counts only for jobs in hand; one that comes late,
after the queue was left and the job went to somebody else, must not take it from them. A client
**without a name** acknowledges nothing: for it a job is done when it leaves, and only a full outbox
stops it.

A client that gives itself a name while it works becomes another worker: it leaves its queues, what
it had goes back, and it joins them anew.

That a job is done is a command like any other. This object waits for it (``outcome``), and counts
with the replies, so that a PONG after an acknowledgement says that the job will not come again.
"""

from typing import Protocol

from penstock.dispatch.dispatcher import Job
from penstock.dispatch.queue_names import WORKERS
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import Replies
from penstock.model.message import Message
from penstock.obs.reasons import DisconnectReason

ON_ITS_WAY_MS = 30_000
"""How long a job is nobody else's that is about to be sent, and done with that."""

WINDOW = 64
"""Jobs a worker may have in hand."""


class Recipient(Protocol):
    """Where the jobs go."""

    def is_full(self) -> bool:
        """Whether nothing more should be sent for now; ``ask_for_jobs`` when that has changed."""
        ...

    def send_jobs(self, jobs: list[Message]) -> None:
        """Send jobs."""
        ...

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused, or failed."""
        ...


class QueueWorker:
    """One client as a dispatcher sees it: a ``Worker``, the same one in all its queues."""

    takes_turns = True

    __slots__ = (
        "_door",
        "_jobs",
        "_must_acknowledge",
        "_number",
        "_recipient",
        "_replies",
        "consumer",
        "queues",
    )

    def __init__(
        self, door: BinaryParts, recipient: Recipient, replies: Replies, number: int
    ) -> None:
        self._door = door
        self._recipient = recipient
        self._replies = replies
        self._number = number
        self._must_acknowledge = False
        self._jobs: dict[tuple[bytes, int], int] = {}
        """Jobs in hand: queue and offset, and the lease under which each is."""
        self.queues: set[bytes] = set()
        """Those it has joined."""
        self.consumer = b"#%d" % self._number

    # ── coming and going ──────────────────────────────────────────────────────────────────────

    def join(self, topic: bytes) -> None:
        """Work for a queue; once more is as good as once."""
        self._door.connections.counters.workers_connected += topic not in self.queues
        self.queues.add(topic)
        self._door.dispatchers.join(topic, WORKERS, self)

    def leave(self, topic: bytes) -> None:
        """Work for a queue no longer; jobs in hand go to others."""
        self._door.connections.counters.workers_connected -= 1
        self.queues.discard(topic)
        self.forget(topic)
        self._door.dispatchers.leave(topic, WORKERS, self.consumer)

    def forget(self, topic: bytes) -> None:
        """Jobs of a queue are in hand no longer."""
        self._jobs = {job: lease for job, lease in self._jobs.items() if job[0] != topic}

    def leave_all(self) -> None:
        """Work no longer."""
        for topic in list(self.queues):
            self.leave(topic)

    def take_name(self, client_id: bytes) -> None:
        """Work under a name from now on, as another worker."""
        queues = list(self.queues)
        self.leave_all()
        self._must_acknowledge = True
        self.consumer = b"%b#%d" % (client_id, self._number)
        for topic in queues:
            self.join(topic)

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────

    @property
    def visibility_ms(self) -> int:
        """A job is its own until it leaves; without a name, while it is on its way."""
        return 0 if self._must_acknowledge else ON_ITS_WAY_MS

    @property
    def settles(self) -> bool:
        """Without a name a job is done when it leaves."""
        return not self._must_acknowledge

    def room(self) -> int:
        """How many jobs may come now."""
        return 0 if self._recipient.is_full() else WINDOW - len(self._jobs)

    def ask_for_jobs(self) -> None:
        """There may be room again, for jobs of any queue."""
        for topic in self.queues:
            self._door.dispatchers.deal(topic, WORKERS)

    def work(self, jobs: list[Job]) -> None:
        """Send jobs."""
        messages = [job.message for job in jobs]
        self._recipient.send_jobs(messages)
        if self._must_acknowledge:
            self._jobs.update(((j.message.topic, j.message.offset), j.lease) for j in jobs)

    def idle(self) -> None:
        """There are no jobs: wait."""

    def limited(self, _retry_ms: int) -> None:
        """There will be some, in time."""

    def finish(self, topic: bytes, ranges: list[tuple[int, int]]) -> None:
        """Offsets of a queue were acknowledged: the jobs among them that are in hand are done."""
        leases = [
            self._jobs.pop((topic, offset))
            for start, end in ranges
            for offset in range(start, end)
            if (topic, offset) in self._jobs
        ]
        if leases:
            self._replies.await_acknowledgement()
            self._door.dispatchers.settle_leases(topic, WORKERS, leases, self)
            self.ask_for_jobs()

    def done(self, _value: object) -> None:
        """It is stored that jobs are done."""
        self._replies.acknowledged()

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused what it was to be given, or that it is done with it."""
        self._recipient.close(reason, detail)
