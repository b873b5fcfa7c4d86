"""``penstock spark doctor``: what Spark needs, what of it is here, and what to do."""

import click
import msgspec

from penstock.cli.admin_client import json_option, print_result
from penstock.cli.columns import columns
from penstock.spark.doctor import Finding, examine


@click.command()
@click.option(
    "--servers", metavar="HOST:PORT,...", help="A broker to look for; any of its listeners."
)
@click.option("--start", is_flag=True, help="Start Spark as well, which takes some seconds.")
@json_option
@click.pass_context
def doctor(context: click.Context, *, servers: str | None, start: bool, as_json: bool) -> None:
    """Say what Spark needs, what of it is on this machine, and what to do about the rest.

    Exit status 1 where something is missing.
    """
    found = list(examine(servers, start=start))
    print_result(msgspec.to_builtins(found), _text(found), as_json=as_json)
    if any(finding.state == "missing" for finding in found):
        context.exit(1)


def _text(found: list[Finding]) -> str:
    rows: list[tuple[str, ...]] = []
    for finding in found:
        rows.append((finding.state, finding.name, finding.found))
        if finding.advice:
            rows.append(("", "", f"→ {finding.advice}"))
    missing = sum(finding.state == "missing" for finding in found)
    verdict = f"{missing} missing: do what the arrows say" if missing else "Spark can work here"
    return f"{columns(rows)}\n\n{verdict}"
