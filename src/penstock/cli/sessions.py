"""``penstock sessions``: MQTT sessions of all nodes, connected and away, and how to end one."""

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import ListingGroup
from penstock.cli.output import columns, counted, format_time, print_result, table
from penstock.cli.paged import all_named, first_page, limit_option
from penstock.cli.subscriptions import subscription_rows, subscriptions_of, will_text
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH = "sessions"
_HEAD = ("CLIENT", "USER", "STATE", "FILTERS", "IN FLIGHT", "QUEUED", "ENDED BY", "EXPIRES")


@click.group(cls=ListingGroup)
def sessions() -> None:
    """List, show and end MQTT sessions.

    Without a command it lists: penstock sessions [PREFIX].
    """


@sessions.command("list")
@click.argument("prefix", default="")
@flag("--away", help="Only sessions whose client is away.")
@flag("--backlog", help="Only sessions for which messages wait.")
@limit_option
@admin_options
def list_sessions(prefix: str, *, limit: int, broker: AdminClient) -> None:
    """List the MQTT sessions of all nodes.

    With PREFIX only those whose client ids begin with it.
    """
    chosen = {"away": True if is_given("--away") else None}
    chosen |= {"backlog": True if is_given("--backlog") else None}
    page = first_page(broker, PATH, limit, prefix=prefix or None, **chosen)
    empty = "there are no such sessions" if prefix or any(chosen.values()) else "no sessions"
    print_result(page.document, page.text(table(_HEAD, map(_row, page.items), empty)))


def _row(one: Document) -> tuple[str, ...]:
    since = f" since {format_time(one['away_since'])}" if one["away_since"] else ""
    return (
        printable(one["client_id"], 60) or "-",
        printable(one["user"], 64) or "-",
        "connected" if one["connected"] else f"away{since}",
        f"{one['subscriptions']:,}",
        f"{one['in_flight']:,}",
        f"{one['queued']:,}",
        one["ended"] or "-",
        format_time(one["expires"]) if one["expires"] else "-",
    )


@sessions.command()
@click.argument("client_id", shell_complete=names.sessions)
@admin_options
def show(client_id: str, *, broker: AdminClient) -> None:
    """Show the session of CLIENT_ID with its subscriptions."""
    found = all_named(broker, PATH, "client_id", client_id)
    if not found:
        advice = f"penstock why client {client_id} may know when it ended, and why"
        raise PenstockError(f"{printable(client_id)} has no session", advice)
    filters = subscriptions_of(broker, client_id)
    text = f"{columns(_facts(found[0]))}\n\n{subscription_rows(filters)}"
    print_result({"session": found[0], "subscriptions": filters}, text)


def _facts(one: Document) -> list[tuple[str, str]]:
    facts = [
        ("client", printable(one["client_id"], 400)),
        ("user", printable(one["user"], 400) or "-"),
        ("protocol", f"MQTT {one['version']}"),
        ("state", "connected" if one["connected"] else "away"),
        ("node", str(one["node"])),
        ("session", "persistent" if one["persistent"] else "ends with the connection"),
        ("queued", f"{counted(one['queued'], 'message')}, {one['in_flight']:,} in flight"),
        ("will", will_text(one["will"])),
    ]
    if one["connected"]:
        return facts
    why = ": ".join(printable(part) for part in (one["ended"], one["detail"]) if part)
    return [
        *facts,
        ("away since", format_time(one["away_since"]) + (f", {why}" if why else "")),
        ("ends", format_time(one["expires"])),
    ]


@sessions.command()
@click.argument("client_id", shell_complete=names.sessions)
@flag("--dry-run", help="Only show what would be removed.")
@yes_option
@admin_options
def end(client_id: str, *, broker: AdminClient) -> None:
    """End the session of CLIENT_ID.

    This removes its subscriptions and queued messages.
    """
    found = broker.change("DELETE", PATH, client_id=client_id, dry_run=True)
    what = counted(found["subscriptions"], "subscription")
    what += f" and {counted(found['queued'], 'message')} in its queue"
    name = printable(client_id)
    if is_given("--dry-run"):
        print_result(found, f"would end the session of {name}, with {what}")
        return
    confirm(f"End the session of {name}, with {what}?")
    done = broker.change("DELETE", PATH, client_id=client_id)
    print_result(done, f"ended the session of {name}")
