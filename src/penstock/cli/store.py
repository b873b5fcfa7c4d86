"""``penstock store``: check a data directory, and make it small or current."""

from pathlib import Path

import click
import msgspec

from penstock.cli.files import open_many_files
from penstock.cli.inputs import flag, is_given
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import counted, json_option, print_result
from penstock.cli.progress import progress_bar, size_text
from penstock.config.schema import Config
from penstock.obs.log import configure
from penstock.store.maintenance import MaintenanceReport, compact, convert
from penstock.store.verify import VerifyReport, verify

_directory_argument = click.argument(
    "directory", type=click.Path(path_type=Path), default=Path(Config().data)
)


@click.group(cls=CommandGroup)
def store() -> None:
    """Check, compact and convert a data directory."""


@store.command(name="verify")
@_directory_argument
@flag("--json", help="Print the report as JSON.")
def verify_command(directory: Path) -> None:
    """Verify checksums, blocks, the order of entries and all indexes.

    Nothing is changed.

    DIRECTORY is the data directory of the broker, penstock-data by default. Entries and messages
    are counted as in /metrics.

    The broker may be running. Exits with 1 if anything is damaged.
    """
    open_many_files()
    with progress_bar("verifying") as progress:
        report = verify(directory, progress)
    if is_given("--json"):
        findings = {"sound": report.is_sound, **msgspec.to_builtins(report)}
        click.echo(msgspec.json.encode(findings).decode())
    else:
        click.echo(_summary(directory, report))
    raise SystemExit(not report.is_sound)


def _summary(directory: Path, report: VerifyReport) -> str:
    messages, entries = counted(report.messages, "message"), counted(report.entries, "entry")
    where = f"{counted(report.blocks, 'block')} and {entries}" if report.blocks else entries
    size = f"{messages} in {where}, {counted(report.topics, 'topic')}"
    if report.removed:
        size += f"; also {report.removed:,} removed messages in entries that others still need"
    if report.is_sound:
        return f"sound: {directory} ({size})"
    lines = [f"DAMAGED: {directory} ({size} were readable)"]
    lines += [f"  {fault}" for fault in report.faults]
    lines.append("Copy the directory before you try anything, and restore a backup.")
    return "\n".join(lines)


@store.command(name="compact")
@_directory_argument
@json_option
def compact_command(directory: Path) -> None:
    """Make the data directory of a stopped broker smaller.

    Folds small or mostly empty blocks together, and rewrites data.mdb without the pages that it no
    longer uses; a running broker reuses these, but never gives them back. No message
    is removed.

    DIRECTORY is the data directory of the broker, penstock-data by default. The disk needs room for
    a block and a copy of data.mdb. If it is interrupted, nothing is lost.
    """
    configure("error", "auto")  # the report tells what a broker would log
    with progress_bar("compacting") as progress:
        report = compact(directory, progress)
    _print(directory, report)


@store.command(name="convert")
@_directory_argument
@json_option
def convert_command(directory: Path) -> None:
    """Bring the directory of a stopped broker to the current format.

    A broker does this by itself, in the background, when it starts. Use this
    command to do it beforehand. It may be interrupted, and continues when it is called again.

    DIRECTORY is the data directory of the broker, penstock-data by default. Earlier versions of
    Penstock cannot read it afterwards: make a backup first.
    """
    configure("error", "auto")
    with progress_bar("converting") as progress:
        report = convert(directory, progress)
    _print(directory, report)


def _print(directory: Path, report: MaintenanceReport) -> None:
    before, after = size_text(report.bytes_before), size_text(report.bytes_after)
    blocks = counted(report.blocks_after, "block")
    if report.blocks_after != report.blocks_before:
        blocks = f"{blocks} instead of {report.blocks_before:,}"
    text = f"{directory}: {before} before, {after} now, in data.mdb and {blocks}"
    if report.entries_left:
        text += (
            f"\n{counted(report.entries_left, 'entry')} came after the last checkpoint, and will be"
            " converted by the broker: start it."
        )
    print_result(msgspec.to_builtins(report), text)
