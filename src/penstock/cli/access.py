"""``penstock access``: users and rules as a file, and those of other brokers."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import click
import msgspec

from penstock.access.documents import AccessDocument, read_document
from penstock.access.imports import mosquitto, redis
from penstock.access.imports.faults import ImportFault
from penstock.cli.access_options import access_options, change_options
from penstock.cli.admin_client import AdminClient, Document, stale_option
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import columns, counted, format_time, print_result, table
from penstock.errors import PenstockError
from penstock.limits import ACCESS_DOCUMENT_BYTES_MAX
from penstock.obs.printable import printable

PATH: Final = "access"
NAMES_SHOWN = 5  # rows of one change

_file_type = click.Path(exists=True, dir_okay=False, path_type=Path)
_file_argument = click.argument("file", type=_file_type)
_prune_option = flag("--prune", help="Also remove users, roles and bans that FILE does not name.")


@click.group(cls=CommandGroup)
def access() -> None:
    """Keep users and rules in a file: export, plan, apply, import."""


@access.command()
@click.option("--hashes", is_flag=True, help="With hashes of passwords and secrets; keep it safe.")
@access_options
@stale_option
def export(*, hashes: bool, broker: AdminClient) -> None:
    """Print all users, roles and bans as TOML, or with --json as JSON.

    Without --hashes it has no credentials: users keep theirs when it is applied.
    """
    found = broker.current(f"{PATH}/export", hashes=hashes or None)
    print_result(found["document"], toml(found["document"]))


def toml(document: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """Strings as in JSON: what is written there is also TOML."""
    lines = ["# Users, roles and bans of a Penstock broker; see penstock access plan --help."]
    for kind in ("roles", "users", "bans"):
        for name, fields in document.get(kind, {}).items():
            lines += ["", f"[{kind}.{_json(name)}]"]
            given = {field: value for field, value in fields.items() if value != {}}
            lines += [f"{field} = {_value(value)}" for field, value in given.items()]
    return "\n".join(lines)


def _value(value: object) -> str:
    if isinstance(value, list) and len(value) > 1:
        return "[\n" + "".join(f"  {_json(item)},\n" for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_json(item)}" for key, item in value.items()) + " }"
    return _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


@access.command()
@_file_argument
@_prune_option
@access_options
def plan(file: Path, broker: AdminClient) -> None:
    """Show what applying FILE would do, and change nothing.

    That is: which rows change, and who loses and who gains which rights.
    """
    found = _planned(broker, _read(file, read_document))
    print_result(found, _plan_text(found))


@access.command()
@_file_argument
@_prune_option
@yes_option
@change_options
def apply(file: Path, broker: AdminClient) -> None:
    """Apply FILE to users, roles and bans: all of it, or nothing.

    Shows the plan first. If somebody else changes anything before it is confirmed, it is refused.
    """
    _apply(broker, _read(file, read_document))


def _apply(broker: AdminClient, document: AccessDocument) -> None:
    planned = _planned(broker, document)
    if not planned["changes"]:
        print_result(planned, _plan_text(planned))
        return
    if not is_given("--yes"):
        click.echo(_plan_text(planned), err=True)
        confirm("Apply it?")
    applied = broker.post(f"{PATH}/apply", **_body(document), expected=planned["version"])
    print_result(applied, f"applied: {counted(len(applied['changes']), 'row')} changed")


def _planned(broker: AdminClient, document: AccessDocument) -> Document:
    return broker.post(f"{PATH}/plan", **_body(document))


def _body(document: AccessDocument) -> dict[str, object]:
    return {"document": document.builtins(), "prune": is_given("--prune")}


def _read(file: Path, parse: Callable[[str], AccessDocument]) -> AccessDocument:
    try:
        return parse(_text(file))
    except ImportFault as error:
        raise PenstockError(str(error), "nothing was imported") from None
    except ValueError as error:
        raise PenstockError(f"{file}: {error}", "nothing was changed") from None


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > ACCESS_DOCUMENT_BYTES_MAX:
            raise PenstockError(f"{file} is larger than {ACCESS_DOCUMENT_BYTES_MAX} bytes")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PenstockError(f"{file} cannot be read: {error}") from None


# ── plans as text ─────────────────────────────────────────────────────────────────────────────


def _plan_text(found: Document) -> str:
    if not found["changes"]:
        return "no difference: nothing to change"
    parts = [
        _section("Changes", (_change_row(change) for change in found["changes"])),
        _section("Loses", map(_right_row, found["loses"])),
        _section("Gains", map(_right_row, found["gains"])),
        _section("Could no longer log in", ((name,) for name in found["locked_out"])),
        _section("Subscriptions that receive less", map(_affected_row, found["subscriptions"])),
    ]
    more = "\n\n(more rights differ; only the first 1,000 are shown)" if found["more"] else ""
    return "\n\n".join(filter(None, parts)) + more


def _section(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    found = [("", *row) for row in rows]
    return f"{title}:\n{columns(found)}" if found else ""


def _change_row(change: Document) -> tuple[str, ...]:
    return (change["what"], change["kind"], printable(change["name"]), ", ".join(change["fields"]))


def _right_row(right: Document) -> tuple[str, ...]:
    topics = printable(right["filter"], 200)
    return (right["user"], right["action"], topics, f"{right['before']} -> {right['after']}")


def _affected_row(one: Document) -> tuple[str, ...]:
    return (one["user"] or "-", printable(one["client_id"]), printable(one["topic_filter"], 200))


# ── other brokers ─────────────────────────────────────────────────────────────────────────────


@access.group(name="import", cls=CommandGroup)
def import_group() -> None:
    """Import users and rules from other brokers."""


@import_group.command(name="mosquitto")
@click.option(
    "--passwords",
    type=_file_type,
    metavar="FILE",
    help="Mosquitto's password_file.",
)
@click.option(
    "--acl",
    type=_file_type,
    metavar="FILE",
    help="Mosquitto's acl_file; without one, users may publish and subscribe everywhere.",
)
@yes_option
@change_options
def import_mosquitto(passwords: Path | None, acl: Path | None, broker: AdminClient) -> None:
    """Import the users and rules of Mosquitto.

    Users keep their passwords. If a line is invalid, nothing is imported.
    """
    if passwords is None and acl is None:
        raise click.UsageError("give --passwords, --acl or both")
    rules = None if acl is None else _text(acl)
    hashes = "" if passwords is None else _text(passwords)
    try:
        document = mosquitto.imported(hashes, rules)
    except ImportFault as error:
        raise PenstockError(str(error), "nothing was imported") from None
    _apply(broker, document)


@import_group.command(name="redis")
@_file_argument
@yes_option
@change_options
def import_redis(file: Path, broker: AdminClient) -> None:
    """Import a Redis ACL file (aclfile, or the lines of ACL LIST).

    Users keep their passwords. If a line is invalid, nothing is imported.
    """
    _apply(broker, _read(file, redis.imported))


# ── what was changed ──────────────────────────────────────────────────────────────────────────


@access.command()
@click.option("-n", "--max", "count", type=click.IntRange(1, 1_000), default=20, show_default=True)
@access_options
@stale_option
def log(*, count: int, broker: AdminClient) -> None:
    """Show who changed users, keys, topics, groups or the cluster.

    Failed logins are in it, too, summed up by the minute. It is the topic $audit/access.
    """
    entries = broker.current("audit", limit=count)["items"][::-1]
    head = ("TIME", "WHO", "FROM", "WHAT")
    print_result(entries, table(head, map(_entry_row, entries), "nothing was changed"))


def _entry_row(entry: Document) -> tuple[str, ...]:
    return (
        format_time(entry["time"]),
        printable(entry["user"]) or "-",
        printable(entry["address"]) or "-",
        printable(_what(entry), 400),
    )


def _what(entry: Document) -> str:
    rows = entry["changes"]
    names = [_row_name(row) for row in rows[:NAMES_SHOWN]]
    more = [f"and {len(rows) - NAMES_SHOWN:,} more"] if len(rows) > NAMES_SHOWN else []
    count = [counted(entry["count"], "time")] if entry["count"] else []
    note = [entry["note"]] if entry["note"] else []
    return ", ".join([entry["action"], *names, *more, *count, *note])


def _row_name(row: Document) -> str:
    of = f" of {row['topic']}" if row.get("topic") else ""
    return f"{row['kind']} {row['name']}{of}{_how(row)}"


def _how(row: Document) -> str:
    """What became of a row, as far as the record has it."""
    before, after = row.get("before"), row.get("after")
    if before is None and after is None:
        return ""
    if before is None or after is None:
        return " added" if before is None else " removed"
    counted_anyway = {"has_password", "secrets"}  # as new credentials
    fields = [
        name.removeprefix("is_").removesuffix("_ms")
        for name, value in after.items()
        if before.get(name) != value and name not in counted_anyway
    ]
    fields += ["credentials"] if row.get("has_new_credentials") else []
    return f" changed ({', '.join(fields)})" if fields else " unchanged"
