"""``penstock request`` and ``penstock respond``: ask and answer, as MQTT 5 has it.

``respond`` runs a command for each request, without a shell: the payload is its standard input, its
standard output is the answer. A request is acknowledged when it was answered, or when its command
failed, which would most likely fail again.
"""

import os
import subprocess
import sys
from math import inf
from typing import BinaryIO, Final

import click
import msgspec

from penstock.cli.connection import (
    BrokerTarget,
    checked_filters,
    checked_topic,
    client_id_option,
    mqtt_options,
)
from penstock.cli.inputs import CommandDecorator, flag, is_given
from penstock.cli.interrupts import discard_output
from penstock.cli.listening import Listening, Output, Wanted
from penstock.cli.message_lines import delivery_json, one_line
from penstock.cli.message_options import property_options
from penstock.client import Client, Delivery, PublishProperties
from penstock.errors import PenstockError

TOPIC_VARIABLE: Final = "PENSTOCK_TOPIC"
COMMAND_S: Final = 30.0
COMMAND_S_MAX: Final = 60.0  # the broker hears nothing from us meanwhile

_qos_option = click.option("-q", "--qos", type=click.IntRange(0, 2), default=1, show_default=True)


def _seconds_option(default: float, most: float | None, text: str) -> CommandDecorator:
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True, max=most),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


@click.command()
@click.argument("topic")
@click.argument("message", required=False)
@mqtt_options
@_qos_option
@click.option("-f", "--file", type=click.File("rb"), help="Send a file; - is standard input.")
@_seconds_option(10.0, None, "How long to wait for the answer.")
@property_options(is_request=True)
@click.option(
    "--response-topic",
    "answer_topic",
    default="",
    metavar="TOPIC",
    help="Where to expect the answer.  [default: responses/CLIENT-ID]",
)
@client_id_option("Client id. A stored session with this id is discarded.")
@flag("--json", help="Print the answer as a JSON object, with its properties.")
def request(
    topic: str,
    message: str | None,
    *,
    target: BrokerTarget,
    qos: int,
    file: BinaryIO | None,
    timeout_s: float,
    properties: PublishProperties | None,
    answer_topic: str,
    client_id: str,
) -> None:
    """Publish MESSAGE to TOPIC, and print the answer.

    The payload of the answer is printed as it is, on a terminal as a line. Exits with 1 if nobody
    answers in time. It needs MQTT 5 at both ends.
    """
    topic = checked_topic(topic)
    payload = _payload(message, file)
    with target.mqtt(client_id) as client:
        answer = client.request(
            topic,
            payload,
            qos=qos,
            timeout_s=timeout_s,
            properties=properties,
            response_topic=checked_topic(answer_topic) if answer_topic else "",
        )
    sys.stdout.buffer.write(_shown(answer))


def _payload(message: str | None, file: BinaryIO | None) -> bytes:
    if message is not None and file is not None:
        raise click.UsageError("give only one of MESSAGE and -f")
    if file is not None:
        return file.read()
    return os.fsencode(message or "")


def _shown(answer: Delivery) -> bytes:
    if is_given("--json"):
        return delivery_json(answer) + b"\n"
    return one_line(answer.payload) + b"\n" if sys.stdout.isatty() else answer.payload


class _Answered(msgspec.Struct):
    """What ``respond --json`` prints of a request; ``status`` is that of its command."""

    topic: str
    ok: bool
    status: int | None
    bytes: int = 0
    error: str = ""


@click.command()
@click.argument("topic_filter", metavar="FILTER")
@click.argument("command", nargs=-1, required=True, metavar="COMMAND...")
@mqtt_options
@_qos_option
@client_id_option("Use a persistent session with this id, so that no request is missed.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT requests.")
@_seconds_option(COMMAND_S, COMMAND_S_MAX, "How long the command may take.")
@click.option("--quiet", is_flag=True, help="Do not report the subscription on standard error.")
@flag("--json", help="Print a JSON object per request.")
def respond(
    topic_filter: str,
    command: tuple[str, ...],
    *,
    target: BrokerTarget,
    qos: int,
    client_id: str,
    count: int | None,
    timeout_s: float,
    quiet: bool,
) -> None:
    """Answer requests that match FILTER with the output of COMMAND.

    COMMAND runs once per request, without a shell, with the payload as its standard input and the
    topic in PENSTOCK_TOPIC. Write -- before a COMMAND with options. If it fails there is no answer,
    only a line on standard error. Several responders share the work with the FILTER
    $share/GROUP/FILTER.
    """
    [name] = checked_filters(click.get_current_context(), _FILTER, (topic_filter,))
    output = Output(count, inf, quiet=quiet)
    wanted = Wanted(filters=(name,), qos=qos, client_id=client_id)

    def answer(client: Client, requests: list[Delivery]) -> None:
        for each in requests:
            _report(_answer(client, each, command, timeout_s), output)

    try:
        Listening(target, wanted, output).run(answer, batch_max=1)
    except BrokenPipeError:
        discard_output()


def _answer(
    client: Client, asked: Delivery, command: tuple[str, ...], timeout_s: float
) -> _Answered:
    if client.version < 5:
        raise PenstockError("requests need MQTT 5, and the broker speaks 3.1.1", "use another one")
    if asked.properties.response_topic is None:
        return _Answered(asked.topic, False, None, error="it names no response topic")
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command, without a shell
            command,
            input=asked.payload,
            stdout=subprocess.PIPE,
            env=os.environ | {TOPIC_VARIABLE: asked.topic},
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _Answered(asked.topic, False, None, error=f"no answer within {timeout_s:g} s")
    except OSError as error:
        raise PenstockError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        return _Answered(asked.topic, False, done.returncode, error="the command failed")
    client.reply(asked, done.stdout)
    return _Answered(asked.topic, True, 0, len(done.stdout))


def _report(answered: _Answered, output: Output) -> None:
    if is_given("--json"):
        output.write([msgspec.json.encode(answered)])
        return
    output.printed += 1
    if not answered.ok:
        status = "" if answered.status is None else f" with status {answered.status}"
        topic = one_line(answered.topic.encode()).decode()
        click.echo(f"penstock: {topic}: {answered.error}{status}", err=True)


_FILTER: Final = click.Argument(["topic_filter"])
