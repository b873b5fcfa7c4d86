"""The protocol state of a subscription, over any number of push connections; no socket here.

The broker pushes jobs ahead of acknowledgements, up to ``prefetch``, and answers no request on such
a connection. Acknowledgements are therefore gathered and sent together.

**Jobs in hand when a connection is lost.** The broker gives back the jobs of a push connection that
ends, and delivers them again, perhaps to us and while a handler still has them. Such a repetition
is not handed out a second time; it only brings the lease under which the job is then acknowledged.
It is recognised by offset *and* content, for a topic that was deleted and created again counts from
0.

**Leases outlive a crash of the broker.** So results since then are sent on the next connection,
under the leases that the jobs came with. Results that were sent on the last one may be lost, too,
as they are not answered. But the broker delivers no more than ``prefetch`` beyond what was settled,
and stores results in order, so only the last ones can be missing. They are sent again; where they
were known, the leases have ended, and nothing happens. A job that was delivered to another consumer
in the meantime is done twice, as with every queue.

**A quiet topic, or a dead broker?** A ping goes before the subscription. A broker that answers it
continues to answer pings, and is left if it stops to (``heartbeat``); one that refuses it is not
pinged again.
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

REASON_LENGTH_MAX = 1_000  # characters of an exception's text that are sent with a nack
PING_NUMBER = 1  # the request id of all pings: no other request has one

# A lease, why its job failed (None: it is done), the pause before the next delivery, and whether
# there shall be none.
_Result: TypeAlias = tuple[int, str | None, float, bool]


class PushSession:
    """See the module."""

    def __init__(self, subscribe: Request) -> None:
        self._subscribe = encode.request(subscribe)
        self.topic = subscribe.subscribe.topic
        self.group = subscribe.subscribe.group
        self.settles = subscribe.subscribe.ack_mode == "manual"  # jobs must be acknowledged
        self.visibility_s = subscribe.subscribe.visibility_timeout_ms / 1000
        self._reader = ResponseReader()
        self._farewell: ClientError | None = None
        self._begins = False
        self._heartbeat = Heartbeat(PUSH_PACE)
        self._ping = b""  # to be sent
        self._is_first_ping_due = False  # whether the broker knows pings is not known yet
        self._in_hand: dict[int, Job] = {}  # by offset, with the present lease
        self._results: list[_Result] = []  # to be sent
        # Sent last: twice as many as can be in hand, since they may be sent twice.
        self._sent: deque[_Result] = deque(maxlen=2 * subscribe.subscribe.prefetch)

    @property
    def unsent(self) -> int:
        return len(self._results)

    def connected(self, now: float) -> None:
        self._reader = ResponseReader()
        self._farewell = None
        self._begins = self._is_first_ping_due = True
        self._heartbeat.is_known = True  # the first ping is answered in any case
        self._heartbeat.heard(now)
        self._heartbeat.asked(now)
        self._results[:0] = self._sent
        self._sent.clear()

    def tick(self, now: float) -> None:
        """Send a ping if it is due; raise a ClientError if the broker is dead."""
        if self._heartbeat.is_dead(now):
            raise broker_silent()
        if self._heartbeat.is_due(now):
            self._ping = ping(PING_NUMBER)

    def receive(self, data: bytes, now: float) -> list[Job]:
        """Process bytes of the broker; return jobs for handlers. Call ``check`` after these."""
        self._heartbeat.heard(now)
        jobs: list[Job] = []
        for response in self._reader.receive(data):
            jobs += self._pushed(response)
        return jobs if not self.settles else [job for job in jobs if self._is_new(job)]

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
            pushed = kind or "nothing"
            self._farewell = BrokerProtocolError(f"the broker pushed {pushed} instead of messages")
        return []

    def _is_refused_ping(self, error: Error) -> bool:
        return self._is_first_ping_due and error.code == BadRequestError.code

    def check(self) -> None:
        """Raise the error that the broker sent, if it did: leave this connection.

        Jobs that came before it are handed out first.
        """
        if self._farewell is not None:
            raise self._farewell

    def _is_new(self, job: Job) -> bool:
        held = self._in_hand.get(job.offset)
        self._in_hand[job.offset] = job
        return held is None or (held.ts_ms, held.payload) != (job.ts_ms, job.payload)

    def succeeded(self, job: Job) -> None:
        if self.settles:
            self._results.append((self._let_go(job), None, 0.0, False))

    def failed(
        self, job: Job, reason: str, delay_s: float = 0.0, *, is_final: bool = False
    ) -> None:
        if self.settles:
            reason = reason[:REASON_LENGTH_MAX]
            self._results.append((self._let_go(job), reason, delay_s, is_final))

    def _let_go(self, job: Job) -> int:
        """Return the present lease of a job that is not in hand any more."""
        held = self._in_hand.get(job.offset)
        if held is None or (held.ts_ms, held.payload) != (job.ts_ms, job.payload):
            return job.lease_id
        return self._in_hand.pop(job.offset).lease_id

    def data_to_send(self) -> bytes:
        parts = [ping(PING_NUMBER), self._subscribe] if self._begins else []
        self._begins = False
        if self._ping:
            parts.append(self._ping)
            self._ping = b""
        leases: defaultdict[tuple[str | None, float, bool], list[int]] = defaultdict(list)
        for lease, reason, delay_s, is_final in self._results:
            leases[reason, delay_s, is_final].append(lease)
        parts += [self._settle(*result, those) for result, those in leases.items()]
        self._sent += self._results
        self._results = []
        return b"".join(parts)

    def _settle(
        self, reason: str | None, delay_s: float, is_final: bool, leases: list[int]
    ) -> bytes:
        topic, group = self.topic, self.group
        if reason is None:
            call = requests.ack_many(topic, group, leases)
        else:
            call = requests.nack_many(topic, group, leases, delay_s, reason, dead_letter=is_final)
        return encode.request(call.request)
