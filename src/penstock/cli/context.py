"""``penstock context``: named brokers, so that a command needs neither address nor password."""

from pathlib import Path

import click
import msgspec

from penstock.cli.connection import login_options, tls_options
from penstock.cli.contexts import (
    Context,
    check_context,
    contexts_file,
    load_contexts,
    save_contexts,
)
from penstock.cli.inputs import option_set
from penstock.cli.lazy import NounGroup
from penstock.cli.output import columns, json_option, print_result, table
from penstock.errors import PenstockError
from penstock.obs.printable import printable

_name_argument = click.argument("name")
_CELL_MAX = 400


@click.group(cls=NounGroup)
def context() -> None:
    """Name brokers and the logins for them.

    Commands use the current context, or that of --context NAME.

    Without a command it lists.
    """


@context.command(name="list")
@json_option
def list_contexts() -> None:
    """List contexts; the current one has a star."""
    found = load_contexts()
    rows = [
        ("*" if name == found.current else "", name, ", ".join(each.servers), each.user or "-")
        for name, each in found.contexts.items()
    ]
    document = {
        "current": found.current or None,
        "contexts": {name: each.shown() for name, each in found.contexts.items()},
    }
    empty = "no contexts; penstock context add NAME --server HOST:PORT makes one"
    shown = [tuple(printable(cell, _CELL_MAX) for cell in row) for row in rows]
    print_result(document, table(("", "NAME", "SERVERS", "USER"), shown, empty))


@context.command()
@_name_argument
@option_set(
    click.option(
        "--server",
        "servers",
        metavar="HOST:PORT",
        multiple=True,
        required=True,
        help="Address of the broker; repeatable, for the nodes of a cluster.",
    ),
    tls_options,
    login_options,
    click.option("--force", is_flag=True, help="Replace a context of that name."),
    json_option,
)
def add(name: str, *, servers: tuple[str, ...], force: bool, **given: str | bool | None) -> None:
    """Add context NAME, and make it the current one if it is the first.

    Files are stored by their names, not by their content.
    """
    found = load_contexts()
    if name in found.contexts and not force:
        raise PenstockError(f"there is a context {name}", "replace it with --force")
    new = msgspec.convert({"servers": servers, **_settings(given)}, Context)
    check_context(name, new)
    found.contexts[name] = new
    found.current = found.current or name
    path = save_contexts(found)
    print_result({"name": name, **new.shown()}, f"Added {name} to {path}.")


def _settings(given: dict[str, str | bool | None]) -> dict[str, object]:
    """Options as fields; files by absolute names, since commands run anywhere."""
    fields: dict[str, object] = {
        name.removeprefix("login_"): value for name, value in given.items() if value
    }
    for name, value in fields.items():
        if name.endswith("_file"):
            fields[name] = str(Path(str(value)).absolute())
    has_files = any(name in fields for name in ("ca_file", "cert_file", "server_name"))
    return {**fields, "tls": bool(fields.get("tls")) or has_files}


@context.command()
@_name_argument
def use(name: str) -> None:
    """Make NAME the current context."""
    found = load_contexts()
    found.named(name)
    found.current = name
    save_contexts(found)
    click.echo(f"{name} is the current context.")


@context.command()
@_name_argument
def remove(name: str) -> None:
    """Remove context NAME. Files that it names stay."""
    found = load_contexts()
    found.named(name)
    del found.contexts[name]
    if found.current == name:
        found.current = ""
    save_contexts(found)
    click.echo(f"Removed {name}.")


@context.command()
@click.argument("name", default="")
@json_option
def show(name: str) -> None:
    """Show context NAME, or the current one, without secrets."""
    found = load_contexts()
    if not (name or found.current):
        raise PenstockError("there is no current context", "penstock context use NAME sets it")
    shown = found.named(name or found.current).shown()
    rows = [(f"{key}:", printable(_text(value), _CELL_MAX)) for key, value in shown.items()]
    document = {"name": name or found.current, "file": str(contexts_file()), **shown}
    print_result(document, columns([("name:", name or found.current), *rows]))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(msgspec.to_builtins(value))
