"""``penstock spark sinks``: list sinks (DataFrames written to topics), and delete one.

It speaks the queue protocol and needs no Spark.
"""

from datetime import UTC, datetime

import click
import msgspec

from penstock.cli.admin_client import AdminClient, admin_options
from penstock.cli.inputs import confirm, yes_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import counted, format_time, print_result, table
from penstock.client.queue.values import SinkStatus
from penstock.errors import PenstockError
from penstock.obs.printable import printable

NAME_CHARACTERS = 400
NOTE_CHARACTERS = 60


@click.group(cls=CommandGroup, invoke_without_command=True)
@admin_options
@click.pass_context
def sinks(context: click.Context, broker: AdminClient) -> None:
    """List sinks with what they have published and staged, or forget one."""
    context.obj = broker
    if context.invoked_subcommand is None:
        with broker.target.queue() as client:
            found = client.sinks()
        head = ("SINK", "EPOCH", "MESSAGES", "COMMITTED", "STAGED", "NOTE")
        empty = "there are no sinks; df.write.format('penstock') creates one"
        print_result(list(map(_document, found)), table(head, map(_row, found), empty))


def _document(sink: SinkStatus) -> dict[str, object]:
    fields = msgspec.structs.asdict(sink)
    return {**fields, "note": sink.note.decode("utf-8", "replace"), "committed": _time(sink)}


def _time(sink: SinkStatus) -> str | None:
    if not sink.committed_ms:
        return None
    return datetime.fromtimestamp(sink.committed_ms / 1000, UTC).isoformat(timespec="seconds")


def _row(sink: SinkStatus) -> tuple[str, ...]:
    epoch = "-" if sink.epoch is None else str(sink.epoch)
    staged = f"{sink.staged_bytes:,} B in {counted(sink.staged_parts, 'part')}"
    return (
        printable(sink.name, NAME_CHARACTERS),
        f"{epoch}, committing the next" if sink.is_committing else epoch,
        f"{sink.messages:,}",
        format_time(_time(sink)),
        staged if sink.staged_parts else "-",
        printable(sink.note, NOTE_CHARACTERS) or "-",
    )


@sinks.command()
@click.argument("name")
@yes_option
@click.pass_obj
def forget(broker: AdminClient, name: str) -> None:
    """Forget sink NAME and discard what it has staged.

    Published messages stay. A writer that repeats an epoch under this name publishes it again.
    """
    with broker.target.queue() as client:
        found = client.sinks(name)
        if not found:
            raise PenstockError(f"there is no sink {name!r}", "penstock spark sinks lists them")
        published = counted(found[0].messages, "message")
        question = f"Forget {printable(name)}, which has published {published}?"
        confirm(question)
        client.forget_sink(name)
    click.echo(f"forgot {printable(name)}; its messages stay")
