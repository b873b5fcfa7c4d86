"""Poll: a worker that joins a dispatcher, takes messages once, and leaves.

What is on its way when the wait is over is still taken. If the topic's rate limit allows none yet,
the client learns at once when to retry. In a cluster an empty response is sent only once a quorum
has confirmed that this node leads. While the client has much to read a poll takes nothing, and what
was on its way to it is returned as if it had never been handed out.
"""

import asyncio

from penstock.commit.completion import Callback
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.dispatch.groups import StartAt
from penstock.dispatch.parts import RETRY_S
from penstock.doors.queue.faults import full_fault, refusal_fault
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.redirects import unconfirmed
from penstock.doors.queue.replies import Slot
from penstock.doors.queue.request_fields import AUTO, items_of, requested_group, visibility_ms
from penstock.errors import PenstockError
from penstock.obs.reasons import DisconnectReason
from penstock.trust.rules import Action
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue.faults import RATE_LIMITED, Fault

MESSAGES_DEFAULT = 16
MESSAGES_MAX = 1_024
WAIT_MS_MAX = 300_000


class Poll:
    """One Poll request, as a dispatcher sees it: a ``GroupWorker``."""

    takes_turns = False

    __slots__ = (
        "_client",
        "_maximum",
        "_slot",
        "_target",
        "_timer",
        "_wait_ms",
        "consumer",
        "is_over",
        "settles",
        "visibility_ms",
    )

    def __init__(self, client: Requester, message: queue_pb2.Poll, slot: Slot) -> None:
        self._client = client
        self._slot = slot
        self._target = requested_group(message)
        self._maximum = min(message.max, MESSAGES_MAX) or MESSAGES_DEFAULT
        self._wait_ms = 0 if client.is_ending else min(message.wait_ms, WAIT_MS_MAX)
        self.visibility_ms = visibility_ms(message.visibility_timeout_ms)
        self.settles = message.ack_mode == AUTO
        self.consumer = client.next_name()
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False

    def start(self) -> None:
        """Create the group if it does not begin where a dispatcher would begin it, then join."""
        door, (topic, group, start) = self._client.door, self._target
        fault = door.group_fault(topic, group)
        if fault is not None:
            self.is_over = True
            self._slot.fail(fault)
            return
        self._client.polls.add(self)
        if self._wait_ms:
            self._set_timer(self._wait_ms / 1000)
        if start.at is StartAt.EARLIEST or door.broker.groups.get(topic, group) is not None:
            self._join()
        else:
            door.dispatchers.groups.create(
                topic, group, start, Callback(lambda _new: self._join(), self.refused)
            )

    def _join(self) -> None:
        if not self.is_over:
            self._client.door.dispatchers.join(self._target.topic, self._target.group, self)

    def room(self) -> int:
        return 0 if self.is_over or self._client.is_full() else self._maximum

    def work(self, jobs: list[LeasedMessage]) -> None:
        if self._client.is_full():
            self._give_back(jobs)
            return
        door = self._client.door
        door.counters.messages_out_total[1] += len(jobs)
        items = items_of(jobs, door.tracing, self.consumer)
        self._answer(encode.polled(items, self._slot.request_id))

    def _give_back(self, jobs: list[LeasedMessage]) -> None:
        topic, group, _ = self._target
        leases = [job.lease for job in jobs]
        self._client.door.dispatchers.leases.give_back(topic, group, leases, counts=False)

    def idle(self) -> None:
        if not self._wait_ms:
            self.stop_waiting()

    def limited(self, retry_ms: int) -> None:
        text = "the topic's rate allows no message now"
        self._finish()
        self._slot.fail(Fault(RATE_LIMITED, text, retry_ms))

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        if not self.is_over:
            self._finish()
            self._slot.refused(reason, detail)

    def rights_changed(self) -> None:
        client = self._client
        refusal = client.door.admission.judge(client.principal, Action.WORK, self._target.topic)
        if refusal is not None and not self.is_over:
            self._finish()
            self._slot.fail(refusal_fault(refusal))

    def leadership_lost(self) -> None:
        self.refused(DisconnectReason.LEADERSHIP_LOST)

    def ask(self) -> None:
        self._client.door.dispatchers.dispatch(self._target.topic, self._target.group)

    def stop_waiting(self) -> None:
        door, (topic, group, _) = self._client.door, self._target
        if self.is_over:
            return
        if door.dispatchers.is_serving(topic, group, self.consumer):
            self._set_timer(RETRY_S)  # it may come to nothing, if the group is moved
            return
        fault = full_fault(door.broker.groups.get(topic, group))
        if fault is not None:
            self._finish()
            self._slot.fail(fault)
        else:
            self._finish()
            door.cluster.read_barrier(self._answer_with_nothing)

    def _answer_with_nothing(self, error: PenstockError | None) -> None:
        """Respond with nothing if this node still leads; else another may have messages."""
        if self._client.reason is not None:
            return
        if error is not None:
            self._slot.fail(unconfirmed(self._client.door.cluster, error))
        else:
            self._slot.answer(encode.polled([], self._slot.request_id))

    def _set_timer(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._client.door.loop.call_later(delay_s, self.stop_waiting)

    def leave(self) -> None:
        if not self.is_over:
            self._finish()

    def _answer(self, frames: bytes) -> None:
        self._finish()
        self._slot.answer(frames)

    def _finish(self) -> None:
        self.is_over = True
        self._client.polls.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._client.door.dispatchers.rest(self._target.topic, self._target.group, self.consumer)


def poll(client: Requester, message: queue_pb2.Poll, slot: Slot) -> None:
    Poll(client, message, slot).start()
