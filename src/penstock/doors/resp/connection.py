"""One Redis client's connection: when its commands run.

**Scheduling.** Pipelined commands run one after the other, answered or not. Any other command waits
until all before it are answered, and holds up those behind it until it is: so a client reads its
own writes. What may not run yet is held, and nothing more is read meanwhile. While a command blocks
with nothing behind it the socket is still read: only so is it seen that the client has left.

**Unread replies.** A command that is not pipelined waits until the client has read most of the
replies before it. A client that reads nothing while its commands wait is closed.

**Limited clients.** Before authentication, and in RESP 2 while subscribed (unless history is
replayed), few commands are allowed. One flag marks a limited client.

There is no idle timeout, as in Redis; TCP keep-alive finds dead peers.
"""

import asyncio

from penstock.config.schema import Limits
from penstock.doors.resp.calls import NEXT, Call, MuteCall, RespClient, Spec, command_fault
from penstock.doors.resp.commands import COMMANDS
from penstock.doors.resp.faults import not_while_subscribed
from penstock.doors.resp.parts import PROTOCOL, RespParts
from penstock.limits import KIB
from penstock.net.connection import enable_tcp_keep_alive
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.rights import ALL_RIGHTS
from penstock.wire.resp.events import Event, RespColumns, RespCommand
from penstock.wire.resp.server import RespServerMachine
from penstock.wire.violation import Violation

INLINE_BYTES_MAX = 64 * KIB  # A line typed by hand; as in Redis
COMMAND_OVERHEAD_BYTES_MAX = 64 * KIB  # for all but the largest argument: names, options
REFUSED_MAX = 128  # commands of a stranger, some 4 KiB of answers; then it is closed
ALONE_AT_ONCE = 64  # commands that follow one which must run alone, and do so, too
UNREAD_S = 30.0  # how long a client may take to read anything while commands of it wait for room


class RespConnection(RespClient):
    """One client's connection."""

    protocol_name = PROTOCOL

    __slots__ = ("_unread",)

    commands = COMMANDS

    def __init__(self, door: RespParts, transport: asyncio.Transport, origin: Origin) -> None:
        super().__init__(door, transport, _machine(door.limits), origin)
        self._unread = 0, 0.0  # bytes unread by the client at the last check, and since when
        door.counters.clients_connected += 1
        enable_tcp_keep_alive(transport)
        self.check_deadline_at(origin.accepted_at + door.limits.connect_timeout_s)

    @property
    def pattern_count(self) -> int:
        return len(self.subscriptions.patterns)

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        event = events[position]
        if type(event) is RespColumns:
            if self._take_columns(event, events, position, now_ms, turn_ends_at):
                return position + 1
            event = events[position]
        if self.mutes:
            event = self._split(events, position)
        spec = self._spec(event)
        is_pipelined = spec is not None and spec.is_pipelined
        if not is_pipelined:
            if self.replies.is_waiting or self.outbox.is_crowded:
                return position
            event = self._split(events, position)
            is_looking = spec is not None and self._is_looking(spec)
            if is_looking and not self.reads.may_run(events[-1]):
                return position
        self._run(event, spec, now_ms)
        if event is self.reads.last:
            self.reads.passed()
        if not is_pipelined and self.replies.is_waiting:
            self.block_input()
        return position + 1

    def _take_columns(
        self,
        columns: RespColumns,
        events: list[Event],
        position: int,
        now_ms: int,
        turn_ends_at: float,
    ) -> bool:
        """Run commands at once, as many as go the same way; those that are left become events.

        Returns False if there are none: the next is a command that runs alone.
        """
        spec, count, taken = COMMANDS[columns.name.upper()], columns.count, 0
        if (
            spec.columns is not None
            and spec.fits(columns.arguments)
            and not (self.mutes or self._is_limited or self.door.registry.monitors)
            and self.transaction is None
        ):
            taken = spec.columns(self, columns, now_ms, turn_ends_at)
            self.door.registry.commands_total += taken
            self.last_command = columns.name
            if taken == count and columns is not self.reads.last:
                return True
        left: list[Event] = []
        alone = 0
        if not taken:
            left, alone = _alone(columns)
        if max(taken, alone) < count:
            left.append(columns.cut(max(taken, alone)))
        events[position + bool(taken) : position + 1] = left
        if columns is self.reads.last:
            self.reads.last = left[-1] if left else None
            if not left:
                self.reads.passed()
        return taken > 0

    def _is_looking(self, spec: Spec) -> bool:
        """Whether a command must see all that was acknowledged before, even if not on disk."""
        if self.transaction is not None:
            return False
        names_topic = any(spec.keys) or "write" in spec.flags or spec.subcommands is not None
        return spec.is_read or (names_topic and self.door.pipeline.is_unsettled)

    def _split(self, events: list[Event], position: int) -> Event:
        event = events[position]
        if type(event) is RespCommand and event.more:
            singles = _singles(event)
            if event is self.reads.last:
                self.reads.last = singles[-1]
            events[position : position + 1] = singles
        return events[position]

    def _spec(self, event: Event) -> Spec | None:
        if type(event) is not RespCommand:
            return None
        name = event.args[0]
        return COMMANDS.get(name) or COMMANDS.get(name.upper())

    def _run(self, event: Event, spec: Spec | None, now_ms: int) -> None:
        assert not isinstance(event, RespColumns)
        if isinstance(event, Violation):
            self.send(event.error + b"\r\n")
            self.close(event.reason, event.detail)
            return
        args = event.args
        tails = [args[-1], *event.more]
        call = (
            self._mute_call(args, tails, now_ms) if self.mutes else Call(self, args, tails, now_ms)
        )
        self.replies.open(call)
        self.door.registry.commands_total += len(tails)
        chosen = spec.chosen(args) if spec else None
        if chosen is None or not chosen.fits(len(args)):
            self._refuse(call, command_fault(args, spec))
            return
        self.last_command = args[0] if chosen is spec else b"|".join(args[:2])
        if self._is_limited or self.transaction is not None or self.reads.last is not None:
            self._begin_or_queue(call, chosen)
        else:
            call.run(chosen)

    def _begin_or_queue(self, call: Call, spec: Spec) -> None:
        if refusal := self._refusal(call.args, spec):
            self._refuse(call, refusal)
        elif self.transaction is not None and not spec.is_immediate:
            self._queue(call, spec)
        else:
            call.run(spec)

    def _queue(self, call: Call, spec: Spec) -> None:
        """Judge a command when it is queued; EXEC judges it again."""
        assert self.transaction is not None
        if self.principal.rights is not ALL_RIGHTS and (fault := call.refusal(spec)):
            self._refuse(call, fault)
        else:
            self.transaction.add(spec, call)

    def _mute_call(self, args: list[bytes], tails: list[bytes], now_ms: int) -> Call:
        if self.mutes == NEXT:
            self.mutes = 0
        return MuteCall(self, args, tails, now_ms)

    def _refuse(self, call: Call, fault: str) -> None:
        if self.transaction is not None:
            self.transaction.is_broken = True
        call.fail(fault)

    def _answered(self) -> None:
        if self._blocks:
            self.unblock_input()
        else:
            self.go_on_if_held()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.go_on_if_held()

    def go_on_if_held(self) -> None:
        if self._held:
            self.resume_soon()

    def _refusal(self, args: list[bytes], spec: Spec) -> str:
        refusal = self._limitation(args, spec) if self._is_limited else ""
        return refusal or (self.reads.refusal() if spec.is_read else "")

    def _limitation(self, args: list[bytes], spec: Spec) -> str:
        if not self.is_authenticated:
            return "" if "no_auth" in spec.flags else self._turn_away()
        if spec.while_subscribed:
            return ""
        return not_while_subscribed(COMMANDS[args[0].upper()].full_name(args))

    def _turn_away(self) -> str:
        """Refuse a command of a stranger, as long as it does not make work of it."""
        self._refused_commands += 1
        if self._refused_commands > REFUSED_MAX:
            self.close(DisconnectReason.LOGIN_REQUIRED, "many commands before AUTH")
        return "NOAUTH Authentication required."

    def deadline(self) -> tuple[float, DisconnectReason]:
        """The connect timeout, until the client authenticates; no other command extends it."""
        if self._has_spoken and self.is_authenticated:
            return float("inf"), DisconnectReason.IDLE_TIMEOUT
        timeout_s = self.door.limits.connect_timeout_s
        return self._stranger_since + timeout_s, DisconnectReason.CONNECT_TIMEOUT

    def overdue(self, now: float) -> float | None:
        """Enforce the deadline; also close a client that reads nothing while its commands wait."""
        if self.reason is None and self.outbox.is_crowded and self._held:
            unread, since = self._unread
            waiting = self._transport.get_write_buffer_size()
            if waiting != unread:
                self._unread = waiting, now
            elif now - since > UNREAD_S:
                self.close(DisconnectReason.SLOW_READER, f"{waiting} bytes of answers unread")
        return super().overdue(now)

    def forgive(self, stalled_s: float) -> None:
        super().forgive(stalled_s)
        self._stranger_since += stalled_s
        self._unread = self._unread[0], self._unread[1] + stalled_s


def _machine(limits: Limits) -> RespServerMachine:
    bytes_max = limits.frame_bytes_max
    return RespServerMachine(
        bulk_bytes_max=bytes_max,
        inline_bytes_max=min(INLINE_BYTES_MAX, bytes_max),
        command_bytes_max=bytes_max + COMMAND_OVERHEAD_BYTES_MAX,
    )


def _alone(columns: RespColumns) -> tuple[list[Event], int]:
    """The first commands as they run without the others, and how many they are.

    PUBLISH to one channel is one run: what is found out about its first command, in a guarded topic
    or for a monitor, holds for the others.
    """
    alike = columns.count_before(columns.distinct[:1]) if columns.arguments == 3 else 1
    if alike == 1:
        singles = columns.cut(0, ALONE_AT_ONCE).commands()
        return [*singles], len(singles)
    channels, payloads = columns.cut(0, alike).columns
    return [RespCommand([columns.name, channels[0], payloads[0]], payloads[1:])], alike


def _singles(run: RespCommand) -> list[Event]:
    head = run.args[:-1]
    return [RespCommand(run.args, []), *(RespCommand([*head, tail], []) for tail in run.more)]
