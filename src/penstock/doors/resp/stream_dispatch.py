"""A consumer of a stream at the dispatcher of its group, among the workers of other doors.

The dispatcher hands out by lease, and a consumer of a stream has no lease: an entry is its own by
name, also after a restart, until it acknowledges it. So what it is given has a lease for the
moment, and is claimed under the consumer's name before the client hears of it. (With NOACK it is
settled.) Should the client or the broker die in between, the lease runs out and the message comes
again.

A dispatcher serves by priority. The entries of one answer are in the order of their ids all the
same.
"""

from penstock.commit.completion import Callback
from penstock.core.commands import Claimed
from penstock.dispatch.dispatcher import Job
from penstock.doors.resp.stream_faults import StreamFault, not_stored
from penstock.doors.resp.stream_places import Found, Place
from penstock.doors.resp.stream_reading import encoded
from penstock.node.hub import Hub
from penstock.obs.reasons import DisconnectReason

ON_ITS_WAY_MS = 30_000
"""How long a message is nobody else's that is about to be claimed, or settled."""


class DispatchPlace:
    """A place in a line as a ``Worker``, which is given something once."""

    takes_turns = False
    settles = False
    visibility_ms = ON_ITS_WAY_MS

    def __init__(self, hub: Hub, topic: bytes, group: bytes, place: Place) -> None:
        self._hub = hub
        self._topic = topic
        self._group = group
        self._place = place
        self.consumer = b"stream#%d" % hub.connections.ids.next()

    def join(self) -> None:
        """Stand in the dispatcher's circle."""
        self._hub.dispatchers.join(self._topic, self._group, self)

    def rest(self) -> None:
        """Stand there no longer."""
        self._hub.dispatchers.rest(self._topic, self._group, self.consumer)

    def room(self) -> int:
        """As many as were asked for, once."""
        return self._place.count_max if self._place.is_free else 0

    def idle(self) -> None:
        """There is nothing: who does not wait leaves."""
        if self._place.is_free and not self._place.waits:
            self._place.answer(None)

    def limited(self, _retry_ms: int) -> None:
        """There is something, but not yet: nothing, for who does not wait."""
        self.idle()

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The disk refused to hand anything out."""
        self._place.fail(StreamFault(not_stored(reason.value)))

    def work(self, jobs: list[Job]) -> None:
        """Make messages the consumer's own, then answer with them."""
        self._place.reserve()
        entries = {job.message.offset: encoded(job.message) for job in jobs}
        if self._place.settle:
            leases = [job.lease for job in jobs]
            done = Callback(lambda _value: self._give(entries, [*entries]), self._refused)
            self._hub.dispatchers.settle_leases(self._topic, self._group, leases, done)
            return
        claimed = Callback(lambda value: self._give(entries, value), self._refused)
        self._hub.pipeline.submit(self._claim([*entries]), claimed, durable=True)

    def _claim(self, offsets: list[int]) -> Claimed:
        now_ms = self._hub.wall_ms()
        return Claimed(
            self._topic,
            self._group,
            self._place.consumer,
            offsets,
            min_idle_ms=0,
            now_ms=now_ms,
            taken_ms=now_ms,
            deliveries=None,
            counts=False,
            forces=False,
        )

    def _give(self, entries: dict[int, bytes], offsets: object) -> None:
        """Answer with those of the entries that are the consumer's; none if the group is gone."""
        if isinstance(offsets, list) and offsets:
            own = [entries[offset] for offset in sorted(offsets)]
            self._place.answer(Found(self._topic, own))
        self._place.release()

    def _refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The disk refused: the lease will run out, and the message come again."""
        self.refused(reason)
        self._place.release()
