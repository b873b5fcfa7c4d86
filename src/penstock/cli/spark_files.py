"""``penstock spark files``: the Parquet files that are an archive now, for programs without Spark.

A listing of the directory would not do. It has files of batches that were killed, whose rows are in
others, and files that compaction has replaced, which stay for readers that have begun. It needs no
Spark: what counts is in the manifest and the sink's logs.
"""

from typing import Final

import click

from penstock.cli.admin_client import json_option, print_result
from penstock.cli.columns import counted
from penstock.cli.connection import CONTEXT
from penstock.spark.archived.layout import root_of
from penstock.spark.archived.snapshot import ArchiveFile, chosen, take

_QUOTE: Final = "'"


@click.command(context_settings=CONTEXT)
@click.option("--path", metavar="DIR", required=True, help="The archive's directory.")
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="Only files that may have messages of this topic; may be repeated.",
)
@click.option("--sql", "as_sql", is_flag=True, help="Print a list for SQL, as in ['a', 'b'].")
@json_option
def files(path: str, topics: tuple[str, ...], as_sql: bool, as_json: bool) -> None:
    """List the Parquet files that are an archive now, one per line.

    Each message is in them once. They stay as they are for as long as the --grace of compaction:
    24 hours, unless it was given.
    """
    if as_sql and as_json:
        raise click.UsageError("give --sql or --json")
    found = chosen(take(root_of(path)).parts, topics or None)
    paths = [part.path for part in found]
    print_result(paths, _sql(paths) if as_sql else "\n".join(paths), as_json=as_json)
    if not as_sql and not as_json:
        click.echo(_summary(found), err=True)


def _sql(paths: list[str]) -> str:
    """Write a list of SQL's. A path may have quotes, which are doubled there."""
    quoted = (f"'{path.replace(_QUOTE, _QUOTE * 2)}'" for path in paths)
    return f"[{', '.join(quoted)}]"


def _summary(found: list[ArchiveFile]) -> str:
    return f"{counted(len(found), 'file')}, {sum(part.size for part in found):,} bytes"
