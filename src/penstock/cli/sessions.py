"""``penstock sessions``: MQTT sessions, connected and away, and how to end one."""

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import counted, format_time, print_result, table
from penstock.cli.paged import first_page, limit_option
from penstock.obs.log import printable

PATH = "/api/v1/sessions"
_HEAD = ("CLIENT", "USER", "STATE", "FILTERS", "IN FLIGHT", "QUEUED", "ENDED BY", "EXPIRES")


@click.group(cls=CommandGroup)
def sessions() -> None:
    """List MQTT sessions, and end one."""


@sessions.command("list")
@click.argument("prefix", default="")
@flag("--away", help="Only sessions whose client is away.")
@flag("--backlog", help="Only sessions for which messages wait.")
@limit_option
@admin_options
def list_sessions(prefix: str, *, limit: int, broker: AdminClient) -> None:
    """List the sessions on this node.

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
@click.argument("client_id")
@flag("--dry-run", help="Only say what would go.")
@yes_option
@admin_options
def end(client_id: str, *, broker: AdminClient) -> None:
    """End the session of CLIENT_ID.

    Its subscriptions and queued messages go.
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
