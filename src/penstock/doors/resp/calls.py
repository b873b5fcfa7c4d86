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

from penstock.access.logins import LoginFault, LoginRefusal
from penstock.doors.resp.access import OPEN, Access, Used, is_met, places
from penstock.doors.resp.faults import (
    CommandError,
    argument_fault,
    no_permission,
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
from penstock.trust.principal import Principal
from penstock.trust.rights import ALL_RIGHTS
from penstock.trust.rules import Action
from penstock.wire.resp import encode
from penstock.wire.resp.events import Event, RespColumns
from penstock.wire.resp.names import topic_of
from penstock.wire.resp.server import RespServerMachine

OK = encode.simple("OK")
DEFAULT_USER = "default"
LOGINS_MAX = 3  # wrong ones, then the connection is closed
NEXT, ALL = 1, 2  # replies a client does not want (CLIENT REPLY): the next, or all
QUEUED_MAX = 10_000
QUEUED_BYTES_MAX = 32 * MIB  # bytes of arguments, and commands, queued before EXEC
QUEUED = encode.simple("QUEUED")


class RespClient(Connection[Event]):
    """A Redis client: its state, as far as commands read or change it."""

    __slots__ = (
        "_closing",
        "_failed_logins",
        "_is_limited",
        "_refused_commands",
        "_stranger_since",
        "_waiting",
        "accepted_at",
        "client_name",
        "client_number",
        "door",
        "last_command",
        "library",
        "mutes",
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
        outbox = RespOutbox(door.connections, transport, self)
        super().__init__(door.connections, transport, machine, outbox, origin)
        self.door = door
        self.accepted_at = origin.accepted_at
        self.number = door.connections.ids.next()  # unique in the cluster; groups know it by this
        self.client_number = door.registry.next_number()  # CLIENT ID
        self.last_command = b""  # for CLIENT LIST
        self.mutes = 0  # replies it does not want: NEXT, ALL; 0: it wants all
        self.unblock: Callable[[str], None] | None = None  # ends a wait; not "": with this error
        self._waiting: tuple[Call, Spec] | None = None  # the command that blocks, or may have
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
        self._failed_logins = self._refused_commands = 0
        self._is_limited = False
        self.become(door.welcome(origin))

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

    @property
    def user(self) -> str:
        """The name that Redis has for a client without one, too."""
        return self.principal.user or DEFAULT_USER

    @property
    def is_authenticated(self) -> bool:
        return self.principal.is_known

    def become(self, principal: Principal) -> None:
        was_trusted, self._machine.is_trusted = self._machine.is_trusted, principal.is_known
        super().become(principal)
        self.limit()
        if principal.is_known and not was_trusted:
            self.door.loop.call_soon(self._receive_again)

    def logged_in(self, principal: Principal) -> None:
        self._failed_logins = 0
        self.become(principal)
        if self.meter is not None and self.meter.admit_subscriptions(self.subscriptions.count):
            self.subscriptions.clear()  # more than this user may have
        self.subscriptions.route_again()
        self.principal_changed()

    def login_failed(self, refusal: LoginRefusal) -> None:
        """As in Redis the client stays who it was; the third wrong login closes."""
        self.door.connections.throttled_log.info(
            "authentication_failed", protocol="resp", peer=self.peer
        )
        self._failed_logins += refusal.fault is LoginFault.WRONG
        if self._failed_logins >= LOGINS_MAX:
            self.close(refusal.reason, refusal.text)

    def principal_changed(self) -> None:
        """Judge again what lasts: replays of history, MONITOR, a command that blocks."""
        self.subscriptions.stop_denied_replays()
        if not self.door.admission.allows(self.principal, Action.ADMIN):
            self.door.registry.monitors.pop(self.outbox, None)
        if self.unblock is not None and self._waiting is not None:
            call, spec = self._waiting
            if fault := call.refusal(spec):
                self.unblock(fault)

    def runs(self, call: "Call", spec: "Spec") -> None:
        """Remember a command that may block."""
        self._waiting = call, spec

    def _receive_again(self) -> None:
        """Commands behind AUTH were parsed within the limits for strangers: parse them anew."""
        if self.reason is None:
            self.handle_later(self._machine.receive(b""))

    def forget_authentication(self) -> None:
        self.end_transaction()
        if self.is_authenticated:
            self._stranger_since = self.door.monotonic()
        self.become(self.door.welcome(self.origin))

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
    def blocked(self, unblock: Callable[[str], None]) -> Iterator[None]:
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
            self.args = with_topics(self.args, spec.keys)
        is_free = spec.access.is_admitted or self.connection.principal.rights is ALL_RIGHTS
        if not is_free and (fault := self.refusal(spec)):
            self.fail(fault)
            return
        if "blocking" in spec.flags:
            self.connection.runs(self, spec)  # also if it may do everything now
        spec.handler(self)

    def refusal(self, spec: "Spec") -> str:
        """Why the user may not run this, with these arguments; empty if it may."""
        args = with_topics(self.args, spec.keys)
        try:
            demands = list(spec.access.demands(args, spec.keys))
        except CommandError:
            return ""  # the handler has the same parser, and will say what is wrong
        admission, principal = self.door.admission, self.connection.principal
        for demand in demands:
            if not is_met(admission, principal, demand, len(self.tails)):
                name = self.connection.commands[args[0].upper()].full_name(args)
                return no_permission(demand.used, name)
        return ""

    def require(self, action: Action, *topics: bytes) -> None:
        """Raise CommandError if the user may not do this to one of these topics."""
        judge, principal = self.door.admission.judge, self.connection.principal
        if any(judge(principal, action, topic) for topic in topics):
            raise CommandError(no_permission(Used.KEY))

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
    access: Access  # what the user must be allowed
    is_pipelined: bool = False
    flags: tuple[str, ...] = ()
    keys: tuple[int, int, int] = (0, 0, 0)  # first and last argument that name a topic, step
    while_subscribed: bool = False  # allowed in RESP 2 while subscribed
    is_immediate: bool = False  # runs at once in a transaction, where others are queued
    subcommands: "Mapping[bytes, Spec] | None" = None  # in capitals; without one, ``handler`` runs
    columns: "ColumnsHandler | None" = None  # runs many with any arguments at once

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


# Runs commands at once that came in a row. It gets the time and the end of the turn, and returns
# how many it has taken, and will answer. The next one, if any, is run alone.
ColumnsHandler = Callable[[RespClient, RespColumns, int, float], int]

Commands = Mapping[bytes, Spec]  # commands by their names in capitals


def command_fault(args: list[bytes], spec: Spec | None) -> str:
    """What is wrong with a command that cannot be run; ``spec`` is that of its first argument."""
    if spec is None:
        return unknown_command(args)
    if spec.chosen(args) is None:
        return unknown_subcommand(args)
    return argument_fault(spec.full_name(args))


def flat(commands: Commands, prefix: bytes = b"") -> Iterator[tuple[bytes, Spec]]:
    """All commands and subcommands, by full names in small letters."""
    for name, spec in commands.items():
        yield prefix + name.lower(), spec
        yield from flat(spec.subcommands or {}, name.lower() + b"|")


def fail_unstored(call: Call, reason: DisconnectReason, _detail: str) -> None:
    if not call.closed:
        call.fail(not_stored(reason.value))


def container(subcommands: Commands) -> Spec:
    return Spec(_incomplete, -2, OPEN, subcommands=subcommands)


def _incomplete(call: Call) -> None:
    call.fail(argument_fault(call.args[0]))


def with_topics(args: list[bytes], keys: tuple[int, int, int]) -> list[bytes]:
    first, last, _step = keys
    if not first:
        return args
    if first == last:
        name = args[first]
        topic = topic_of(name)
        return args if topic is name else [*args[:first], topic, *args[first + 1 :]]
    topics = {position: topic_of(args[position]) for position in places(args, keys)}
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
