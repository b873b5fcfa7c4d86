"""A client that lives as long as its program: connections come and go beneath it.

Three tasks, started by ``connect``::

    publish ──► ring ──► _main: connects, greets, writes ──► broker
    async for ◄── intake ◄── _read: one per connection    ◄──
                             _tick: four times a second, whatever is due

Only ``_main`` writes, so frames never mix. It signs when it sends, because a signature ages.
Replies come in the order of requests, so ``_flight``, the requests that wait for one, is a queue.
Tasks that wait for anything wait for ``_changed`` and look again; nothing is allocated for each.

**A new connection** sends the publishes that have no answer first, then subscribes: behind
a SUBSCRIBE all replies wait for the history. A publish whose answer was lost is sent twice, with
the same sequence: a broker that knows HELLO stores it once.

What not every program needs is loaded when it is used: ``intake`` (subscribing), ``signing``,
``login``, ``verify``.
"""

import asyncio
from asyncio import Event
from struct import pack, unpack_from

from penstock.wire import (
    ClientError,
    ClosedError,
    Frames,
    FullError,
    RefusedError,
    TakenOverError,
    frame,
    meaning,
    readable,
)

try:
    from asyncio import sleep_ms
    from time import ticks_diff, ticks_ms

    from micropython import const
except ImportError:
    from penstock._cpython import const, sleep_ms, ticks_diff, ticks_ms

_SUBSCRIBE = const(0x01)
_PUBLISH = const(0x03)
_MESSAGE = const(0x04)
_ACK = const(0x05)
_PING = const(0x06)
_PONG = const(0x07)
_ERROR = const(0x08)
_SIGNED_PUBLISH = const(0x10)
_SIGNED_MESSAGE = const(0x11)
_SIGNED_PUBLISH_2 = const(0x12)
_SIGNED_MESSAGE_2 = const(0x13)
_HELLO = const(0x20)
_WELCOME = const(0x21)
_PUBLISH_2 = const(0x22)
_WITHHELD = const(0x23)

_AGAIN = const(1)  # what wire.meaning says
_NOTICE = const(2)
_FAREWELL = const(3)
_FINAL = const(4)

_TICK_MS = const(250)
_DIAL_S = const(10)  # the broker gives a silent connection as long
_WRITE_S = const(20)
_STALL_MS = const(3000)  # somebody waits for an answer behind messages that nobody takes
_BATCH = const(1024)  # bytes that are joined into one write
_SIGN_AGAIN = const(3)
_CODED_ERRORS = const(1)  # in ``features``
_HELLO_KNOWN = const(0x100)


class Request:
    """Something that the broker answers once."""

    def __init__(self, command: int, topic: bytes = b"", payload: bytes = b"") -> None:
        self.command = command
        self.topic = topic
        self.payload = payload
        self.sequence = 0
        self.version = 0  # of the signature
        self.attempts = 0
        self.is_done = False
        self.is_awaited = True
        self.error = None


class Client:
    """See the module and docs/clients/micropython.md.

    ``host`` is a name, or up to three pairs of name and port. ``open`` connects: it returns a
    stream reader and writer, for TLS or for tests.
    """

    def __init__(
        self,
        host: object,
        port: int = 1883,
        client_id: str = "",
        *,
        signing_key: object = None,
        user: str = "",
        password: str = "",
        keep_alive: int = 60,
        rx: int = 1024,
        offline: int = 8,
        timeout: float = 30,
        auto_ack: bool = True,
        keyring: dict | None = None,
        require_signature: bool = False,
        clock: object = None,
        trust_time: bool = False,
        random: object = None,
        open: object = None,  # noqa: A002 - what it does
    ) -> None:
        if rx < 512:
            raise ValueError("rx must be 512 at least")
        self._nodes = ((host, port),) if isinstance(host, str) else host
        self._id = client_id.encode() if client_id else b""
        self._login = user, password
        self._keep_alive = keep_alive
        self._rx = rx
        self._offline = offline
        self._timeout = timeout
        self.auto_ack = auto_ack
        self.keyring = keyring
        self.require_signature = require_signature
        self._clock = clock
        self._trust_time = trust_time
        self._open = open or asyncio.open_connection
        if random is None:
            from os import urandom as random  # noqa: PLC0415 - some ports have none
        self._random = random
        self._epoch = random(8)
        self.on_lost = None  # called with a text and a number: what is not going to arrive
        self.on_state = None  # called with "up", "down", "taken_over" or "refused"
        self.sent = self.acked = self.refused = self.lost = self.reconnects = 0
        self.error = None  # what ended the last connection
        self.up = Event()
        self._changed = Event()  # for those who wait for anything but ``_wake``
        self._wake = Event()  # of _main
        self._frames = Frames(rx)
        self._last = 0
        self._ring = []  # publishes without an answer: the waiting ones of ``publish`` too
        self._next = 0  # how many of them are in flight
        self._asks = []  # other requests that were not sent
        self._flight = []
        self._acks = []
        self._intake = None
        self._signer = None
        self._told = None  # the broker's time, and when it told it
        self._fault = None  # what ended this client
        self._broken = None  # what ends this connection
        self._failures = 0
        self._tasks = ()
        self.features = 0
        if signing_key:
            from penstock.signing import Signer  # noqa: PLC0415 - only to sign

            self._signer = Signer(self, signing_key)

    async def __aenter__(self) -> "Client":
        await self.connect()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    # ── Begin and end ─────────────────────────────────────────────────────────────────────────

    async def connect(self, wait: bool = True) -> None:
        """Connect and stay connected; raise what the first round of nodes failed with.

        With ``wait=False`` return at once, and go on trying for ever.
        """
        if not self._tasks:
            self._fault = self.error = None
            self._failures = 0
            self._tasks = asyncio.create_task(self._main()), asyncio.create_task(self._tick())
        while wait and not self.up.is_set():
            error = self._fault
            if not error and self._failures >= len(self._nodes):
                error = self.error
            if error:
                await self.close()
                raise error
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """End; wait at most two seconds for acknowledgements to be on the broker's disk."""
        if self._intake:
            self._intake.leave()
        if self.up.is_set() and self._acks:
            try:
                await self._barrier(self._deadline(2))
            except (ClientError, asyncio.TimeoutError):
                pass
        self._fault = self._fault or ClosedError("the client is closed")
        self._break(self._fault)  # wait_for of Python 3.11 may swallow a cancellation
        self._changed.set()
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            await _cancel(task)
        self._disconnected()

    async def flush(self, timeout: float | None = None) -> None:
        """Return when all publishes are answered and all acknowledgements are on disk."""
        deadline = self._deadline(timeout)
        while True:
            while self._ring or self._acks or self._asks or not self.up.is_set():
                await self._change(deadline)
            if await self._barrier(deadline) and not self._acks:
                return

    async def _barrier(self, deadline: tuple) -> bool:
        """Wait for a PONG behind all that was sent; false if the connection is lost meanwhile."""
        ping = self._ask(_PING)
        while not ping.is_done:
            await self._change(deadline)
        return ping.error is None

    # ── Requests ──────────────────────────────────────────────────────────────────────────────

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        signed: int | None = None,
        retain: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Return when the message is on the broker's disk; raise RefusedError, TimeoutError.

        FullError without a connection, if ``offline`` publishes wait already.

        Signed if there is a signing key, unless ``signed=0``; 1 and 2 are versions of signatures.
        After a time-out it is not sent if it was not yet; otherwise it may be stored.
        """
        deadline = self._deadline(timeout)
        request = self._publish(topic, payload, signed, retain)
        self._admit(request)
        try:
            while not request.is_done:
                await self._change(deadline)
        finally:
            if not request.is_done:
                request.is_awaited = False
                if request in self._ring[self._next :]:
                    self._ring.remove(request)
        if request.error:
            raise request.error

    def publish_nowait(
        self, topic: str, payload: bytes, *, signed: int | None = None, retain: bool = False
    ) -> None:
        """Publish as soon as there is a connection; ``flush`` waits for it.

        FullError says that ``offline`` publishes wait already. A refusal is told to ``on_lost``.
        """
        request = self._publish(topic, payload, signed, retain)
        request.is_awaited = False
        self._admit(request)

    def _publish(self, topic: str, payload: bytes, signed: int | None, retain: bool) -> Request:
        if isinstance(payload, str):
            payload = payload.encode()
        request = Request(_PUBLISH, topic.encode(), payload)
        if signed or (signed is None and self._signer):
            if retain or not self._signer:
                raise ValueError("no signing_key, or retain: pass signed=0")
            self._signer.prepare(request, signed)
        elif retain:
            request.command = _PUBLISH_2
            request.payload = b"\1" + payload
        return request

    def _admit(self, request: Request) -> None:
        if self._fault:
            raise self._fault
        is_waiting = request.is_awaited and self.up.is_set()  # its caller holds it, and waits
        if len(self._ring) >= self._offline and not is_waiting:
            raise FullError("offline= publishes have no answer yet")
        self._ring.append(request)
        self._wake.set()

    def _ask(self, command: int, topic: bytes = b"", payload: bytes = b"") -> Request:
        request = Request(command, topic, payload)
        self._asks.append(request)
        self._wake.set()
        return request

    async def subscribe(
        self, topic: str, start: object = None, prefetch: int = 0, timeout: float | None = None
    ) -> None:
        """Subscribe, on this and all later connections; raise RefusedError.

        ``start`` is where a subscriber without a position begins: "earliest", "latest", a number
        of last messages, or ("since", ms). Does not wait without a connection.
        """
        await self._subscriber().subscribe(topic, start, prefetch, self._deadline(timeout))

    async def unsubscribe(self, topic: str, timeout: float | None = None) -> None:
        """End a subscription. What was read ahead is still handed out."""
        await self._subscriber().unsubscribe(topic, self._deadline(timeout))

    def _subscriber(self) -> object:
        if not self._intake:
            from penstock.intake import Intake  # noqa: PLC0415 - only to subscribe

            self._intake = Intake(self)
        return self._intake

    async def receive(self, timeout: float | None = None) -> object:
        """Return the next message; the one before is acknowledged, with ``auto_ack``."""
        deadline = None if timeout is None else self._deadline(timeout)
        return await self._subscriber().receive(deadline)

    def __aiter__(self) -> "Client":
        self._subscriber().leave()  # what an earlier loop had in hand when it ended is not done
        return self

    async def __anext__(self) -> object:
        try:
            return await self.receive()
        except ClosedError:
            raise StopAsyncIteration  # noqa: B904 - MicroPython keeps no cause

    def _tell(self, text: str, count: int = 1) -> None:
        self.lost += count
        if self.on_lost:
            self.on_lost(text, count)

    def _say(self, state: str) -> None:
        if self.on_state:
            self.on_state(state)

    # ── Waiting ───────────────────────────────────────────────────────────────────────────────

    def _deadline(self, timeout: float | None) -> tuple:
        return ticks_ms(), int((self._timeout if timeout is None else timeout) * 1000)

    async def _change(self, deadline: tuple | None) -> None:
        """Wait until anything has changed, or a tick later."""
        if deadline and ticks_diff(ticks_ms(), deadline[0]) >= deadline[1]:
            raise asyncio.TimeoutError
        if not self._fault:
            self._changed.clear()
            await self._changed.wait()
        if self._fault:
            raise self._fault

    async def _tick(self) -> None:
        while True:
            await sleep_ms(_TICK_MS)
            self._changed.set()  # deadlines
            if self.up.is_set():
                self._check(ticks_ms(), self._keep_alive * 1000)

    def _check(self, now: int, quiet: int) -> None:
        """Ping when nothing was sent or nothing heard for an interval; give up after two more."""
        said = ticks_diff(now, self._said)
        intake = self._intake
        if intake and intake.paused is not None:
            self._heard = now  # it is we who do not listen
            if ticks_diff(now, intake.paused) > _STALL_MS and intake.is_stalled(self._flight):
                self._break(ClientError("no room for messages ahead of an answer"))
            elif said >= quiet > 0:
                self._said = now
                self._acks.append(0)  # a sign of life that has no answer
                self._wake.set()
            return
        heard = ticks_diff(now, self._heard)
        if heard >= 3 * quiet > 0:
            self._break(ClientError("the broker is silent"))
        elif max(said, heard) >= quiet > 0 and ticks_diff(now, self._pinged) >= quiet:
            self._pinged = now
            self._ask(_PING)

    def _break(self, error: Exception) -> None:
        self._broken = self._broken or error
        self._wake.set()

    # ── The connection ────────────────────────────────────────────────────────────────────────

    async def _main(self) -> None:
        turn = 0
        while not self._fault:
            try:
                await self._connection(self._nodes[turn % len(self._nodes)])
            except (TakenOverError, RefusedError) as error:  # for good
                self._fault = error
            except Exception as error:  # noqa: BLE001 - whatever it was, the client goes on
                self.error = error
            turn += 1
            self._failures += 1
            self._disconnected()
            if not self._fault:
                pause = min(50 << min(self._failures, 10), 30000)
                await sleep_ms(pause - pause * self._random(1)[0] // 512)
        if not isinstance(self._fault, ClosedError):
            self._say("taken_over" if isinstance(self._fault, TakenOverError) else "refused")

    async def _connection(self, node: tuple) -> None:
        reader, self._writer = await asyncio.wait_for(self._open(node[0], node[1]), _DIAL_S)
        try:
            self._frames.reset(reader)
            self._broken = None
            self._said = self._heard = self._pinged = ticks_ms()
            await asyncio.wait_for(self._greet(), _DIAL_S)
            self._failures = 0
            if self._intake:
                self._intake.resume()
            task = asyncio.create_task(self._read())
            self.up.set()
            self._changed.set()
            self._say("up")
            try:
                while not self._broken:
                    await self._write_due()
                raise self._broken
            finally:
                await _cancel(task)
        finally:
            self._writer.close()
            if hasattr(self._writer, "out_buf"):  # it is this that closes in MicroPython
                await self._writer.wait_closed()

    async def _greet(self) -> None:
        """Log in and say HELLO; a broker that does not know it is of version 1."""
        user, password = self._login
        if user:
            from penstock.login import login  # noqa: PLC0415 - only with users

            await login(self, user, password)
        options = pack(">BHIBHIBH", 1, 4, 3, 2, 4, self._rx, 4, 8) + self._epoch
        if self._keep_alive:
            options += pack(">BHH", 3, 2, self._keep_alive)
        await self._send(frame(_HELLO, self._sequence(), self._id, options))
        answer = await self._answer()
        self.features = 0
        if answer.command == _WELCOME:
            self._on_welcome(answer.payload)
        elif answer.command == _ERROR:
            self._on_error(answer)
        else:
            raise ClientError("the answer to HELLO is none")

    def _on_welcome(self, payload: bytes) -> None:
        self.features = _HELLO_KNOWN
        at = 0
        while at + 3 <= len(payload):
            kind, size = unpack_from(">BH", payload, at)
            at += 3 + size
            value = int.from_bytes(payload[at - size : at], "big")
            if kind == 1:
                self.features |= value
            elif kind == 5:
                self._told = value, ticks_ms()

    async def _answer(self) -> Frames:
        """Wait for the next frame, before there is a reader."""
        while not self._frames.poll():
            await self._frames.fill()
        return self._frames

    def _disconnected(self) -> None:
        if self.up.is_set():
            self.up.clear()
            self.reconnects += not self._fault
            self._say("down")
        self._next = 0
        self._acks.clear()  # what they were for is repeated, and known
        for request in self._flight + self._asks:
            if request not in self._ring:
                request.is_done = True
                if request.command == _PING:
                    request.error = self.error
        self._flight.clear()
        self._asks.clear()
        if self._intake:
            self._intake.disconnected()
        self._changed.set()

    def _sequence(self) -> int:
        self._last += 1
        return self._last

    # ── Writing ───────────────────────────────────────────────────────────────────────────────

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        if getattr(self._writer, "out_buf", True):  # MicroPython writes at once what it can
            await asyncio.wait_for(self._writer.drain(), _WRITE_S)
        self._said = ticks_ms()

    async def _write_due(self) -> None:
        """Write what waits, a batch of it; wait if nothing does."""
        self._wake.clear()
        batch = b""
        while len(batch) < _BATCH:
            if self._acks:
                batch += frame(_ACK, self._acks.pop(0))
            elif self._next < min(len(self._ring), self._offline):
                batch += await self._encoded(self._ring[self._next])
            elif self._asks:
                request = self._asks.pop(0)
                request.sequence = self._sequence()
                self._flight.append(request)
                batch += frame(request.command, request.sequence, request.topic, request.payload)
            else:
                break
        if batch:
            await self._send(batch)
        elif not self._broken:
            await self._wake.wait()

    async def _encoded(self, request: Request) -> bytes:
        """Return the frame of a publish, which is in flight then; nothing if it is not to be."""
        if not request.sequence:
            request.sequence = self._sequence()
        data = frame(request.command, request.sequence, request.topic, request.payload)
        if request.version:
            try:
                data += await self._signer.trailer(request)
            except Exception as error:  # noqa: BLE001 - of the clock or the signer
                self._finish(request, error)
                return b""
            if request not in self._ring:  # it was withdrawn meanwhile
                return b""
        self._next += 1
        self.sent += 1
        self._flight.append(request)
        return data

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        got = self._frames
        try:
            while True:
                while got.poll():
                    command = got.command
                    if command in (_ACK, _PONG):
                        self._on_answer(got)
                    elif command == _ERROR:
                        self._on_error(got)
                    elif command in (_MESSAGE, _SIGNED_MESSAGE, _SIGNED_MESSAGE_2, _WITHHELD):
                        await self._subscriber().on_message(got)
                await got.fill()
                self._heard = ticks_ms()
        except Exception as error:  # noqa: BLE001 - _main raises it
            self._break(error)

    def _on_answer(self, got: Frames) -> None:
        if not self._flight:
            raise ClientError("an answer to nothing")
        request = self._flight.pop(0)
        is_ping = request.command == _PING
        if is_ping != (got.command == _PONG) or not (is_ping or request.sequence == got.sequence):
            raise ClientError("the broker answers out of turn")
        self._finish(request)

    def _finish(self, request: Request, error: Exception | None = None) -> None:
        request.is_done, request.error = True, error
        if request in self._ring:
            if request in self._ring[: self._next]:
                self._next -= 1
            self._ring.remove(request)
            self._wake.set()  # the next one may be in flight
            if error is None:
                self.acked += 1
            else:
                self.refused += 1
        if error and not request.is_awaited:
            if request.command == _SUBSCRIBE:
                raise error  # nobody waits for it: the client would be deaf without a word
            self._tell(f"refused: {error}")
        self._changed.set()

    def _on_error(self, got: Frames) -> None:
        text = readable(got.payload)
        kind = meaning(text)
        if self.features & _CODED_ERRORS and not got.sequence and kind <= _AGAIN:
            kind = _NOTICE  # of a newer broker: it answers nothing
        if kind == _FINAL:
            raise TakenOverError(text)
        if kind == _NOTICE:
            count = text.split(" ", 1)[0]
            self._tell(text, int(count) if count.isdigit() else 0)
        elif kind == _FAREWELL or (not self._flight and text.endswith("closed")):
            raise ClientError(text)
        elif self._flight:
            request = self._flight.pop(0)
            request.attempts += 1
            if kind == _AGAIN and request.version and request.attempts <= _SIGN_AGAIN:
                self._ring.remove(request)
                self._next -= 1
                request.sequence = 0  # it was not stored, and later ones may have been
                self._ring.append(request)
                self._wake.set()
            else:
                self._finish(request, RefusedError(text, readable(got.topic)))


async def _cancel(task: object) -> None:
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
