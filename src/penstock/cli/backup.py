"""``penstock backup`` and ``penstock restore``: one file for everything in a data directory."""

import secrets
from pathlib import Path
from time import gmtime, strftime

import click
import msgspec

from penstock.cli.files import open_many_files
from penstock.cli.inputs import flag, is_given
from penstock.cli.output import counted, json_option, print_result
from penstock.cli.progress import progress_bar, size_text
from penstock.cluster.record import RaftRecord, decode_record
from penstock.cluster.recovery import recover
from penstock.config.schema import Config
from penstock.errors import Refused
from penstock.store.copies.backup import BackupReport, back_up
from penstock.store.copies.restore import RestoreReport
from penstock.store.copies.restore import restore as restore_directory
from penstock.store.environment import Environment
from penstock.store.log_tail import get_record

_file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command()
@_file_argument
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(Config().data),
    show_default=True,
    metavar="DIR",
    help="Data directory of the broker, which may be running.",
)
@click.option(
    "--since",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PREVIOUS",
    help="Write only what this earlier backup and those before it do not have.",
)
@json_option
def backup(file: Path, data: Path, since: Path | None) -> None:
    """Back up everything that a broker has stored to FILE.

    The backup is of one moment: everything acknowledged until then, and all sessions, groups,
    queues and users. The broker keeps running. FILE must not exist; it appears when it is
    complete.

    With --since only new parts of the journal are written. To restore such a backup, keep the
    earlier ones in the same folder.

    FILE is as confidential as the data directory. Exits with 1 if the store itself is damaged: the
    backup is made all the same, but keep the earlier ones.
    """
    open_many_files()
    with progress_bar("backing up") as progress:
        report = back_up(data, file, since, progress)
    print_result(msgspec.to_builtins(report), _backup_text(report))
    raise SystemExit(bool(report.damaged))


def _backup_text(report: BackupReport) -> str:
    blocks = f"{report.blocks_written:,} of {counted(report.blocks, 'block')}"
    what = f"data.mdb and {blocks}" if report.blocks else "data.mdb; there are no blocks yet"
    lines = [f"{report.file}: {size_text(report.bytes)}, {what}"]
    if report.needs:
        lines.append(f"To restore it, keep {', '.join(report.needs)} in the same folder.")
    if report.damaged:
        lines += ["DAMAGED in the store, and so in the backup:"]
        lines += [f"  {fault}" for fault in report.damaged]
        lines.append("Keep the earlier backups.")
    return "\n".join(lines)


@click.command()
@_file_argument
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Data directory to restore; it must not exist, or be empty.",
)
@flag(
    "--new-cluster",
    help="Of a node of a cluster: make it a cluster of one, under a new id.",
)
@flag(
    "--same-cluster",
    help="Of a node of a cluster: keep it a member. Only while all nodes are stopped.",
)
@json_option
def restore(file: Path, data: Path) -> None:
    """Restore a data directory from the backup FILE.

    Every checksum is verified before anything is put in place. Nothing is ever overwritten. Earlier
    backups that FILE continues are found in the same folder, whatever their names.

    A node of a cluster must not return among running ones with an old state: it would break
    promises it has made since. So its backup is restored with --new-cluster, as a cluster of one
    that other nodes then join; or with --same-cluster, if all nodes are stopped and a majority of
    them is restored.
    """
    if is_given("--new-cluster") and is_given("--same-cluster"):
        raise click.UsageError("--new-cluster and --same-cluster exclude each other")
    with progress_bar("restoring") as progress:
        report = restore_directory(file, data, progress, look=_check_cluster, finish=_settle)
    print_result(msgspec.to_builtins(report), _restore_text(report))


def _check_cluster(draft: Path) -> None:
    """Refuse, unless told what to do, to restore a node that has peers."""
    record = _member_record(draft)
    if record is None or is_given("--new-cluster") or is_given("--same-cluster"):
        return
    raise Refused(
        f"this is a backup of node {record.node_id} of a cluster",
        "Use --new-cluster to begin a cluster of one with it, or --same-cluster if all nodes are"
        " stopped and a majority of them is restored. To repair one node of a running cluster,"
        " replace it instead (penstock cluster join).",
    )


def _settle(draft: Path) -> None:
    if is_given("--new-cluster") and _member_record(draft) is not None:
        recover(draft, secrets.token_bytes(16))


def _member_record(draft: Path) -> RaftRecord | None:
    """What the node knows of its cluster; None if it has no peers."""
    environment = Environment(draft, map_bytes=0, readonly=True)
    try:
        with environment.reading() as transaction:
            data, _ = get_record(environment, transaction)
    finally:
        environment.close()
    record = None if data is None else decode_record(data)
    if record is None or not record.is_initialised or record.is_alone():
        return None
    return record


def _restore_text(report: RestoreReport) -> str:
    made = strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(report.created_ms / 1000))
    lines = [
        f"{report.data}: {size_text(report.bytes)}, {counted(report.blocks, 'block')}, as of {made}"
    ]
    if len(report.files) > 1:
        lines.append(f"read from {', '.join(report.files)}")
    if report.lost:
        lines.append(f"lost before the backup was made: {', '.join(report.lost)}")
    if report.damaged:
        lines.append(f"DAMAGED before the backup was made: {', '.join(report.damaged)}")
        lines.append("An earlier backup may have them intact.")
        lines.append(f"See what is missing: penstock store verify {report.data}")
    lines.append(f"Start it: penstock serve --data {report.data}")
    return "\n".join(lines)
