"""``penstock pub``: publish a message, a file, or a message per line of standard input.

With QoS 0 it succeeds when the broker answers a ping sent after the last message: it can refuse
such a message only by closing the connection. With QoS 1 and 2 it succeeds when every message is
confirmed; on failure it reports how many were, which are the first ones if the connection broke, as
confirmations come in order. In MQTT 5 the broker may also refuse single messages.

Available lines are published together, a typed line at once.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import click
import msgspec

from penstock.cli import names
from penstock.cli.connection import BrokerTarget, checked_topic, client_id_option, mqtt_options
from penstock.cli.inputs import READ_BYTES, flag, in_lines, is_given
from penstock.cli.message_options import property_options
from penstock.cli.replaying import Plan, Renaming, replay_file, replay_options
from penstock.client import Client, ClientError, ConnectionLostError, PublishProperties
from penstock.client.dial import lost
from penstock.errors import PenstockError
from penstock.wire.mqtt.reason_codes import ReasonCode

SIGNED_PREFIX: Final = "secure/"  # these topics require signatures by default

_CONFIRMATIONS: Final = {
    0: "sent",
    1: "acknowledged by the broker",
    2: "acknowledged by the broker, exactly once",
}


class _Outcome(msgspec.Struct):
    """What ``--json`` prints. ``sent`` counts messages passed to the connection."""

    topic: str
    qos: int
    retain: bool
    ok: bool = False
    sent: int = 0
    confirmed: int = 0
    error: str | None = None


class _Pub(click.Command):
    """Explains how to publish a negative number, which looks like an option."""

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


@click.command(cls=_Pub)
@click.argument("words", nargs=-1, metavar="[TOPIC] [MESSAGE]", shell_complete=names.topics)
@click.option("-t", "--topic", help="Publish to TOPIC, instead of the argument.")
@click.option("-m", "--message", help="Publish MESSAGE, instead of the argument.")
@mqtt_options
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("-r", "--retain", is_flag=True, help="Retain the message for new subscribers.")
@click.option("-l", "--lines", is_flag=True, help="Publish each line of standard input.")
@click.option("-f", "--file", type=click.File("rb"), help="Publish a file; - is standard input.")
@click.option(
    "-n", "--null", is_flag=True, help="Publish an empty message; with -r, clear the retained one."
)
@property_options()
@replay_options
@client_id_option("Client id. A stored session with this id is discarded.")
@click.option("-v", "--verbose", is_flag=True, help="Report success also with QoS 0.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@flag("--json", help="Print the result as a JSON object.")
def pub(
    words: tuple[str, ...],
    *,
    topic: str | None,
    message: str | None,
    target: BrokerTarget,
    qos: int,
    retain: bool,
    lines: bool,
    file: BinaryIO | None,
    null: bool,
    properties: PublishProperties | None,
    recording: Path | None,
    speed: float,
    renamings: tuple[Renaming, ...],
    filters: tuple[str, ...],
    skip: int,
    dry_run: bool,
    client_id: str,
    verbose: bool,
    quiet: bool,
) -> None:
    """Publish MESSAGE to TOPIC; without MESSAGE, each line of standard input.

    With --replay, publish a recording: each message with its own topic, QoS and properties.

    Exits with 0 once the broker has confirmed all messages (QoS 1 and 2), or read all of them
    (QoS 0, where a message that this user may not publish is dropped silently); otherwise with 1.
    """
    if recording is not None:
        if words or topic or message or file or null or lines:
            raise click.UsageError("--replay has its own topics and messages: give no others")
        plan = Plan(speed=speed, renamings=renamings, filters=filters, skip=skip)
        replay_file(recording, target, plan, quiet=quiet, dry_run=dry_run)
        return
    topic, message = _named(words, topic, message)
    payload = _payload(message, file, null=null, lines=lines)
    outcome = _Outcome(topic, qos, retain)
    try:
        with target.mqtt(client_id) as client:
            batches = in_lines(_chunks(client)) if payload is None else [[payload]]
            _publish(client, batches, outcome, properties)
    except ClientError as error:
        outcome.error = _failure(error, outcome, target)
    outcome.ok = outcome.error is None
    if is_given("--json"):
        click.echo(msgspec.json.encode(outcome))
    elif outcome.ok and not quiet and (qos or verbose):
        what = _CONFIRMATIONS[qos]
        click.echo(what if outcome.sent == 1 else f"{outcome.sent:,} messages {what}")
    if outcome.error is not None:
        raise PenstockError(outcome.error)


def _named(
    words: tuple[str, ...], topic: str | None, message: str | None
) -> tuple[str, str | None]:
    rest = list(words)
    if topic is None:
        if not rest:
            raise click.UsageError("TOPIC is missing: give TOPIC MESSAGE, or -t TOPIC -m MESSAGE")
        topic = rest.pop(0)
    if message is None and rest:
        message = rest.pop(0)
    if rest:
        raise click.UsageError(f"unexpected argument {rest[0]!r}: quote a message with spaces")
    return checked_topic(topic), message


def _payload(
    message: str | None, file: BinaryIO | None, *, null: bool, lines: bool
) -> bytes | None:
    """Return the payload, or None to read lines from standard input."""
    sources = {"MESSAGE": message is not None, "-f": file is not None, "-n": null, "-l": lines}
    given = [name for name, is_given in sources.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"give only one of {' and '.join(given)}")
    if message is not None:
        return os.fsencode(message)
    if file is not None:
        return file.read()
    if null:
        return b""
    if not lines and sys.stdin.isatty():
        raise click.UsageError(
            "MESSAGE is missing: give it, -f FILE, -n for an empty one, or -l to type lines"
        )
    return None


def _chunks(client: Client) -> Iterator[bytes]:
    descriptor = sys.stdin.fileno()
    client.idle(until=descriptor)
    while chunk := os.read(descriptor, READ_BYTES):
        yield chunk
        client.idle(until=descriptor)


def _publish(
    client: Client,
    batches: Iterable[list[bytes]],
    outcome: _Outcome,
    properties: PublishProperties | None,
) -> None:
    def pairs(batch: list[bytes]) -> Iterator[tuple[str, bytes]]:
        for payload in batch:
            outcome.sent += 1
            yield outcome.topic, payload

    try:
        for batch in batches:
            client.publish_many(
                pairs(batch), outcome.qos, retain=outcome.retain, properties=properties
            )
        if not outcome.qos:
            client.ping()
    finally:
        outcome.confirmed = client.confirmed


_PERHAPS_DENIED = (
    "its log says why; may this user publish there? See penstock acl check USER publish TOPIC"
)


# codes that leave open why: none, and that the broker cannot serve anybody at the moment
_UNEXPLAINED = frozenset({0, ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY})


def _failure(error: ClientError, outcome: _Outcome, target: BrokerTarget) -> str:
    if isinstance(error, ConnectionLostError) and error.reason_code in _UNEXPLAINED:
        error = _with_cause(error, outcome.topic, target)
    elif error.reason_code == ReasonCode.NOT_AUTHORIZED and _is_signed(outcome.topic):
        error = _unsigned(error)
    said = str(error)
    if outcome.sent <= 1:
        return said
    return f"{said} ({outcome.confirmed:,} of {outcome.sent:,} messages were confirmed)"


def _with_cause(
    error: ConnectionLostError, topic: str, target: BrokerTarget
) -> ConnectionLostError:
    from penstock.cli.status import unreadiness  # noqa: PLC0415 - only after a failure

    if reason := unreadiness(target):
        return ConnectionLostError(f"{error.message}: the broker is not ready: {reason}")
    if not _is_signed(topic):
        is_usual = error.advice == lost().advice
        return ConnectionLostError(error.message, _PERHAPS_DENIED) if is_usual else error
    return _unsigned(error)


def _is_signed(topic: str) -> bool:
    return topic.startswith(SIGNED_PREFIX)


def _unsigned(error: ClientError) -> ConnectionLostError:
    what = f"{error.message}: topics that begin with {SIGNED_PREFIX} require signatures"
    return ConnectionLostError(what, "see docs/operating/signing.md")
