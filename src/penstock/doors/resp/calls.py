"""A command on its way, and what is known of each command.

A handler gets a ``Call`` and answers it exactly once: before it returns, or later, from a callback.
Handlers of **pipelined** commands get a run of them in one call (commands that differ in nothing
but the last argument, ``tails``) and are called whether or not earlier ones were answered. All
others get one command at a time, with nothing unanswered before it, and nothing behind it begins
before it is answered; so whoever waits for an answer holds up its own connection only.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.doors.resp.faults import argument_fault
from penstock.wire.resp import encode

if TYPE_CHECKING:
    from penstock.doors.resp.connection import RespConnection


OK = encode.simple("OK")

NEXT, ALL = 1, 2
"""Whose answers a client does not want (CLIENT REPLY): those of its next command, or all."""


class Call:
    """One command, or a run of pipelined ones, waiting for its answer."""

    __slots__ = ("answer", "args", "connection", "now_ms", "tails")

    may_block = True
    """Whether it may wait for something to come: not within a transaction."""

    def __init__(
        self, connection: "RespConnection", args: list[bytes], tails: list[bytes], now_ms: int
    ) -> None:
        self.connection = connection
        self.args = args
        """Of the first command of the run, its name included."""
        self.tails = tails
        """The last argument of each command of the run, the first included."""
        self.now_ms = now_ms
        self.answer: bytes | None = None

    @property
    def closed(self) -> bool:
        """Whether the client is gone: there is nobody to answer."""
        return self.connection.reason is not None

    def reply(self, data: bytes) -> None:
        """Answer with encoded data; for a run, the answers of all, joined."""
        self.connection.replies.fill(self, data)

    def insist(self, data: bytes) -> None:
        """Answer even if the client did not want answers when the command came."""
        self.reply(data)

    def value(self, item: encode.Value) -> None:
        """Answer one command with a Python value."""
        self.reply(encode.value(item, self.connection.protocol))

    def fail(self, text: str) -> None:
        """Answer with an error, every command of the run."""
        self.connection.hub.counters.refused_total += len(self.tails)
        self.reply(encode.error(text) * len(self.tails))


class MuteCall(Call):
    """A command whose answer the client does not want."""

    __slots__ = ()

    def reply(self, _data: bytes) -> None:
        """Answer with nothing."""
        super().reply(b"")

    def insist(self, data: bytes) -> None:
        """Answer all the same."""
        super().reply(data)


class Spec(NamedTuple):
    """A command: what carries it out, and what COMMAND tells of it."""

    handler: Callable[[Call], None]
    arity: int
    """Arguments, the name included; negative: at least so many."""
    is_pipelined: bool = False
    flags: tuple[str, ...] = ()
    keys: tuple[int, int, int] = (0, 0, 0)
    """Positions of the first and last argument that name a topic, and the step between them."""
    subcommands: "Mapping[bytes, Spec] | None" = None
    """By their names in capitals; ``handler`` is then called only if none was given."""

    @property
    def is_read(self) -> bool:
        """Whether it, or a subcommand of it, tells what is there and changes nothing."""
        return "readonly" in self.flags or any(
            "readonly" in spec.flags for spec in (self.subcommands or {}).values()
        )

    def chosen(self, args: list[bytes]) -> "Spec | None":
        """Itself, or the subcommand that the second word names; None if there is no such."""
        if self.subcommands is None or len(args) < 2:
            return self
        return self.subcommands.get(args[1].upper())

    def fits(self, count: int) -> bool:
        """Whether a command may have so many arguments, its name included."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity


Commands = Mapping[bytes, Spec]
"""Commands by their names in capitals."""


def container(subcommands: Commands) -> Spec:
    """A command that is nothing without its second word."""
    return Spec(_incomplete, -2, subcommands=subcommands)


def _incomplete(call: Call) -> None:
    call.fail(argument_fault(call.args[0]))
