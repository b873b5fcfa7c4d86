"""What a command did wrong, in the words of Redis: people search for them, libraries match them."""

from typing import TYPE_CHECKING

from penstock.doors.resp.unsupported import advice
from penstock.obs.reasons import DisconnectReason

if TYPE_CHECKING:
    from penstock.doors.resp.calls import Spec


SHOWN_BYTES_MAX = 128
"""How much of a name, and of all arguments together, an error repeats; as in Redis."""


def publish_fault(refused: tuple[DisconnectReason, str]) -> str:
    """Nobody may publish to the topic, or not without a signature; that has words of its own."""
    reason, text = refused
    is_unsigned = reason is DisconnectReason.SIGNATURE_REFUSED
    return f"ERR {text}" if is_unsigned else f"ERR {reason.value}: {text}"


def command_fault(args: list[bytes], spec: "Spec | None") -> str:
    """What is wrong with a command that cannot be run; ``spec`` is its first word's, if known."""
    if spec is None:
        name = args[0][:SHOWN_BYTES_MAX]
        told = advice(name)
        return f"ERR unknown command '{_text(name)}': {told}" if told else _unknown_command(args)
    if spec.chosen(args) is None:
        return _unknown_subcommand(args)
    return argument_fault(_name(args, spec))


def not_while_subscribed(args: list[bytes], spec: "Spec") -> str:
    """The client listens, and may do little else."""
    name = _text(_name(args, spec)).lower()
    return (
        f"ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT /"
        " RESET are allowed in this context"
    )


def _name(args: list[bytes], spec: "Spec") -> bytes:
    """The full name, ``client|id``."""
    return args[0] if spec.subcommands is None else b"|".join(args[:2])


def _unknown_command(args: list[bytes]) -> str:
    shown = ""
    for argument in args[1:]:
        if len(shown) >= SHOWN_BYTES_MAX:
            break
        shown += f"'{_text(argument[: SHOWN_BYTES_MAX - len(shown)])}' "
    name = _text(args[0][:SHOWN_BYTES_MAX])
    return f"ERR unknown command '{name}', with args beginning with: {shown}"


def _unknown_subcommand(args: list[bytes]) -> str:
    name, subcommand = _text(args[0]).upper(), _text(args[1][:SHOWN_BYTES_MAX])
    return f"ERR unknown subcommand '{subcommand}'. Try {name} HELP."


def argument_fault(name: bytes) -> str:
    """The command is known, but takes another number of arguments."""
    return f"ERR wrong number of arguments for '{_text(name).lower()}' command"


def extra_argument(args: list[bytes]) -> str:
    """A subcommand has more arguments than it takes; some say it in these words."""
    subcommand, name = _text(args[1][:SHOWN_BYTES_MAX]), _text(args[0]).upper()
    words = f"unknown subcommand or wrong number of arguments for '{subcommand}'"
    return f"ERR {words}. Try {name} HELP."


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
