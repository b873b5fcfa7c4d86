"""``penstock pub``: publish a message, a file, or a message per line of standard input.

Its one promise: it says what is known and no more. With QoS 0 the command succeeds when the broker
has answered a ping sent after the last message: it has read them all then, and refused none, for
MQTT 3.1.1 has no other way to refuse than to close the connection. With QoS 1 and 2 it succeeds
when the broker has confirmed every message, and when it fails it tells how many were confirmed:
those are the first ones, since confirmations come in order.

Lines are read in chunks, as they come: what is there is published together, a line that was typed
is published at once, and while there is none the connection is kept alive.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

import click
import msgspec

from penstock.cli.connection import CONTEXT, checked_topic, client_id_option, connection_options
from penstock.cli.lines import READ_BYTES, in_lines
from penstock.client import Client, ClientError, ConnectionLostError, connect
from penstock.config.address import Address
from penstock.errors import PenstockError

SIGNED_PREFIX: Final = "secure/"
"""Topics that begin so demand a signature, unless the broker is configured otherwise."""

_CONFIRMATIONS: Final = {
    0: "sent",
    1: "acknowledged by the broker",
    2: "acknowledged by the broker, exactly once",
}


class _Outcome(msgspec.Struct):
    """What ``--json`` prints. ``sent`` counts what was handed to the connection."""

    topic: str
    qos: int
    retain: bool
    ok: bool = False
    sent: int = 0
    confirmed: int = 0
    error: str | None = None


class _Pub(click.Command):
    """Says how to publish a negative number, which looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            number = next((word for word in given if word.startswith(error.option_name)), "")
            if not number[1:2].isdecimal():
                raise
            hint = f"{number!r} looks like an option; write -m {number} to publish it"
            raise click.UsageError(hint, ctx) from None


@click.command(cls=_Pub, context_settings=CONTEXT)
@click.argument("words", nargs=-1, metavar="[TOPIC] [MESSAGE]")
@click.option("-t", "--topic", help="Publish to TOPIC, in place of the argument.")
@click.option("-m", "--message", help="Publish MESSAGE, in place of the argument.")
@connection_options
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("-r", "--retain", is_flag=True, help="Have the broker keep it for new subscribers.")
@click.option("-l", "--lines", is_flag=True, help="Publish each line of standard input.")
@click.option("-f", "--file", type=click.File("rb"), help="Publish a file; - is standard input.")
@click.option("-n", "--null", is_flag=True, help="Publish an empty message; with -r, clears.")
@client_id_option("Client id. A stored session of that name is discarded.")
@click.option("-v", "--verbose", is_flag=True, help="Report success with QoS 0, too.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON object.")
def pub(
    words: tuple[str, ...],
    *,
    topic: str | None,
    message: str | None,
    host: str,
    port: int,
    qos: int,
    retain: bool,
    lines: bool,
    file: BinaryIO | None,
    null: bool,
    client_id: str,
    verbose: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Publish MESSAGE to TOPIC; without MESSAGE, each line of standard input.

    Exits with 0 once the broker has confirmed everything (QoS 1 and 2) or has read everything and
    refused nothing (QoS 0), else with 1.
    """
    topic, message = _named(words, topic, message)
    payload = _payload(message, file, null=null, lines=lines)
    outcome = _Outcome(topic, qos, retain)
    try:
        with connect(host, port, client_id) as client:
            batches = in_lines(_chunks(client)) if payload is None else [[payload]]
            _publish(client, batches, outcome)
    except ClientError as error:
        outcome.error = _failure(error, outcome, Address(host, port))
    outcome.ok = outcome.error is None
    if as_json:
        click.echo(msgspec.json.encode(outcome))
    elif outcome.ok and not quiet and (qos or verbose):
        click.echo(_sentence(outcome))
    if outcome.error is not None:
        raise PenstockError(outcome.error)


# ── What to publish ───────────────────────────────────────────────────────────────────────────


def _named(
    words: tuple[str, ...], topic: str | None, message: str | None
) -> tuple[str, str | None]:
    """Take topic and message from options, and what is missing from the arguments, in order."""
    rest = list(words)
    if topic is None:
        if not rest:
            raise click.UsageError("no topic: give TOPIC MESSAGE, or -t TOPIC -m MESSAGE")
        topic = rest.pop(0)
    if message is None and rest:
        message = rest.pop(0)
    if rest:
        raise click.UsageError(f"{rest[0]!r} is too much: a message with spaces needs quotes")
    return checked_topic(topic), message


def _payload(
    message: str | None, file: BinaryIO | None, *, null: bool, lines: bool
) -> bytes | None:
    """Return the one payload; None stands for the lines of standard input."""
    sources = {"MESSAGE": message is not None, "-f": file is not None, "-n": null, "-l": lines}
    given = [name for name, is_given in sources.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)}: which of them is the message?")
    if message is not None:
        return os.fsencode(message)
    if file is not None:
        return file.read()
    if null:
        return b""
    if not lines and sys.stdin.isatty():
        raise click.UsageError(
            "no message: give MESSAGE, -f FILE, -n for an empty one, or -l to type lines"
        )
    return None


def _chunks(client: Client) -> Iterator[bytes]:
    """Yield what standard input has, by the chunk."""
    descriptor = sys.stdin.fileno()
    while True:
        client.idle(until=descriptor)
        chunk = os.read(descriptor, READ_BYTES)
        if not chunk:
            break
        yield chunk


def _publish(client: Client, batches: Iterable[list[bytes]], outcome: _Outcome) -> None:
    def pairs(batch: list[bytes]) -> Iterator[tuple[str, bytes]]:
        for payload in batch:
            outcome.sent += 1
            yield outcome.topic, payload

    try:
        for batch in batches:
            client.publish_many(pairs(batch), outcome.qos, retain=outcome.retain)
        if not outcome.qos:
            client.ping()
    finally:
        outcome.confirmed = client.confirmed


# ── What to say ───────────────────────────────────────────────────────────────────────────────


def _sentence(outcome: _Outcome) -> str:
    what = _CONFIRMATIONS[outcome.qos]
    return what if outcome.sent == 1 else f"{outcome.sent:,} messages {what}"


def _failure(error: ClientError, outcome: _Outcome, server: Address) -> str:
    if isinstance(error, ConnectionLostError):
        error = _with_suspect(error, outcome.topic, server)
    said = str(error)
    if outcome.sent <= 1:
        return said
    return f"{said} ({outcome.confirmed:,} of {outcome.sent:,} messages were confirmed)"


def _with_suspect(error: ConnectionLostError, topic: str, server: Address) -> ConnectionLostError:
    """Name the likeliest cause: a broker that is not ready, or a topic that demands a signature."""
    from penstock.cli.status import unreadiness  # noqa: PLC0415 - only after a failure

    if reason := unreadiness(server):
        return ConnectionLostError(f"{error.message}: it is not ready: {reason}")
    if not topic.startswith(SIGNED_PREFIX):
        return error
    what = f"{error.message}: a publish to {SIGNED_PREFIX}... needs a signature"
    return ConnectionLostError(what, "see docs/operating/signing.md")
