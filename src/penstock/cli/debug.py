"""``penstock debug bundle``: one file with what somebody else needs to find a fault.

It holds what the broker says of itself: state, figures, settings, recorded events, stacks. It has
no payload, and no secret: settings come masked from the broker. ``--anonymous`` also replaces names
(topics, clients, users, addresses) by codes, equal names by equal ones, so that a bundle may leave
the house. What the broker refuses to show is named in the bundle instead.
"""

import hashlib
import io
import platform
import re
import secrets
import tarfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from penstock import __version__
from penstock.cli.admin_client import AdminClient, admin_options
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import counted, print_result
from penstock.cli.progress import progress_bar, size_text
from penstock.errors import PenstockError

BETWEEN_METRICS_S: Final = 2.0  # two samples of every counter make a rate

DOCUMENTS: Final = (
    "overview",
    "history",
    "settings",
    "clients?limit=200",
    "sessions?limit=200",
    "topics?limit=200",
    "groups?limit=200",
    "dlq?limit=200",
    "readers?limit=200",
    "sinks?limit=200",
    "bridges",
    "schedules?limit=200",
    "events?limit=1000",
    "cluster",
    "debug/stacks",
)
"""What is asked; nothing here has a payload."""

_SHOWING: Final = frozenset({"payload", "headers", "last_value", "value_preview"})
_NAMES: Final = frozenset(
    {
        "author",
        "client",
        "client_id",
        "consumer",
        "filter",
        "filters",
        "group",
        "holder",
        "host",
        "peer",
        "principal",
        "topic",
        "topics",
        "url",
        "user",
        "advertise",
        "advertise_peer",
    }
)
_USUAL: Final = frozenset({"name", "detail", "text"})
_NAMES_OF: Final = {
    "debug-stacks": frozenset[str](),  # names of functions
    "settings": frozenset({"value", "default"}),
    "status": frozenset[str](),
}
"""What else is a name, by document."""

_LABELS: Final = re.compile(r'\b(topic|group|reader|sink|bridge|user|address)="((?:[^"\\]|\\.)*)"')


@click.group(cls=CommandGroup)
def debug() -> None:
    """Collect data for a bug report."""


@debug.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to FILE, by default penstock-debug-TIME.tar.gz here.",
)
@click.option(
    "--anonymous", is_flag=True, help="Replace names of topics, clients, users and hosts by codes."
)
@admin_options
def bundle(broker: AdminClient, output: Path | None, *, anonymous: bool) -> None:
    """Write data for a bug report to one file.

    State, figures, settings, events and stacks of the broker. No payloads and no secrets are in it.
    """
    now = datetime.now(UTC)
    path = output or Path(f"penstock-debug-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    hidden: Callable[[str], str] = Codes().code if anonymous else str
    files, refused = _collect(broker, hidden)
    files["bundle.json"] = _json(
        {
            "made": now.isoformat(timespec="seconds"),
            "by": f"penstock {__version__}, Python {platform.python_version()}",
            "system": platform.platform(),
            "anonymous": anonymous,
            "refused": refused,
        }
    )
    _write(path, files, int(now.timestamp()))
    document = {"file": str(path), "parts": sorted(files), "refused": refused}
    size = f"{size_text(path.stat().st_size)}, {counted(len(files), 'part')}"
    lines = [f"Wrote {path} ({size}). Look through it before you send it."]
    lines += [f"not in it: {name}: {why}" for name, why in refused.items()]
    print_result(document, "\n".join(lines))


def _collect(
    broker: AdminClient, hidden: Callable[[str], str]
) -> tuple[dict[str, bytes], dict[str, str]]:
    files: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    files["metrics-1.txt"] = _metrics(broker, hidden)
    began = time.monotonic()
    with progress_bar("asking the broker") as show:
        for number, path in enumerate(DOCUMENTS, 1):
            name = path.partition("?")[0].replace("/", "-")
            try:
                files[f"{name}.json"] = _json(without_names(broker.get(path), hidden, of=name))
            except PenstockError as error:
                refused[name] = error.message
            show(number, len(DOCUMENTS))
    time.sleep(max(0.0, began + BETWEEN_METRICS_S - time.monotonic()))
    files["metrics-2.txt"] = _metrics(broker, hidden)
    return files, refused


def _metrics(broker: AdminClient, hidden: Callable[[str], str]) -> bytes:
    text = broker.metrics().decode("utf-8", "replace")
    return _LABELS.sub(lambda label: f'{label[1]}="{hidden(label[2])}"', text).encode()


class Codes:
    """Gives each name a code: the same one throughout a bundle, another one in the next."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)

    def code(self, name: str) -> str:
        if not name:
            return name
        return "x" + hashlib.blake2b(name.encode(), key=self._salt, digest_size=5).hexdigest()


def without_names(value: Any, hidden: Callable[[str], str], key: str = "", of: str = "") -> Any:
    """Replace the names in a document, and leave out what shows payloads."""
    match value:
        case dict():
            return {
                name: without_names(each, hidden, name, of)
                for name, each in value.items()
                if name not in _SHOWING
            }
        case list():
            return [without_names(each, hidden, key, of) for each in value]
        case str() if key in _NAMES or key in _NAMES_OF.get(of, _USUAL):
            return hidden(value)
        case _:
            return value


def _json(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _write(path: Path, files: dict[str, bytes], now_s: int) -> None:
    try:
        with tarfile.open(path, "x:gz") as archive:
            for name, content in sorted(files.items()):
                part = tarfile.TarInfo(f"penstock-debug/{name}")
                part.size, part.mtime, part.mode = len(content), now_s, 0o600
                archive.addfile(part, io.BytesIO(content))
        path.chmod(0o600)
    except FileExistsError:
        raise PenstockError(f"{path} exists", "choose another name with -o") from None
    except OSError as error:
        raise PenstockError(f"cannot write {path}: {error.strerror}") from error
