"""``penstock spark files``: the current Parquet files of an archive, for programs without Spark.

The directory also has files of aborted batches, and files that compaction has replaced. The
manifest and the sink's log tell which files count.
"""

from typing import Final

import click

from penstock.cli.output import counted, json_option, print_result, wants_json
from penstock.spark.archived.layout import root_of
from penstock.spark.archived.snapshot import chosen, take

_QUOTE: Final = "'"


@click.command()
@click.option("--path", metavar="DIR", required=True, help="Directory of the archive.")
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="Only files that may contain messages of this topic; repeatable.",
)
@click.option("--sql", "as_sql", is_flag=True, help="Print an SQL list, as in ['a', 'b'].")
@json_option
def files(path: str, topics: tuple[str, ...], as_sql: bool) -> None:
    """List the current Parquet files of an archive, one per line.

    They contain each message once. They are not removed before the --grace period of compaction is
    over: 24 hours by default.
    """
    if as_sql and wants_json():
        raise click.UsageError("give only one of --sql and --json")
    found = chosen(take(root_of(path)).parts, topics or None)
    paths = [part.path for part in found]
    print_result(paths, _sql(paths) if as_sql else "\n".join(paths))
    if not as_sql and not wants_json():
        size = sum(part.size for part in found)
        click.echo(f"{counted(len(found), 'file')}, {size:,} bytes", err=True)


def _sql(paths: list[str]) -> str:
    quoted = (f"'{path.replace(_QUOTE, _QUOTE * 2)}'" for path in paths)
    return f"[{', '.join(quoted)}]"
