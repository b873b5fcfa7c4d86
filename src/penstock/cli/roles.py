"""``penstock roles``: list, add, change and remove roles and their rules."""

from typing import Final

import click

from penstock.cli.access_options import access_options, change_options
from penstock.cli.admin_client import AdminClient, Document, stale_option
from penstock.cli.inputs import confirm, yes_option
from penstock.cli.lazy import NounGroup
from penstock.cli.output import columns, print_result, table
from penstock.cli.paged import every
from penstock.errors import PenstockError
from penstock.obs.printable import printable
from penstock.trust.rules import parse_rule

PATH: Final = "roles"
_RULE: Final = "ACTIONS [FILTER]"
_name_argument = click.argument("name")
_actions_argument = click.argument("actions")
_filter_argument = click.argument("topic_filter", metavar="[FILTER]", default="")


@click.group(cls=NounGroup)
def roles() -> None:
    """Add and change roles: rules that users have in common.

    Without a command it lists.
    """


def _role(broker: AdminClient, name: str) -> Document:
    return broker.current(f"{PATH}/detail", name=name)


@roles.command(name="list")
@access_options
@stale_option
def list_roles(broker: AdminClient) -> None:
    """List all roles, also those that are built in."""
    found = every(broker, PATH)
    head = ("NAME", "RULES", "INCLUDES", "USERS", "NOTE")
    print_result(found, table(head, map(_row, found), "there are no roles"))


def _row(role: Document) -> tuple[str, ...]:
    includes = ", ".join(role["roles"]) or "-"
    note = printable(role["note"], 60) + (" (built in)" if role["built_in"] else "")
    return (role["name"], str(len(role["rules"])), includes, str(role["users"]), note)


@roles.command()
@_name_argument
@access_options
@stale_option
def show(name: str, broker: AdminClient) -> None:
    """Show the role NAME and its rules, with their numbers."""
    found = _role(broker, name)
    print_result(found, _facts(found))


def _facts(role: Document) -> str:
    rules = [(f"rule {number}", text) for number, text in enumerate(role["rules"], 1)]
    rows = [
        ("role", role["name"] + (" (built in)" if role["built_in"] else "")),
        ("includes", ", ".join(role["roles"]) or "no other role"),
        ("users", str(role["users"])),
        *([("note", printable(role["note"], 400))] if role["note"] else []),
        *(rules or [("rules", "none: it allows nothing")]),
    ]
    return columns(rows)


@roles.command()
@_name_argument
@click.option("--allow", "allowed", multiple=True, metavar=f'"{_RULE}"', help="A rule; repeatable.")
@click.option("--deny", "denied", multiple=True, metavar=f'"{_RULE}"', help="A rule; repeatable.")
@click.option("--role", "included", multiple=True, metavar="ROLE", help="Include this role.")
@click.option("--note", default="", metavar="TEXT", help="What the role is for.")
@change_options
def add(
    name: str,
    *,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    included: tuple[str, ...],
    note: str,
    broker: AdminClient,
) -> None:
    """Add the role NAME with its rules.

    For example: penstock roles add sensors --allow "publish plant/%u/#". A deny wins wherever it
    stands. %u and %c stand for the user name and the client id.
    """
    known = next((role for role in every(broker, PATH) if role["name"] == name), None)
    if known is not None and not known["built_in"]:
        what, advice = f"there is a role {name} already", "penstock roles allow and deny change it"
        raise PenstockError(what, advice)
    rules = [*(f"allow {rule}" for rule in allowed), *(f"deny {rule}" for rule in denied)]
    made = broker.put(PATH, name=name, rules=_checked(rules), roles=included, note=note)
    print_result(made, _facts(made))


def _checked(rules: list[str]) -> list[str]:
    try:
        return [parse_rule(rule).text for rule in rules]
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@roles.command()
@_name_argument
@_actions_argument
@_filter_argument
@change_options
def allow(name: str, *, actions: str, topic_filter: str, broker: AdminClient) -> None:
    """Allow ACTIONS on FILTER to the role NAME.

    ACTIONS are publish, subscribe, read, work, manage, monitor and admin, separated by commas.
    """
    _add_rule(broker, name, f"allow {actions} {topic_filter}")


@roles.command()
@_name_argument
@_actions_argument
@_filter_argument
@change_options
def deny(name: str, *, actions: str, topic_filter: str, broker: AdminClient) -> None:
    """Deny ACTIONS on FILTER to the role NAME.

    A deny wins, whatever else allows them.
    """
    _add_rule(broker, name, f"deny {actions} {topic_filter}")


def _add_rule(broker: AdminClient, name: str, text: str) -> None:
    (rule,) = _checked([text.strip()])
    role = _role(broker, name)
    if rule not in role["rules"]:
        role = _store(broker, role, [*role["rules"], rule])
    print_result(role, _facts(role))


def _store(broker: AdminClient, role: Document, rules: list[str]) -> Document:
    return broker.put(
        PATH,
        name=role["name"],
        rules=rules,
        roles=role["roles"],
        note=role["note"],
        expected=role["version"],
    )


@roles.command()
@_name_argument
@click.argument("number", type=click.IntRange(1), required=False)
@yes_option
@change_options
def remove(name: str, *, number: int | None, broker: AdminClient) -> None:
    """Remove the role NAME, or only its rule NUMBER."""
    role = _role(broker, name)
    if number is None:
        confirm(f"Remove the role {name}?")
        broker.delete(PATH, name=name)
        print_result(role, f"removed {name}")
        return
    rules = list(role["rules"])
    if number > len(rules):
        raise PenstockError(f"{name} has no rule {number}", f"penstock roles show {name}")
    del rules[number - 1]
    changed = _store(broker, role, rules)
    print_result(changed, _facts(changed))
