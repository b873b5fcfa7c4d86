"""MQTT clients with persistent sessions that move from node to node.

Both keep what the standard requires a client to keep across connections: a publisher its
unacknowledged messages, a subscriber the QoS 2 ids that were not released. They leave a silent node,
and now and then one that answers, with messages in flight.

``PipelinedPublisher`` stays at its node while it answers, with many messages in flight: any change
of their order is the broker's fault.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from penstock.wire.mqtt import MqttClientMachine, PacketType, encode
from penstock.wire.mqtt.events import ConnAck, MqttAcks, PingResp, Publish, SubAck
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX
from penstock.wire.violation import Violation
from tests.chaos.history import Delivery, History, Op, now

__all__ = ["MqttPublisher", "MqttSubscriber", "PipelinedPublisher"]

ANSWER_S = 4.0
"""How long a node may be silent before its client goes to another."""
CONNECT_S = 8.0
PING_S = 1.0
TURN_S = 0.05
"""How long a client reads before it checks whether it has something to send."""
WINDOW = 4
PIPELINED_WINDOW = 30
PIPELINED_TURN_S = 0.01
PIPELINED_AT_ONCE = 2
"""Messages per iteration: some 200 a second, and the whole window soon after a node stalls."""
TRACE_MAX = 50_000


class _Client:
    """A session, over any number of connections."""

    turn_s = TURN_S

    def __init__(self, name: str, ports: Callable[[], Sequence[int]], dice: random.Random) -> None:
        self.name = name
        self.complaints: list[str] = []
        self.is_known = False
        """Whether the broker has confirmed our session."""
        self._ports = ports
        self._dice = dice
        self._port = 0
        self._writer: asyncio.StreamWriter | None = None
        self._machine = MqttClientMachine(REMAINING_LENGTH_MAX)
        self._heard = 0.0
        self._is_connected = False
        self.trace: deque[str] = deque(maxlen=TRACE_MAX)
        """A record of all packets, to explain a complaint."""

    async def visit(self, is_over: Callable[[], bool]) -> None:
        """Stay connected to one node while it answers, or until the end."""
        self._port = self._next_port()
        self._machine = MqttClientMachine(REMAINING_LENGTH_MAX)
        self._is_connected = False
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._heard = now() + CONNECT_S - ANSWER_S
            self._send(encode.connect(self.name.encode(), clean_session=False, keep_alive=60))
            await self._converse(reader, is_over)
        except (OSError, TimeoutError) as error:
            self._note("loses", repr(error))
            await asyncio.sleep(0.02 + 0.1 * self._dice.random())
        finally:
            if self._writer is not None:
                self._writer.transport.abort()
                self._writer = None

    def _next_port(self) -> int:
        """Return the next node, another than the last."""
        return self._dice.choice([p for p in self._ports() if p != self._port] or [self._port])

    async def _converse(self, reader: asyncio.StreamReader, is_over: Callable[[], bool]) -> None:
        reading = asyncio.ensure_future(reader.read(65536))
        pinged = now()
        try:
            while not (self._is_connected and is_over()):
                await asyncio.wait([reading], timeout=self.turn_s)
                if reading.done():
                    self._receive(reading.result())
                    reading = asyncio.ensure_future(reader.read(65536))
                elif now() - self._heard > ANSWER_S:
                    return
                elif self._is_connected and now() - pinged > PING_S:
                    pinged = now()
                    self._send(encode.PINGREQ)
                if self._is_connected:
                    self._act()
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await reading

    def _send(self, data: bytes) -> None:
        assert self._writer is not None
        if self._writer.is_closing():
            raise ConnectionError
        self._writer.write(data)
        if data != encode.PINGREQ:
            self._note("says", data[:80].hex())

    def _receive(self, data: bytes) -> None:
        if not data:
            raise ConnectionError
        self._heard = now()
        for event in self._machine.receive(data):
            if not isinstance(event, PingResp):
                self._note("hears", repr(event))
            match event:
                case ConnAck(session_present, return_code):
                    self._on_connack(session_present, return_code)
                case Violation():
                    self.complaints.append(f"{self.name} was sent what is not MQTT: {event}")
                    raise ConnectionError
                case PingResp():
                    pass
                case _:
                    self._on(event)

    def _note(self, what: str, detail: str) -> None:
        self.trace.append(f"{now():.4f} {self._port} {self.name} {what} {detail}")

    def _on_connack(self, session_present: bool, return_code: int) -> None:
        if return_code:
            raise ConnectionError
        if self.is_known and not session_present:
            self.complaints.append(f"the session of {self.name} is lost")
        self.is_known = self._is_connected = True
        self._resume()

    def _resume(self) -> None:
        """Connected: resend what was not answered."""

    def _act(self) -> None:
        """Send what is due."""

    def _on(self, event: object) -> None:
        """Process a packet of the broker."""


class MqttPublisher(_Client):
    """Publishes numbered messages to a topic, with some in flight."""

    window = WINDOW
    at_once = WINDOW

    def __init__(
        self,
        name: str,
        ports: Callable[[], Sequence[int]],
        dice: random.Random,
        *,
        history: History,
        topic: str,
        qos: int,
    ) -> None:
        super().__init__(name, ports, dice)
        self._history = history
        self._topic = topic
        self._qos = qos
        self._next = 0
        self._last_id = dice.randrange(60_000)
        self._sent: dict[int, Op] = {}
        """Packet id → what was published and not yet acknowledged, in order."""
        self._taken: dict[int, Op] = {}
        """QoS 2: what the broker has received, and is to be released."""
        self.is_stopping = False

    async def run(self) -> None:
        """Publish until stopped and everything is acknowledged."""
        self.complaints = self._history.complaints
        while not self._is_over():
            leaves = self._leaves()
            await self.visit(lambda leaves=leaves: self._is_over() or now() > leaves)

    def _leaves(self) -> float:
        """When to leave a node that answers."""
        return now() + 0.3 + 3.0 * self._dice.random()

    def _is_over(self) -> bool:
        return self.is_stopping and not self._sent and not self._taken

    def _resume(self) -> None:
        for packet_id, op in self._sent.items():
            self._publish(packet_id, op, dup=True)
        if self._taken:
            self._send(encode.acks(PacketType.PUBREL, list(self._taken)))

    def _publish(self, packet_id: int, op: Op, *, dup: bool) -> None:
        topic = self._topic.encode()
        self._send(encode.publish(topic, op.payload, self._qos, dup=dup, packet_id=packet_id))

    def _act(self) -> None:
        room = self.window - len(self._sent) - len(self._taken)
        for _ in range(0 if self.is_stopping else min(room, self.at_once)):
            self._next += 1
            payload = b"%s/%d" % (self.name.encode(), self._next)
            op = self._history.begin(f"qos{self._qos}", self._topic, self.name, self._next, payload)
            self._last_id = self._last_id % 65_535 + 1
            self._sent[self._last_id] = op
            self._publish(self._last_id, op, dup=False)

    def _on(self, event: object) -> None:
        if not isinstance(event, MqttAcks):
            return
        for packet_id in event.packet_ids:
            if event.kind == PacketType.PUBCOMP:
                self._taken.pop(packet_id, None)
            elif packet_id in self._sent:
                op = self._sent.pop(packet_id)
                op.done()
                if event.kind == PacketType.PUBREC:
                    self._taken[packet_id] = op
        if event.kind == PacketType.PUBREC:
            self._send(encode.acks(PacketType.PUBREL, event.packet_ids))


class PipelinedPublisher(MqttPublisher):
    """Keeps many messages in flight at one node, and leaves it only if it does not answer."""

    turn_s = PIPELINED_TURN_S
    window = PIPELINED_WINDOW
    at_once = PIPELINED_AT_ONCE

    def __init__(self, *arguments: object, home: int, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self._home = home
        """Index of its node in the list of ports."""

    def _next_port(self) -> int:
        ports = self._ports()
        home = ports[self._home % len(ports)]
        return home if self._port != home or self._is_connected else super()._next_port()

    def _leaves(self) -> float:
        return inf


class MqttSubscriber(_Client):
    """Subscribes once, and receives what is published from then on."""

    def __init__(
        self, name: str, ports: Callable[[], Sequence[int]], dice: random.Random, topic_filter: str
    ) -> None:
        super().__init__(name, ports, dice)
        self.deliveries: list[Delivery] = []
        self.is_subscribed = asyncio.Event()
        self.roams = True
        """Whether it leaves nodes without a reason."""
        self._filter = topic_filter.encode()
        self._unreleased: set[int] = set()

    async def run(self) -> None:
        """Move from node to node, forever."""
        while True:
            leaves = now() + 0.5 + 2.5 * self._dice.random()
            await self.visit(lambda leaves=leaves: self.roams and now() > leaves)

    def _resume(self) -> None:
        if not self.is_subscribed.is_set():
            self._send(encode.subscribe(1, [(self._filter, 2)]))

    def _on(self, event: object) -> None:
        match event:
            case SubAck():
                self.is_subscribed.set()
            case Publish():
                self._take(event)
            case MqttAcks(PacketType.PUBREL, packet_ids):
                self._unreleased.difference_update(packet_ids)
                self._send(encode.acks(PacketType.PUBCOMP, packet_ids))

    def _take(self, event: Publish) -> None:
        if event.qos == 1 or event.packet_id not in self._unreleased:
            self.deliveries.append(
                Delivery(self.name, event.topic.decode(), event.payload, now(), event.qos)
            )
        if event.qos == 2:
            self._unreleased.add(event.packet_id)
        kind = PacketType.PUBACK if event.qos == 1 else PacketType.PUBREC
        self._send(encode.acks(kind, [event.packet_id]))
