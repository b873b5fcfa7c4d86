"""One end of a bridge: an MQTT session on a connection, and when that connection ends.

The session is that of the Python clients, without I/O; this is its socket and clock on the event
loop. What is received goes to ``on_delivery``, then ``on_received`` is told that answers may have
come. What cannot be written yet stops the reading of the *other* end (``on_congestion``), so that
nothing piles up between two brokers of unequal speed.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

from penstock.client.errors import ConnectionLostError, ReplyTimeoutError
from penstock.client.mqtt.keep_alive import KeepAlive
from penstock.client.mqtt.session import (
    Connected,
    Delivery,
    MqttSession,
    SubscribeAnswered,
    SubscribeOptions,
)
from penstock.errors import PenstockError

ANSWER_TIMEOUT_S = 10.0  # for CONNACK, SUBACK and a ping
T = TypeVar("T")


class Link(asyncio.Protocol):
    """Ends once, with a reason: ``ended`` is done then."""

    def __init__(self, session: MqttSession, keep_alive_s: float) -> None:
        self.session = session
        self._early: list[Delivery] = []  # what a session that was continued began with
        self.on_delivery: Callable[[Delivery], None] = self._early.append
        self.on_received: Callable[[], None] = lambda: None
        self.on_congestion: Callable[[bool], None] = lambda _is_congested: None
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[PenstockError] = self._loop.create_future()
        self._welcome: asyncio.Future[Connected] = self._loop.create_future()
        self._suback: asyncio.Future[SubscribeAnswered] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self._keep_alive = KeepAlive(keep_alive_s, ANSWER_TIMEOUT_S, self._loop.time())
        self._timer: asyncio.TimerHandle | None = None

    async def connected(self) -> Connected:
        """Wait for CONNACK. Raises PenstockError."""
        return await self._answer(self._welcome, "CONNECT")

    def deliver_to(self, take: Callable[[Delivery], None]) -> None:
        """Hand on deliveries from now on, and those that came before anybody took them."""
        early, self._early = self._early, []
        self.on_delivery = take
        for delivery in early:
            take(delivery)

    async def subscribe(
        self, filters: list[str], qos: int, options: SubscribeOptions
    ) -> SubscribeAnswered:
        """Subscribe once, and return the answer. Raises PenstockError."""
        self.session.subscribe([(one, qos) for one in filters], options)
        self.flush()
        return await self._answer(self._suback, "SUBSCRIBE")

    async def _answer(self, answer: asyncio.Future[T], to: str) -> T:
        waited: list[asyncio.Future[T] | asyncio.Future[PenstockError]] = [answer, self.ended]
        await asyncio.wait(waited, timeout=ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if self.ended.done():
            raise self.ended.result()
        if not answer.done():
            raise ReplyTimeoutError(f"no answer to {to} within {ANSWER_TIMEOUT_S:.0f} s")
        return answer.result()

    # ── the connection ────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # those of uvloop do not derive
        self.flush()
        self._check()

    def data_received(self, data: bytes) -> None:
        if self.ended.done():
            return
        self._keep_alive.heard()
        try:
            for event in self.session.receive(data):
                match event:
                    case Delivery():
                        self.on_delivery(event)
                    case Connected():
                        self._welcome.set_result(event)
                        self.set_reading(is_wanted=False)  # until there is somewhere to go
                    case SubscribeAnswered():
                        self._suback.set_result(event)
            self.on_received()
        except PenstockError as error:
            self.end(error)
        self.flush()

    def pause_writing(self) -> None:
        self.on_congestion(True)

    def resume_writing(self) -> None:
        self.on_congestion(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(ConnectionLostError(f"the connection was lost{f': {exc}' if exc else ''}"))

    def flush(self) -> None:
        data = self.session.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._keep_alive.sent(self._loop.time())
            self._transport.write(data)

    def set_reading(self, *, is_wanted: bool) -> None:
        if is_wanted is self._is_reading or self._transport is None:
            return
        self._is_reading = is_wanted
        if self._transport.is_closing():
            return
        if is_wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Disconnect in order; the session stays with the broker."""
        if not self.ended.done() and self._welcome.done():
            self.session.disconnect()
            self.flush()
        self.end(ConnectionLostError("the bridge closed the connection"))

    def end(self, reason: PenstockError) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.done():
            self.ended.set_result(reason)
        if self._transport is not None:
            self._transport.close()

    def _check(self) -> None:
        now = self._loop.time()
        if self._keep_alive.is_lost(now):
            self.end(ReplyTimeoutError(f"no answer to a ping within {ANSWER_TIMEOUT_S:.0f} s"))
            return
        if self._keep_alive.ping_due(now) and self._welcome.done():
            self.session.ping()
            self.flush()
        next_at = min(self._keep_alive.next_at, now + ANSWER_TIMEOUT_S)
        self._timer = self._loop.call_at(max(next_at, now + 0.05), self._check)
