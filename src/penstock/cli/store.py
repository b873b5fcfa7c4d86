"""``penstock store``: look after a data directory."""

from pathlib import Path

import click
import msgspec

from penstock.cli.lazy import CommandGroup
from penstock.config.schema import Config
from penstock.store.verify import VerifyReport, verify


@click.group(cls=CommandGroup)
def store() -> None:
    """Look after a data directory."""


@store.command(name="verify")
@click.argument("directory", type=click.Path(path_type=Path), default=Path(Config().data))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def verify_command(directory: Path, as_json: bool) -> None:
    """Check checksums, the order of entries and all indexes.

    Nothing is changed.

    DIRECTORY is the broker's data directory, penstock-data unless given. Entries and messages are
    counted as in /metrics.

    May be run beside a broker that uses the directory. Exit status 1 if anything is wrong.
    """
    report = verify(directory)
    if as_json:
        findings = {"sound": report.is_sound, **msgspec.to_builtins(report)}
        click.echo(msgspec.json.encode(findings).decode())
    else:
        click.echo(_summary(directory, report))
    raise SystemExit(not report.is_sound)


def _summary(directory: Path, report: VerifyReport) -> str:
    looked_at = (
        f"{report.messages:,} messages in {report.entries:,} entries, {report.topics:,} topics"
    )
    if report.removed:
        looked_at += f"; besides, {report.removed:,} removed messages whose entries others keep"
    if report.is_sound:
        return f"sound: {directory} ({looked_at})"
    lines = [f"DAMAGED: {directory} ({looked_at} were readable)"]
    lines += [f"  {fault}" for fault in report.faults]
    lines.append("Keep a copy of the directory before you try anything, and restore a backup.")
    return "\n".join(lines)
