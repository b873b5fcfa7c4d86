"""Groups of commands: what is like a mistyped name is offered, and some import a command late.

A producer on a small machine should not pay for importing a server. So a ``LazyGroup`` holds a
table of names, not functions, and the one-line help as well, for ``--help`` must not import
anything either.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import click

SYNONYMS: Final = {
    "publish": "pub",
    "subscribe": "sub",
    "start": "serve",
    "server": "serve",
    "run": "serve",
    "broker": "serve",
    "info": "status",
    "ls": "list",
    "rm": "delete",
    "remove": "delete",
    "create": "new",
    "messages": "read",
    "topic": "topics",
    "connections": "clients",
    "jobs": "queue",
}
"""What other tools call it; offered where there is such a command and nothing is spelled alike."""


class CommandGroup(click.Group):
    """A group that offers the commands whose names are like one that it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(_unknown(name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


def _unknown(name: str, commands: list[str]) -> str:
    alike = get_close_matches(name.lower(), commands, n=2, cutoff=0.7) or [
        command for command in commands if sorted(command) == sorted(name.lower())
    ]  # two letters swapped in a short name are less alike than the cutoff asks
    if not alike and SYNONYMS.get(name.lower()) in commands:
        alike = [SYNONYMS[name.lower()]]
    hint = f" Did you mean {' or '.join(alike)}?" if alike else ""
    return f"No such command {name!r}.{hint}"


class LazyGroup(CommandGroup):
    """A group whose commands stand in a table: name → where it is, and what ``--help`` says."""

    def __init__(self, *arguments: Any, table: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])
