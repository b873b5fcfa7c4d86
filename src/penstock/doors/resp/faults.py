"""Errors in the words of Redis: people search for them, and libraries match them."""

from penstock.doors.resp.access import Used
from penstock.doors.resp.unsupported import advice
from penstock.errors import PenstockError
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp.names import name_of

SHOWN_BYTES_MAX = 128  # of a name, or of all arguments, that an error repeats; as in Redis
SYNTAX = "ERR syntax error"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use"
    " the MKSTREAM option to create an empty stream automatically."
)


class CommandError(PenstockError):
    """The command is answered with an error: ``message``, its code first."""


def no_permission(used: Used, command: bytes = b"") -> str:
    """Why the user may not: the command itself, or one of its arguments."""
    if used is Used.COMMAND:
        return f"NOPERM this user has no permissions to run the '{_text(command).lower()}' command"
    what = f"one of the {used.value}s used as arguments"
    return f"NOPERM this user has no permissions to access {what}"


def publish_fault(refused: tuple[DisconnectReason, str], used: Used) -> str:
    reason, text = refused
    if reason is DisconnectReason.NOT_AUTHORIZED:
        return no_permission(used)
    is_unsigned = reason is DisconnectReason.SIGNATURE_REFUSED
    return f"ERR {text}" if is_unsigned else f"ERR {reason.value}: {text}"


def not_while_subscribed(name: bytes) -> str:
    return (
        f"ERR Can't execute '{_text(name).lower()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING"
        " / QUIT / RESET are allowed in this context"
    )


def unknown_command(args: list[bytes]) -> str:
    name = args[0][:SHOWN_BYTES_MAX]
    if instead := advice(name):
        return f"ERR unknown command '{_text(name)}': {instead}"
    shown = ""
    for argument in args[1:]:
        if len(shown) >= SHOWN_BYTES_MAX:
            break
        shown += f"'{_text(argument[: SHOWN_BYTES_MAX - len(shown)])}' "
    return f"ERR unknown command '{_text(name)}', with args beginning with: {shown}"


def unknown_subcommand(args: list[bytes]) -> str:
    name, subcommand = _text(args[0]).upper(), _text(args[1][:SHOWN_BYTES_MAX])
    return f"ERR unknown subcommand '{subcommand}'. Try {name} HELP."


def argument_fault(name: bytes) -> str:
    return f"ERR wrong number of arguments for '{_text(name).lower()}' command"


def extra_argument(args: list[bytes]) -> str:
    """A subcommand with too many arguments, for those that word it like this."""
    subcommand, name = _text(args[1][:SHOWN_BYTES_MAX]), _text(args[0]).upper()
    what = f"unknown subcommand or wrong number of arguments for '{subcommand}'"
    return f"ERR {what}. Try {name} HELP."


def no_group(topic: bytes, group: bytes, where: str = "") -> CommandError:
    return CommandError(
        f"NOGROUP No such key '{_text(name_of(topic))}' or consumer group '{_text(group)}'{where}"
    )


def no_group_of_key(topic: bytes, group: bytes) -> CommandError:
    return CommandError(
        f"NOGROUP No such consumer group '{_text(group)}' for key name '{_text(name_of(topic))}'"
    )


def not_stored(reason: str) -> str:
    """A command was refused. Without a quorum its outcome is unknown."""
    if reason == DisconnectReason.NO_QUORUM.value:
        return f"ERR {reason}: too few nodes of the cluster are up, it may be stored or not"
    if reason == DisconnectReason.LEADERSHIP_LOST.value:
        return f"ERR {reason}: another node leads now, nothing was stored: retry"
    return f"ERR {reason}: the disk refused, nothing was stored"


def shown(name: bytes) -> str:
    """A name as an error repeats it: not all of a long one."""
    return _text(name[:SHOWN_BYTES_MAX])


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
