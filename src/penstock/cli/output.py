"""Results on standard output: text in columns for people, or JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence

import click
import msgspec

from penstock.cli.inputs import flag, is_given
from penstock.obs.printable import printable

json_option = flag("--json", help="Print JSON.")


def wants_json() -> bool:
    return is_given("--json")


def print_result(document: object, text: str) -> None:
    json = msgspec.json.format(msgspec.json.encode(document), indent=2) if wants_json() else ""
    click.echo(json or text)


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align all columns but the last; a value too long for its column pushes only its own row."""
    widths = [min(max(map(len, column)), 40) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], empty: str) -> str:
    found = list(rows)
    return columns([head, *found]) if found else empty


def counted(count: int, noun: str) -> str:
    """A number of things, as in "1 message", "2 entries" or "3 days"."""
    if count == 1:
        return f"1 {noun}"
    is_irregular = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{count:,} {noun[:-1]}ies" if is_irregular else f"{count:,} {noun}s"


def payload_text(payload: Mapping[str, str], characters: int) -> str:
    """A payload of the API on a line: its text, or base64 if it is none."""
    if "base64" in payload:
        return printable(f"base64:{payload['base64']}", characters)
    return printable(payload.get("text", ""), characters)


def format_time(time: str | None) -> str:
    return "never" if time is None else f"{time[:10]} {time[11:19]} UTC"


def span(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
