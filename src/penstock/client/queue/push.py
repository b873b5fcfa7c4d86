"""A subscription's side of a push connection, over as many of them as it takes; no socket here.

The broker pushes messages ahead of what is acknowledged, up to ``prefetch``, and answers nothing
that is said on such a connection. Acknowledgements therefore gather, and leave together.

**In hand over a lost connection.** The broker gives back what a push connection held when it ends,
and hands it out again, perhaps to us and while the handler still has it. Such a repetition is not
given to a handler a second time; it only brings the lease under which the job is then acknowledged.
It is told by offset *and* content, for a topic that was deleted and made anew counts from 0 again.

**Over a broker's crash** leases live on, if nobody could give them back. So what handlers have done
meanwhile is told on the next connection, under the leases that the jobs came with. What was told on
the last one may be lost, too: nothing says that the broker had it on its disk. But it hands out no
more than ``prefetch`` beyond what was settled, and writes that down in order, so only the last
results can be missing. Those are told again; where they were known, the leases are over, and
nothing happens. If the job has come to somebody else by then it is done twice, as with every queue.

**A quiet topic, or a dead broker?** A ping goes before the subscription. A broker that answers it
goes on answering pings on the push connection, and is left if it stops to (``heartbeat``); one that
refuses it is asked no more.
"""

from collections import defaultdict, deque
from typing import TypeAlias

from penstock.client.errors import BadRequestError, BrokerProtocolError, ClientError
from penstock.client.queue import requests
from penstock.client.queue.heartbeat import PUSH_PACE, Heartbeat, ping
from penstock.client.queue.session import ResponseReader, refusal
from penstock.client.queue.sockets import broker_silent
from penstock.client.queue.values import Job
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Error, Request, Response

REASON_LENGTH_MAX = 1_000
"""Characters of an exception's text that go along with a nack."""

PING_NUMBER = 1
"""The request id of all pings: nothing else on such a connection has one."""

_Result: TypeAlias = tuple[int, str | None]
"""A lease, and why the job under it failed; None if it is done."""


class PushSession:
    """See the module."""

    def __init__(self, subscribe: Request) -> None:
        self._subscribe = encode.request(subscribe)
        self.topic = subscribe.subscribe.topic
        self.group = subscribe.subscribe.group
        self.settles = subscribe.subscribe.ack_mode == "manual"
        """Whether a job must be acknowledged; else it is done when it was handed out."""
        self.visibility_s = subscribe.subscribe.visibility_timeout_ms / 1000
        self._reader = ResponseReader()
        self._farewell: ClientError | None = None
        self._begins = False
        self._heartbeat = Heartbeat(PUSH_PACE)
        self._ping = b""
        """A ping that is to be sent."""
        self._is_first_ping_due = False
        """Whether the answer that tells whether the broker knows pings is yet to come."""
        self._in_hand: dict[int, Job] = {}
        """By offset: what a handler has, with the lease it has now."""
        self._results: list[_Result] = []
        """What waits to be sent."""
        self._told: deque[_Result] = deque(maxlen=2 * subscribe.subscribe.prefetch)
        """What was sent last; twice as much as can be in hand, for that may be told twice."""

    @property
    def unsent(self) -> int:
        """How many results wait to be sent."""
        return len(self._results)

    def connected(self, now: float) -> None:
        """Begin on a fresh connection."""
        self._reader = ResponseReader()
        self._farewell = None
        self._begins = self._is_first_ping_due = True
        self._heartbeat.is_known = True  # the first ping is answered in any case
        self._heartbeat.heard(now)
        self._heartbeat.asked(now)
        self._results[:0] = self._told
        self._told.clear()

    def tick(self, now: float) -> None:
        """Have a ping sent if it is time; raises a ClientError if the broker is gone."""
        if self._heartbeat.is_dead(now):
            raise broker_silent()
        if self._heartbeat.is_due(now):
            self._ping = ping(PING_NUMBER)

    def receive(self, data: bytes, now: float) -> list[Job]:
        """Take what the broker sent; return what is for a handler, and then ``check``."""
        self._heartbeat.heard(now)
        jobs: list[Job] = []
        for response in self._reader.receive(data):
            jobs += self._pushed(response)
        return jobs if not self.settles else [job for job in jobs if self._is_news(job)]

    def _pushed(self, response: Response) -> list[Job]:
        kind = response.WhichOneof("kind")
        if kind == "polled":
            return requests.jobs_of(response.polled, self.topic, self.group)
        if kind == "ok" and response.request_id == PING_NUMBER:
            self._is_first_ping_due = False
        elif kind == "error" and self._is_refused_ping(response.error):
            self._is_first_ping_due = self._heartbeat.is_known = False
        elif kind == "error":
            self._farewell = refusal(response.error)
        else:
            said = kind or "nothing"
            self._farewell = BrokerProtocolError(f"the broker pushed {said} instead of messages")
        return []

    def _is_refused_ping(self, error: Error) -> bool:
        """Whether a broker knows no pings, and says so."""
        return self._is_first_ping_due and error.code == BadRequestError.code

    def check(self) -> None:
        """Raise what the broker said instead of messages, if it did: leave this connection.

        Messages that came before are ours all the same, and are handed out first.
        """
        if self._farewell is not None:
            raise self._farewell

    def _is_news(self, job: Job) -> bool:
        held = self._in_hand.get(job.offset)
        self._in_hand[job.offset] = job
        return held is None or (held.ts_ms, held.payload) != (job.ts_ms, job.payload)

    def succeeded(self, job: Job) -> None:
        """The handler has returned."""
        if self.settles:
            self._results.append((self._let_go(job), None))

    def failed(self, job: Job, reason: str) -> None:
        """The handler has raised."""
        if self.settles:
            self._results.append((self._let_go(job), reason[:REASON_LENGTH_MAX]))

    def _let_go(self, job: Job) -> int:
        """The lease that a job has now."""
        held = self._in_hand.get(job.offset)
        if held is None or (held.ts_ms, held.payload) != (job.ts_ms, job.payload):
            return job.lease_id
        return self._in_hand.pop(job.offset).lease_id

    def data_to_send(self) -> bytes:
        """Hand over what must be sent next, on a connection that is open."""
        parts = [ping(PING_NUMBER), self._subscribe] if self._begins else []
        self._begins = False
        if self._ping:
            parts.append(self._ping)
            self._ping = b""
        leases: defaultdict[str | None, list[int]] = defaultdict(list)
        for lease, reason in self._results:
            leases[reason].append(lease)
        parts += [self._settle(reason, those) for reason, those in leases.items()]
        self._told += self._results
        self._results = []
        return b"".join(parts)

    def _settle(self, reason: str | None, leases: list[int]) -> bytes:
        if reason is None:
            call = requests.ack_many(self.topic, self.group, leases)
        else:
            call = requests.nack_many(self.topic, self.group, leases, reason=reason)
        return encode.request(call.request)
