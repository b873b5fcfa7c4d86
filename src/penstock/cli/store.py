"""``penstock store``: check a data directory."""

from pathlib import Path

import click
import msgspec

from penstock.cli.inputs import flag, is_given
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import counted
from penstock.config.schema import Config
from penstock.store.verify import VerifyReport, verify


@click.group(cls=CommandGroup)
def store() -> None:
    """Check a data directory."""


@store.command(name="verify")
@click.argument("directory", type=click.Path(path_type=Path), default=Path(Config().data))
@flag("--json", help="Print the report as JSON.")
def verify_command(directory: Path) -> None:
    """Verify checksums, the order of entries and all indexes.

    Nothing is changed.

    DIRECTORY is the data directory of the broker, penstock-data by default. Entries and messages
    are counted as in /metrics.

    The broker may be running. Exits with 1 if anything is damaged.
    """
    report = verify(directory)
    if is_given("--json"):
        findings = {"sound": report.is_sound, **msgspec.to_builtins(report)}
        click.echo(msgspec.json.encode(findings).decode())
    else:
        click.echo(_summary(directory, report))
    raise SystemExit(not report.is_sound)


def _summary(directory: Path, report: VerifyReport) -> str:
    messages, entries = counted(report.messages, "message"), counted(report.entries, "entry")
    size = f"{messages} in {entries}, {counted(report.topics, 'topic')}"
    if report.removed:
        size += f"; also {report.removed:,} removed messages in entries that others still need"
    if report.is_sound:
        return f"sound: {directory} ({size})"
    lines = [f"DAMAGED: {directory} ({size} were readable)"]
    lines += [f"  {fault}" for fault in report.faults]
    lines.append("Copy the directory before you try anything, and restore a backup.")
    return "\n".join(lines)
