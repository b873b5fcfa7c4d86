"""``penstock spark readers``: streams and durable subscribers, and how far they are behind."""

from typing import Final

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.output import print_result, span, table
from penstock.cli.paged import first_page, limit_option
from penstock.obs.printable import printable

PATH: Final = "readers"
_HEAD: Final = ("READER", "TOPIC", "LAG", "BEHIND", "POSITION", "LAST COMMIT", "ATTENTION")


@click.command()
@limit_option
@admin_options
def readers(*, limit: int, broker: AdminClient) -> None:
    """List streams and durable subscribers, and how far they are behind."""
    page = first_page(broker, PATH, limit)
    empty = "nobody reads by a name; spark.readStream with the option reader does"
    print_result(page.document, page.text(table(_HEAD, map(_row, page.items), empty)))


def _row(reader: Document) -> tuple[str, ...]:
    behind, committed = reader["lag_s"], reader["committed_s"]
    return (
        printable(reader["name"], 60),
        printable(reader["topic"], 80),
        f"{reader['lag']:,}",
        "-" if behind is None else span(behind),
        f"{reader['position']:,}",
        "-" if committed is None else f"{span(committed)} ago",
        "; ".join(one["text"] for one in reader["attention"]) or "-",
    )
