"""MULTI and EXEC: commands are queued, then run one after the other.

As in Redis there is no rollback. A malformed command is refused at once, and EXEC then runs
nothing. Unlike in Redis, other clients may be served between two commands of a transaction: those
that wait for the disk would hold up everybody. Pipelined commands begin without waiting for earlier
replies, so that a transaction of many XADDs is one commit. No command blocks. WATCH is refused.
"""

from penstock.doors.resp.access import OPEN
from penstock.doors.resp.calls import OK, Call, Commands, RespClient, Spec, Transaction
from penstock.doors.resp.confirming import confirm
from penstock.net.turns import TURN_S
from penstock.wire.resp import encode


class _QueuedCall(Call):
    """A command of a transaction: its answer goes into that of EXEC."""

    __slots__ = ("_execution", "_number")
    may_block = False

    def __init__(
        self, connection: RespClient, args: list[bytes], execution: "_Execution", number: int
    ) -> None:
        super().__init__(connection, args, args[-1:], execution.now_ms)
        self._execution = execution
        self._number = number

    def reply(self, data: bytes) -> None:
        self._execution.answered(self._number, data)


class _Execution:
    """An EXEC under way."""

    def __init__(self, call: Call, queue: list[tuple[Spec, list[bytes]]]) -> None:
        self._call = call
        self.now_ms = call.now_ms
        self._queue = queue
        self._answers: list[bytes] = [b""] * len(queue)
        self._position = 0
        self._waits = 0  # commands that have begun and are not answered
        self._is_running = False
        self._confirmed = -1  # the last command for which the disk was waited for

    def go_on(self) -> None:
        if self._call.closed or self._is_running:
            return
        self._is_running = True
        connection = self._call.connection
        ends_at = connection.door.monotonic() + TURN_S
        while self._position < len(self._queue):
            spec, args = self._queue[self._position]
            if not spec.is_pipelined and (self._waits or self._confirms()):
                break
            if connection.door.monotonic() > ends_at:
                connection.door.loop.call_soon(self.go_on)
                break
            self._waits += 1
            queued = _QueuedCall(connection, args, self, self._position)
            self._position += 1
            queued.run(spec)
            if self._waits and not spec.is_pipelined:
                break
        self._is_running = False
        if self._position == len(self._queue) and not self._waits and not self._call.closed:
            self._call.reply(encode.array(self._answers))

    def _confirms(self) -> bool:
        """Whether what was acknowledged must reach the disk before the next command looks at it."""
        if self._confirmed == self._position or not self._call.door.pipeline.is_unsettled:
            return False
        self._confirmed = self._position
        confirm(self._call, self._go_on_soon)
        return True

    def _go_on_soon(self, _refusal: str) -> None:
        self._call.door.loop.call_soon(self.go_on)

    def answered(self, number: int, data: bytes) -> None:
        self._answers[number] = data
        self._waits -= 1
        if not self._waits:
            self.go_on()


def _multi(call: Call) -> None:
    """Begin a transaction: commands are queued until EXEC."""
    if call.connection.transaction is not None:
        call.fail("ERR MULTI calls can not be nested")
        return
    call.connection.transaction = Transaction(call.connection)
    call.reply(OK)


def _exec(call: Call) -> None:
    """Run the commands that were queued since MULTI."""
    transaction = call.connection.transaction
    if transaction is None:
        call.fail("ERR EXEC without MULTI")
        return
    call.connection.end_transaction()
    if transaction.is_broken:
        call.fail("EXECABORT Transaction discarded because of previous errors.")
    elif any(spec.is_read for spec, _ in transaction.queue):
        confirm(call, lambda refusal: _execute(call, transaction, refusal))
    else:
        _execute(call, transaction, "")


def _execute(call: Call, transaction: Transaction, refusal: str) -> None:
    """Run what was queued, unless its reads would be out of date."""
    if refusal:
        call.fail(refusal)
    else:
        _Execution(call, transaction.queue).go_on()


def _discard(call: Call) -> None:
    """Drop the commands that were queued since MULTI."""
    if call.connection.transaction is None:
        call.fail("ERR DISCARD without MULTI")
        return
    call.connection.end_transaction()
    call.reply(OK)


def _watch(call: Call) -> None:
    """Refused: there are no keys that could change."""
    if call.connection.transaction is not None:
        call.fail("ERR WATCH inside MULTI is not allowed")
        return
    call.fail(
        "ERR WATCH is not supported: Penstock has no keys to watch. Use MULTI and EXEC without it,"
        " or a consumer group where each message must have one taker"
    )


def _unwatch(call: Call) -> None:
    """Accepted without effect: nothing is ever watched."""
    call.reply(OK)


_FLAGS = ("noscript", "loading", "stale", "fast")

COMMANDS: Commands = {
    b"MULTI": Spec(_multi, 1, OPEN, flags=_FLAGS, is_immediate=True),
    b"EXEC": Spec(_exec, 1, OPEN, flags=("noscript", "loading", "stale"), is_immediate=True),
    b"DISCARD": Spec(_discard, 1, OPEN, flags=_FLAGS, is_immediate=True),
    b"WATCH": Spec(_watch, -2, OPEN, flags=_FLAGS, keys=(1, -1, 1), is_immediate=True),
    b"UNWATCH": Spec(_unwatch, 1, OPEN, flags=_FLAGS),
}
