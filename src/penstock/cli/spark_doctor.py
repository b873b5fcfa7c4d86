"""``penstock spark doctor``: check the requirements of Spark."""

import click
import msgspec

from penstock.cli.output import columns, json_option, print_result
from penstock.spark.doctor import Finding, examine


@click.command()
@click.option(
    "--servers", metavar="HOST:PORT,...", help="Also check a broker, at any of its listeners."
)
@click.option("--start", is_flag=True, help="Also start Spark, which takes some seconds.")
@json_option
@click.pass_context
def doctor(context: click.Context, *, servers: str | None, start: bool) -> None:
    """Check what Spark needs on this machine, and how to install what is missing.

    Exits with 1 if something is missing.
    """
    found = list(examine(servers, start=start))
    print_result(msgspec.to_builtins(found), _text(found))
    if any(finding.state == "missing" for finding in found):
        context.exit(1)


def _text(found: list[Finding]) -> str:
    rows: list[tuple[str, ...]] = []
    for finding in found:
        rows.append((finding.state, finding.name, finding.found))
        if finding.advice:
            rows.append(("", "", f"→ {finding.advice}"))
    missing = sum(finding.state == "missing" for finding in found)
    verdict = f"{missing} missing: follow the arrows" if missing else "Spark can run here"
    return f"{columns(rows)}\n\n{verdict}"
