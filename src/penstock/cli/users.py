"""``penstock users``: list, add, change and remove users."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from penstock.cli.access_options import (
    access_options,
    change_options,
    first_line,
    new_password,
    password_file_option,
)
from penstock.cli.admin_client import AdminClient, Document, stale_option
from penstock.cli.inputs import confirm, number_option, yes_option
from penstock.cli.lazy import NounGroup
from penstock.cli.output import columns, format_time, print_result, table
from penstock.cli.paged import every
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH: Final = "users"
ADMIN_ROLE: Final = "admin"

_name_argument = click.argument("name")
_roles_option = click.option(
    "--role", "roles", multiple=True, metavar="ROLE", help="Give this role; repeatable."
)
_secret_option = click.option(
    "--secret", "wants_secret", is_flag=True, help="Generate a secret; do not ask for a password."
)
_QUOTAS: Final = {
    "messages_per_s": "Messages published per second.",
    "bytes_per_s": "Bytes published per second.",
    "connections": "Connections at once.",
    "subscriptions": "Subscriptions of all connections.",
    "sessions": "Stored sessions.",
}


@click.group(cls=NounGroup)
def users() -> None:
    """Add and change users: who may log in, and with which roles.

    Without a command it lists.
    """


def user_of(broker: AdminClient, name: str) -> Document:
    return broker.current(f"{PATH}/detail", name=name)


@users.command(name="list")
@access_options
@stale_option
def list_users(broker: AdminClient) -> None:
    """List all users."""
    found = every(broker, PATH)
    empty = (
        "There are no users: everybody on the broker's machine may do everything.\n"
        "The first one: penstock users add NAME --admin"
    )
    head = ("NAME", "ROLES", "LOGS IN WITH", "STATE", "NOTE")
    print_result(found, table(head, map(_row, found), empty))


def _row(user: Document) -> tuple[str, ...]:
    state = "disabled" if user["disabled"] else "enabled"
    note = printable(user["note"], 60)
    return (user["name"], ", ".join(user["roles"]) or "-", _proofs(user), state, note)


def _proofs(user: Document) -> str:
    count = user["secrets"]
    secrets = [f"{count} secrets" if count > 1 else "a secret"] if count else []
    return " and ".join(["a password"] * user["password"] + secrets) or "nothing yet"


@users.command()
@_name_argument
@access_options
@stale_option
def show(name: str, broker: AdminClient) -> None:
    """Show the user NAME."""
    found = user_of(broker, name)
    print_result(found, _facts(found))


def _facts(user: Document) -> str:
    limits = {key: value for key, value in user["quotas"].items() if value}
    quotas = ", ".join(f"{key} {value:,}" for key, value in limits.items())
    rows = [
        ("user", user["name"]),
        ("roles", ", ".join(user["roles"]) or "none: it may do nothing"),
        ("logs in with", _proofs(user)),
        ("state", "disabled" if user["disabled"] else "enabled"),
        ("client ids", ", ".join(map(printable, user["client_ids"])) or "any"),
        ("quotas", quotas or "none"),
        ("created", format_time(user["created"])),
        ("expires", format_time(user["expires"])),
    ]
    if user["password"]:
        advice = "no: log in once with the password, or set it again"
        rows.insert(3, ("SCRAM-SHA-256", "yes" if user["scram"] else advice))
    return columns([*rows, *([("note", printable(user["note"], 400))] if user["note"] else [])])


@users.command()
@_name_argument
@click.option("--admin", "is_admin", is_flag=True, help="Make an administrator: the role admin.")
@_roles_option
@password_file_option
@_secret_option
@click.option(
    "--client-id",
    "client_ids",
    multiple=True,
    metavar="PATTERN",
    help="Client ids that it must use, with * for any text; repeatable. Any by default.",
)
@click.option("--note", metavar="TEXT", help="What the user is for.")
@change_options
def add(
    name: str,
    *,
    is_admin: bool,
    roles: tuple[str, ...],
    password_file: Path | None,
    wants_secret: bool,
    client_ids: tuple[str, ...],
    note: str | None,
    broker: AdminClient,
) -> None:
    """Add the user NAME.

    Its password is read from --password-file, or typed on a terminal. Without one the broker
    generates a secret of 160 bits and prints it once: best for devices and programs.
    """
    if not is_admin and not roles:
        roles = ("client",)
    made = broker.post(
        PATH,
        name=name,
        roles=(*([ADMIN_ROLE] if is_admin else []), *roles),
        client_ids=client_ids or None,
        note=note,
        **_credential(password_file, wants_secret=wants_secret),
    )
    print_result(made, f"{_facts(made)}{secret_lines(made)}")


def _credential(password_file: Path | None, *, wants_secret: bool) -> dict[str, object]:
    if wants_secret and password_file is not None:
        raise click.UsageError("give --password-file or --secret, not both")
    password = None if wants_secret else new_password(password_file)
    if password == "":
        raise PenstockError(
            f"the first line of {password_file} is empty", "write the password there"
        )
    return {"generate_secret": True} if password is None else {"password": password}


def secret_lines(made: Mapping[str, object]) -> str:
    if "secret" not in made:
        return ""
    return f"\n\nIts secret, shown this once:\n  {made['secret']}"


@users.command()
@_name_argument
@change_options
def invite(name: str, broker: AdminClient) -> None:
    """Print a token with which NAME can set its own password.

    It is valid once, for an hour, and used with penstock users password NAME --invite-file FILE.
    """
    made = broker.post("tokens", owner=name, invitation=True)
    until = format_time(made["expires"])
    print_result(
        made,
        f"Invitation of {name}, valid until {until}:\n  {made['token']}\n"
        f"With it in a file, {name} sets a password: penstock users password {name}"
        " --invite-file FILE",
    )


@users.command()
@_name_argument
@password_file_option
@click.option(
    "--invite-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Set one's own password: FILE has the invitation of an administrator.",
)
@change_options
def password(
    name: str, *, password_file: Path | None, invite_file: Path | None, broker: AdminClient
) -> None:
    """Change the password of the user NAME.

    Its connections end, as they were made with the previous one.
    """
    chosen = new_password(password_file)
    if not chosen:
        raise PenstockError(
            "there is no password", "give --password-file, or run the command on a terminal"
        )
    if invite_file is not None:
        invitation = first_line(invite_file)
        changed = broker.post(f"{PATH}/password", invitation=invitation, password=chosen)
    else:
        changed = broker.change("PATCH", PATH, name=name, password=chosen)
    print_result(changed, f"The password of {name} is changed.")


@users.command()
@_name_argument
@click.option("--replace", is_flag=True, help="End the present secrets at once.")
@change_options
def secret(name: str, *, replace: bool, broker: AdminClient) -> None:
    """Generate another secret for the user NAME, and print it once.

    The latest existing secret stays valid, too, until another one is generated: time enough to
    update devices.
    """
    made = broker.change("PATCH", PATH, name=name, generate_secret=True, replace_secrets=replace)
    print_result(made, f"{_facts(made)}{secret_lines(made)}")


@users.command()
@_name_argument
@change_options
def disable(name: str, broker: AdminClient) -> None:
    """Keep the user NAME from logging in, and end its connections."""
    changed = broker.change("PATCH", PATH, name=name, disabled=True)
    print_result(changed, f"{name} is disabled.")


@users.command()
@_name_argument
@change_options
def enable(name: str, broker: AdminClient) -> None:
    """Let the user NAME log in again."""
    changed = broker.change("PATCH", PATH, name=name, disabled=False)
    print_result(changed, f"{name} is enabled.")


@users.command()
@_name_argument
@yes_option
@change_options
def remove(name: str, broker: AdminClient) -> None:
    """Remove the user NAME and its tokens, and end its connections."""
    found = user_of(broker, name)
    confirm(f"Remove the user {name}?")
    broker.delete(PATH, name=name)
    print_result(found, f"removed {name}")


@users.command()
@_name_argument
@click.argument("roles", nargs=-1, metavar="[ROLE]...")
@click.option("--none", "is_none", is_flag=True, help="Remove all roles.")
@change_options
def roles(name: str, *, roles: tuple[str, ...], is_none: bool, broker: AdminClient) -> None:
    """Set the roles of the user NAME, or show them.

    The user then has exactly these roles.
    +ROLE adds one and -ROLE takes one away (after --, as in penstock users roles ann -- -sensors).
    """
    found = user_of(broker, name)
    if roles or is_none:
        wanted = _wanted_roles(found["roles"], roles)
        version = found["version"]
        found = broker.change("PATCH", PATH, name=name, roles=wanted, expected=version)
    print_result(found["roles"], ", ".join(found["roles"]) or "none: it may do nothing")


def _wanted_roles(present: list[str], given: tuple[str, ...]) -> list[str]:
    signed = [role[:1] in {"+", "-"} for role in given]
    if any(signed) and not all(signed):
        raise click.UsageError("give all roles, or changes to them with + and -, not both")
    if not any(signed):
        return list(given)
    wanted = dict.fromkeys(present)
    for role in given:
        if role[0] == "+":
            wanted[role[1:]] = None
        else:
            wanted.pop(role[1:], None)
    return list(wanted)


@users.command()
@_name_argument
@number_option("--messages-per-s", _QUOTAS["messages_per_s"])
@number_option("--bytes-per-s", _QUOTAS["bytes_per_s"])
@number_option("--connections", _QUOTAS["connections"])
@number_option("--subscriptions", _QUOTAS["subscriptions"])
@number_option("--sessions", _QUOTAS["sessions"])
@change_options
def quota(name: str, *, broker: AdminClient, **limits: int | None) -> None:
    """Limit what the user NAME may use on each node; 0 is no limit.

    Limits that are not given do not change; without any, show them.
    """
    given = {key: value for key, value in limits.items() if value is not None}
    found = user_of(broker, name)
    if given:
        quotas = found["quotas"] | given
        version = found["version"]
        found = broker.change("PATCH", PATH, name=name, quotas=quotas, expected=version)
    chosen = {key: value for key, value in found["quotas"].items() if value}
    print_result(chosen, _facts(found))
