"""The client as commands see it, a command on its way, and what a command is.

A handler gets a ``Call`` and answers it exactly once: before it returns, or later, from a callback.
Handlers of **pipelined** commands get a run of them in one call (commands that differ in nothing
but the last argument, ``tails``) and are called whether or not earlier ones were answered. All
others get one command at a time, with nothing unanswered before it, and nothing behind it begins
before it is answered. ``connection.RespConnection`` decides when commands run.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal, NamedTuple

from penstock.doors.resp.faults import (
    argument_fault,
    not_stored,
    unknown_command,
    unknown_subcommand,
)
from penstock.doors.resp.outbox import RespOutbox
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.pulled_jobs import PulledJobs
from penstock.doors.resp.reads import ReadBarrier
from penstock.doors.resp.replies import ReplyQueue
from penstock.doors.resp.subscriptions import Subscriptions
from penstock.limits import MIB
from penstock.net.connection import Connection
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode
from penstock.wire.resp.events import Event
from penstock.wire.resp.names import topic_of
from penstock.wire.resp.server import RespServerMachine

OK = encode.simple("OK")
NEXT, ALL = 1, 2  # replies a client does not want (CLIENT REPLY): the next, or all
QUEUED_MAX = 10_000
QUEUED_BYTES_MAX = 32 * MIB  # bytes of arguments, and commands, queued before EXEC
QUEUED = encode.simple("QUEUED")


class RespClient(Connection[Event]):
    """A Redis client: its state, as far as commands read or change it."""

    __slots__ = (
        "_closing",
        "_is_limited",
        "_stranger_since",
        "accepted_at",
        "client_name",
        "client_number",
        "door",
        "is_authenticated",
        "last_command",
        "library",
        "mutes",
        "number",
        "protocol",
        "pulled",
        "reads",
        "replies",
        "subscriptions",
        "transaction",
        "unblock",
    )

    outbox: RespOutbox
    _machine: RespServerMachine
    commands: "ClassVar[Commands]"

    def __init__(
        self,
        door: RespParts,
        transport: asyncio.Transport,
        machine: RespServerMachine,
        origin: Origin,
    ) -> None:
        outbox = RespOutbox(door.connections, transport, self.close)
        super().__init__(door.connections, transport, machine, outbox, origin)
        self.door = door
        self.accepted_at = origin.accepted_at
        self.number = door.connections.ids.next()  # unique in the cluster; groups know it by this
        self.client_number = door.registry.next_number()  # CLIENT ID
        self.last_command = b""  # for CLIENT LIST
        self.mutes = 0  # replies it does not want: NEXT, ALL; 0: it wants all
        self.unblock: Callable[[bool], None] | None = None  # ends a wait; True: with an error
        self.protocol: Literal[2, 3] = 2
        self.client_name = b""
        self.library = {b"LIB-NAME": b"", b"LIB-VER": b""}
        self.replies = ReplyQueue(outbox.send, self._answered)
        self.subscriptions = Subscriptions(self)
        self.reads = ReadBarrier(door.cluster, self.go_on_if_held)
        self.transaction: Transaction | None = None  # since MULTI
        self.pulled: PulledJobs | None = None  # since its first PULL
        self._closing: dict[Callable[[], None], None] = {}
        self._stranger_since = origin.accepted_at  # since when it could have sent the password
        self.is_authenticated = not door.settings.password
        machine.is_trusted = self.is_authenticated
        self._is_limited = not self.is_authenticated

    @property
    def name(self) -> bytes:
        return self.client_name

    @property
    def local(self) -> str:
        host, port, *_ = self._transport.get_extra_info("sockname")
        return f"{host}:{port}"

    # ── scheduling, by the connection ─────────────────────────────────────────────────────────

    def _answered(self) -> None:
        raise NotImplementedError

    def go_on_if_held(self) -> None:
        raise NotImplementedError

    # ── authentication, and what it may do ────────────────────────────────────────────────────

    def authenticate(self) -> None:
        self.is_authenticated = True
        self._machine.is_trusted = True
        self.limit()
        self.door.loop.call_soon(self._receive_again)

    def _receive_again(self) -> None:
        """Commands behind AUTH were parsed within the limits for strangers: parse them anew."""
        if self.reason is None:
            self.handle_later(self._machine.receive(b""))

    def forget_authentication(self) -> None:
        self.end_transaction()
        if self.is_authenticated:
            self._stranger_since = self.door.monotonic()
        self.is_authenticated = not self.door.settings.password
        self._machine.is_trusted = self.is_authenticated
        self.limit()

    def end_transaction(self) -> None:
        if self.transaction is not None:
            self.door.connections.incomplete.forget(self.transaction)
            self.transaction = None

    def limit(self) -> None:
        """Work out whether all commands are allowed; to be called when that may have changed."""
        # Subscribed in strict RESP 2, whatever arrives might be a message.
        is_strict = self.protocol == 2 and not self.door.settings.replay
        is_listening_only = is_strict and self.subscriptions.count > 0
        self._is_limited = not self.is_authenticated or is_listening_only

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def blocked(self, unblock: Callable[[bool], None]) -> Iterator[None]:
        """A command waits; ``unblock`` ends that, with an error or without."""
        self.unblock = unblock
        try:
            yield
        finally:
            self.unblock = None

    def on_close(self, callback: Callable[[], None]) -> None:
        self._closing[callback] = None

    def off_close(self, callback: Callable[[], None]) -> None:
        self._closing.pop(callback, None)

    def let_go(self) -> None:
        self.door.counters.clients_connected -= 1
        self.subscriptions.clear()
        self.door.registry.monitors.pop(self.outbox, None)
        self.end_transaction()
        closing, self._closing = self._closing, {}
        for callback in closing:
            callback()


class Call:
    """One command, or a run of pipelined ones, waiting for its answer."""

    __slots__ = ("answer", "args", "connection", "now_ms", "tails")

    may_block = True  # not within a transaction

    def __init__(
        self, connection: RespClient, args: list[bytes], tails: list[bytes], now_ms: int
    ) -> None:
        self.connection = connection
        self.args = args  # of the first command of the run, its name included
        self.tails = tails  # the last argument of each command of the run, the first included
        self.now_ms = now_ms
        self.answer: bytes | None = None

    @property
    def door(self) -> RespParts:
        return self.connection.door

    @property
    def closed(self) -> bool:
        return self.connection.reason is not None

    def run(self, spec: "Spec") -> None:
        registry = self.connection.door.registry
        if registry.monitors:
            registry.show(self.connection.peer, self.args, self.tails, self.now_ms)
        if spec.keys[0]:
            self.args = _with_topics(self.args, spec.keys)
        spec.handler(self)

    def reply(self, data: bytes) -> None:
        """Answer with encoded data; for a run, the answers of all, joined."""
        self.connection.replies.fill(self, data)

    def insist(self, data: bytes) -> None:
        self.reply(data)

    def value(self, item: encode.Value) -> None:
        self.reply(encode.value(item, self.connection.protocol))

    def fail(self, text: str) -> None:
        self.connection.door.counters.refused_total += len(self.tails)
        self.reply(encode.error(text) * len(self.tails))


class MuteCall(Call):
    """A command whose answer the client does not want."""

    __slots__ = ()

    def reply(self, _data: bytes) -> None:
        super().reply(b"")

    def insist(self, data: bytes) -> None:
        super().reply(data)


class Spec(NamedTuple):
    """The declaration of a command: its handler, and what COMMAND shows of it."""

    handler: Callable[[Call], None]
    arity: int  # arguments, the name included; negative: at least that many
    is_pipelined: bool = False
    flags: tuple[str, ...] = ()
    keys: tuple[int, int, int] = (0, 0, 0)  # first and last argument that name a topic, step
    while_subscribed: bool = False  # allowed in RESP 2 while subscribed
    is_immediate: bool = False  # runs at once in a transaction, where others are queued
    subcommands: "Mapping[bytes, Spec] | None" = None  # in capitals; without one, ``handler`` runs

    @property
    def is_read(self) -> bool:
        return "readonly" in self.flags or any(
            "readonly" in spec.flags for spec in (self.subcommands or {}).values()
        )

    def chosen(self, args: list[bytes]) -> "Spec | None":
        """Itself, or the subcommand that the second argument names; None if it does not exist."""
        if self.subcommands is None or len(args) < 2:
            return self
        return self.subcommands.get(args[1].upper())

    def fits(self, count: int) -> bool:
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def full_name(self, args: list[bytes]) -> bytes:
        return args[0] if self.subcommands is None else b"|".join(args[:2])


Commands = Mapping[bytes, Spec]  # commands by their names in capitals


def command_fault(args: list[bytes], spec: Spec | None) -> str:
    """What is wrong with a command that cannot be run; ``spec`` is that of its first argument."""
    if spec is None:
        return unknown_command(args)
    if spec.chosen(args) is None:
        return unknown_subcommand(args)
    return argument_fault(spec.full_name(args))


def fail_unstored(call: Call, reason: DisconnectReason, _detail: str) -> None:
    if not call.closed:
        call.fail(not_stored(reason.value))


def container(subcommands: Commands) -> Spec:
    return Spec(_incomplete, -2, subcommands=subcommands)


def _incomplete(call: Call) -> None:
    call.fail(argument_fault(call.args[0]))


def _with_topics(args: list[bytes], keys: tuple[int, int, int]) -> list[bytes]:
    first, last, step = keys
    if first == last:
        name = args[first]
        topic = topic_of(name)
        return args if topic is name else [*args[:first], topic, *args[first + 1 :]]
    positions = range(first, last + 1 if last >= 0 else len(args) + 1 + last, step)
    topics = {position: topic_of(args[position]) for position in positions}
    if all(args[position] == topic for position, topic in topics.items()):
        return args
    return [topics.get(position, argument) for position, argument in enumerate(args)]


class Transaction:
    """What a connection has queued since MULTI; counts as an incomplete packet until EXEC."""

    __slots__ = ("_bytes", "_connection", "is_broken", "queue")

    def __init__(self, connection: RespClient) -> None:
        self._connection = connection
        self.queue: list[tuple[Spec, list[bytes]]] = []
        self.is_broken = False  # a command was refused: EXEC will run none
        self._bytes = 0

    def add(self, spec: Spec, call: Call) -> None:
        head = call.args[:-1]
        self._bytes += sum(map(len, head)) * len(call.tails) + sum(map(len, call.tails))
        count = len(self.queue) + len(call.tails)
        if count > QUEUED_MAX or self._bytes > QUEUED_BYTES_MAX:
            self.is_broken = True
            self.queue.clear()
            self._bytes = 0
            bound = f"{QUEUED_MAX} commands, {QUEUED_BYTES_MAX} bytes"
            call.fail(f"ERR The transaction is too large: it may have {bound}")
            return
        if not self.is_broken:
            self.queue += [(spec, [*head, tail]) for tail in call.tails]
        call.reply(QUEUED * len(call.tails))
        self._connection.door.connections.incomplete.note(self, self._bytes)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """All connections together hold too much, and this one was silent for longest."""
        self._connection.close(reason, detail)
