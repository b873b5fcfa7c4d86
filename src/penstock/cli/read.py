"""``penstock read``: what topics hold."""

from itertools import islice

import click

from penstock.cli import names
from penstock.cli.admin_client import stale_option
from penstock.cli.connection import BrokerTarget, checked_filters, connection_options
from penstock.cli.inputs import flag, is_given
from penstock.cli.interrupts import discard_output
from penstock.cli.journal_reader import JournalReader, StartPosition, start_options
from penstock.cli.message_lines import record_json, record_text
from penstock.cli.output import wants_json
from penstock.errors import PenstockError


@click.command()
@click.argument(
    "filters",
    nargs=-1,
    required=True,
    metavar="FILTER...",
    callback=checked_filters,
    shell_complete=names.topics,
)
@connection_options
@start_options
@click.option(
    "--last", type=click.IntRange(min=1), metavar="COUNT", help="The last COUNT of each topic."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@flag("--json", help="Print a JSON object per message.")
@stale_option
def read(
    filters: tuple[str, ...],
    *,
    target: BrokerTarget,
    begin: int | None,
    since: float | None,
    last: int | None,
    count: int | None,
) -> None:
    """Print the messages of topics that match FILTERs, as `topic payload`, one per line.

    In journal order, from the oldest message unless an option says otherwise. Nothing is consumed.
    `penstock sub --from` also prints new messages.
    """
    if sum(option is not None for option in (begin, since, last)) > 1:
        raise click.UsageError("give only one of --from, --since and --last")
    show = record_json if wants_json() else record_text
    is_empty = True
    try:
        with target.queue(stale_reads=is_given("--stale")) as client:
            stored = JournalReader(client, filters, StartPosition(begin or 0, since, last)).stored()
            for record in islice(stored, count):
                is_empty = False
                click.echo(show(record))
            if is_empty and not client.changes(filters).topics:
                what = f"no topic matches {' '.join(filters)}"
                raise PenstockError(what, "penstock topics lists all topics")
    except BrokenPipeError:
        discard_output()
