"""``penstock why``: what became of a client, a message, a topic, a publish, in plain words."""

import shutil
import textwrap
from collections.abc import Iterator

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.output import print_result
from penstock.obs.printable import printable

WIDTH_MAX = 100
WIDTH_MIN = 32
TEXT_MAX = 600
RECEIVERS_SHOWN = 20

_CERTAINTY = {"recorded": "recorded", "derived": "derived", "not_kept": "not kept"}


@click.group()
def why() -> None:
    """Explain what happened, and what to do about it.

    Each line is recorded (written down when it happened), derived (follows from the present
    state and the journal) or not kept. Lines marked ! are problems.
    """


@why.command()
@click.argument("client_id", shell_complete=names.clients)
@admin_options
def client(client_id: str, broker: AdminClient) -> None:
    """Explain why a client is connected, away, disconnected or refused."""
    _show(broker.get("why/client", client_id=client_id))


@why.command()
@click.argument("topic", shell_complete=names.topics)
@click.argument("offset", type=click.IntRange(min=0))
@admin_options
def message(topic: str, offset: int, broker: AdminClient) -> None:
    """Explain what happened to a message, for each receiver."""
    _show(broker.get("why/message", topic=topic, offset=offset))


@why.command()
@click.argument("topic", shell_complete=names.topics)
@admin_options
def topic(topic: str, broker: AdminClient) -> None:
    """Explain who gets messages of a topic, and what is dropped."""
    _show(broker.get("why/topic", topic=topic))


@why.command()
@click.argument("topic", shell_complete=names.topics)
@click.option("--as", "user", metavar="USER", default="", help="The user to publish as.")
@click.option("--bytes", "payload_bytes", type=click.IntRange(min=0), default=0, help="Size.")
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=1, show_default=True)
@click.option("--retain", is_flag=True, help="With the retain flag.")
@admin_options
def publish(
    topic: str, user: str, payload_bytes: int, qos: int, *, retain: bool, broker: AdminClient
) -> None:
    """Say whether a publish would be accepted, and who would get it."""
    asked = {"user": user, "payload_bytes": payload_bytes, "qos": qos, "retain": retain}
    _show(broker.post("why/publish", topic=topic, **asked))


def _show(found: Document) -> None:
    print_result(found, "\n".join(_lines(found)))


def _lines(found: Document) -> Iterator[str]:
    width = max(WIDTH_MIN, min(WIDTH_MAX, shutil.get_terminal_size().columns))
    yield click.style(found["fate"].upper().replace("_", " "), bold=True)
    yield from _wrapped(found["summary"], "", width)
    yield from _checks(found, width)
    for fact in found["facts"]:
        yield from _fact(fact, width)
    yield from _advice(found, width)
    if found["not_kept"]:
        yield from _wrapped(f"Not kept: {', '.join(found['not_kept'])}.", "", width)
    for missing in found.get("incomplete", []):
        text = f"Without node {missing['node']} ({missing['reason']})."
        yield from _wrapped(text, "", width)


def _checks(found: Document, width: int) -> Iterator[str]:
    for check in found["checks"]:
        mark = "+ " if check["passes"] else "! "
        yield from _wrapped(f"{check['code']}: {check['text']}", _mark(mark), width)


def _fact(fact: Document, width: int) -> Iterator[str]:
    moment = f"{fact['at'][11:19]} " if fact["at"] else ""
    certainty = _CERTAINTY.get(fact["certainty"], fact["certainty"])
    text = f"{moment}{fact['text']} ({certainty})"
    yield from _wrapped(text, _mark("! " if fact["is_trouble"] else "+ "), width)


def _advice(found: Document, width: int) -> Iterator[str]:
    for advice in found["advice"]:
        yield from _wrapped(advice["text"], "Do: ", width)
        if advice["command"]:
            yield f"    {printable(advice['command'], TEXT_MAX)}"


def _mark(mark: str) -> str:
    return click.style(mark, fg="yellow", bold=True) if mark.startswith("!") else mark


def _wrapped(text: str, mark: str, width: int) -> list[str]:
    """Lines of a width; what follows the first is indented to the mark."""
    indent = len(click.unstyle(mark))
    safe = printable(text, TEXT_MAX)
    lines = textwrap.wrap(safe, width - indent, break_long_words=True) or [""]
    return [f"{mark}{lines[0]}", *(" " * indent + line for line in lines[1:])]
