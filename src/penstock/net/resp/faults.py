"""What a command did wrong, in the words of Redis: people search for them, libraries match them."""

__all__ = ["argument_fault", "unknown_command", "unknown_subcommand"]

SHOWN_BYTES_MAX = 128
"""How much of a name, and of all arguments together, an error repeats; as in Redis."""


def unknown_command(args: list[bytes]) -> str:
    """There is no such command."""
    shown = ""
    for argument in args[1:]:
        if len(shown) >= SHOWN_BYTES_MAX:
            break
        shown += f"'{_text(argument[: SHOWN_BYTES_MAX - len(shown)])}' "
    name = _text(args[0][:SHOWN_BYTES_MAX])
    return f"ERR unknown command '{name}', with args beginning with: {shown}"


def unknown_subcommand(args: list[bytes]) -> str:
    """There is such a command, but not with this second word."""
    name, subcommand = _text(args[0]).upper(), _text(args[1][:SHOWN_BYTES_MAX])
    return f"ERR unknown subcommand '{subcommand}'. Try {name} HELP."


def argument_fault(name: bytes) -> str:
    """The command is known, but takes another number of arguments."""
    return f"ERR wrong number of arguments for '{_text(name).lower()}' command"


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
