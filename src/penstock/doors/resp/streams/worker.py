"""A consumer of a stream as a worker of its group's dispatcher, among the workers of other doors.

The dispatcher hands out leases, but a consumer of a stream has none: an entry is its own by name
until it is acknowledged. So what it gets is leased for a moment, and claimed under the consumer's
name before the reply, or with NOACK settled. If the client or the broker dies in between, the lease
runs out. A dispatcher serves by priority; the entries of one reply are in the order of their ids.
"""

from penstock.clock import Clock
from penstock.commit.completion import Callback
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import Claimed
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.dispatch.dispatchers import Dispatchers
from penstock.doors.resp.faults import CommandError, not_stored
from penstock.doors.resp.streams.encoding import encoded
from penstock.doors.resp.streams.waiting_consumer import NewEntries, WaitingConsumer
from penstock.net.connection_ids import ConnectionIds
from penstock.obs.reasons import DisconnectReason

ON_ITS_WAY_MS = 30_000  # the lease of a message that is about to be claimed or settled


class StreamWorker:
    """A waiting consumer as a ``GroupWorker`` of a dispatcher, which is given something once."""

    takes_turns = False
    settles = False
    visibility_ms = ON_ITS_WAY_MS

    def __init__(
        self,
        group: tuple[bytes, bytes],
        waiting: WaitingConsumer,
        *,
        dispatchers: Dispatchers,
        pipeline: Pipeline,
        clock: Clock,
        ids: ConnectionIds,
    ) -> None:
        self._topic, self._group = group
        self._waiting = waiting
        self._dispatchers = dispatchers
        self._pipeline = pipeline
        self._clock = clock
        self.consumer = b"stream#%d" % ids.next()

    def join(self) -> None:
        self._dispatchers.join(self._topic, self._group, self)

    def rest(self) -> None:
        self._dispatchers.rest(self._topic, self._group, self.consumer)

    def room(self) -> int:
        return self._waiting.count_max if self._waiting.is_free else 0

    def idle(self) -> None:
        if self._waiting.is_free and not self._waiting.waits:
            self._waiting.answer(None)

    def limited(self, _retry_ms: int) -> None:
        self.idle()

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        self._waiting.fail(CommandError(not_stored(reason.value)))

    def work(self, jobs: list[LeasedMessage]) -> None:
        self._waiting.reserve()
        entries = {job.message.offset: encoded(job.message) for job in jobs}
        if self._waiting.settle:
            leases = [job.lease for job in jobs]
            done = Callback(lambda _value: self._give(entries, [*entries]), self._refused)
            self._dispatchers.leases.settle(self._topic, self._group, leases, done)
            return
        claimed = Callback(lambda value: self._give(entries, value), self._refused)
        self._pipeline.submit(self._claim([*entries]), claimed, durable=True)

    def _claim(self, offsets: list[int]) -> Claimed:
        now_ms = self._clock.wall_ms()
        return Claimed(
            self._topic,
            self._group,
            self._waiting.consumer,
            offsets,
            min_idle_ms=0,
            now_ms=now_ms,
            taken_ms=now_ms,
            deliveries=None,
            counts=False,
            forces=False,
        )

    def _give(self, entries: dict[int, bytes], offsets: object) -> None:
        if isinstance(offsets, list) and offsets:
            own = [entries[offset] for offset in sorted(offsets)]
            self._waiting.answer(NewEntries(self._topic, own))
        self._waiting.release()

    def _refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The lease will run out, and the message be redelivered."""
        self.refused(reason)
        self._waiting.release()
