"""Command groups that suggest similar names, and import a command only when it is called."""

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
"""The names of other tools; suggested if no command has a similar spelling."""


class CommandGroup(click.Group):
    """A group that suggests commands for an unknown name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(_unknown(name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


class NounGroup(CommandGroup):
    """A group that lists if no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell asks which commands there are
            return super().parse_args(ctx, args)
        is_named = bool(args) and (args[0] == "--help" or not args[0].startswith("-"))
        return super().parse_args(ctx, args if is_named else ["list", *args])


class ListingGroup(CommandGroup):
    """The same, where a word that is no command is what to list."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        is_command = bool(args) and args[0] in {*self.commands, "--help"}
        return super().parse_args(ctx, args if is_command else ["list", *args])


def _unknown(name: str, commands: list[str]) -> str:
    similar = get_close_matches(name.lower(), commands, n=2, cutoff=0.7) or [
        command for command in commands if sorted(command) == sorted(name.lower())
    ]  # two letters swapped in a short name are below the cutoff
    if not similar and SYNONYMS.get(name.lower()) in commands:
        similar = [SYNONYMS[name.lower()]]
    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
    return f"No such command {name!r}.{hint}"


class LazyGroup(CommandGroup):
    """A group with a table of commands: name → (``module:attribute``, one-line help)."""

    def __init__(self, *arguments: Any, table: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])
