"""An outbox of an MQTT connection without a broker around it."""

from types import SimpleNamespace
from typing import Any

from penstock.core.retained import Retained
from penstock.core.subscription_options import Marks
from penstock.doors.mqtt.fetch_queue import FetchQueue
from penstock.doors.mqtt.outbox import MqttOutbox
from penstock.model.message import Message
from penstock.net.budget import Budget
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason, DropReason

BOUND = 1_000


class Loop:
    """Calls soon, when told to."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_soon(self, function: Any, *arguments: Any) -> None:
        self.due.append((function, arguments))

    def run(self) -> None:
        while self.due:
            function, arguments = self.due.pop(0)
            function(*arguments)


class Bench:
    """An outbox with a transport that notes writes, and a journal that answers when told to."""

    name = b"slow"

    def __init__(self) -> None:
        self.loop = Loop()
        self.buffered = 0
        self.writes: list[bytes] = []
        self.marks: list[int] = []
        self.reads: list[tuple[list[int], Any, Any, int]] = []
        self.lost: list[int] = []
        self.lost_for: dict[DropReason, list[int]] = {}
        self.now_ms = 1_000_000
        self.subscriptions: dict[bytes, Marks] = {}  # what they add to messages of a topic
        self.given_up: list[tuple[DisconnectReason, str]] = []
        self.gone: set[int] = set()
        self.messages: dict[int, Message] = {}  # those that are not as ``stored`` makes them
        self.denied: set[bytes] = set()  # topics that the client may not receive
        self.counters = Counters()
        self.retained = Retained()
        connections: Any = SimpleNamespace(
            limits=SimpleNamespace(outbound_bytes_max=BOUND),
            counters=self.counters,
            flusher=SimpleNamespace(flush_soon=lambda box: self.loop.call_soon(box.flush)),
            budget=Budget(1 << 20, self.loop.call_soon),
            loop=self.loop,
            wall_ms=lambda: self.now_ms,
        )
        door: Any = SimpleNamespace(
            connections=connections,
            broker=SimpleNamespace(retained=self.retained),
            readers=SimpleNamespace(read=lambda *arguments: self.reads.append(arguments)),
            tracing=None,
        )
        door.fetch_queue = FetchQueue(connections)
        self.door = door
        transport: Any = SimpleNamespace(
            get_write_buffer_size=lambda: self.buffered,
            is_closing=lambda: False,
            write=self.writes.append,
            set_write_buffer_limits=lambda high: self.marks.append(high),  # noqa: PLW0108
        )
        self.outbox = MqttOutbox(door, transport, self)

    # ── the connection, as the outbox sees it ─────────────────────────────────────────────────

    def lose(self, packet_ids: list[int], reason: DropReason) -> None:
        self.lost += packet_ids
        self.lost_for.setdefault(reason, []).extend(packet_ids)

    def may_receive(self, topic: bytes) -> bool:
        return topic not in self.denied

    def marks_of(self, topic: bytes, _flags: int, _packet_id: int) -> Marks | None:
        return self.subscriptions.get(topic)

    def on_idle(self) -> None:
        pass

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        self.given_up.append((reason, detail))

    # ── for tests ─────────────────────────────────────────────────────────────────────────────

    def answer_reads(self) -> None:
        """The journal has message *n* as ``stored`` says, unless it is gone."""
        while self.reads:
            sequences, deliver, _fail, _bytes_max = self.reads.pop(0)
            deliver({s: None if s in self.gone else self.stored(s) for s in sequences})
            self.loop.run()

    def stored(self, sequence: int) -> Message:
        return self.messages.get(sequence) or stored(sequence)

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)


def stored(sequence: int) -> Message:
    """Payload ``b"n"`` on topic ``t``."""
    return Message(b"t", b"%d" % sequence, sequence, sequence, 0, 1)
