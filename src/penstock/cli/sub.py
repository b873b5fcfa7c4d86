"""``penstock sub``: subscribe, and print a line for each message.

A message is acknowledged after its line has been written, not when it arrives: whoever reads the
pipe has it, or the broker still has. So with a stored session (``-c``) a run takes up where the
last one ended, and ``-n COUNT`` takes exactly COUNT; the next stays at the broker.

Once the broker has confirmed the subscription, a line on standard error says so: from here on
nothing is missed. Standard output has messages and nothing else.

SIGINT and SIGTERM do not interrupt: they make a file descriptor readable, which the client watches
next to its socket. What has been written is acknowledged, then we say goodbye. A second signal does
interrupt, should the reader of our output have stopped reading.
"""

import os
import signal
import stat
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from math import inf
from time import monotonic
from types import FrameType
from typing import Final, TypeAlias

import click
import msgspec

from penstock.cli.connection import CONTEXT, checked_filters, client_id_option, connection_options
from penstock.client import (
    Client,
    ConnectionLostError,
    Delivery,
    RefusedError,
    ReplyTimeoutError,
    connect,
)

__all__ = ["sub"]

REFUSED: Final = 0x80
"""The return code of SUBACK for a filter that was not accepted."""

_Show: TypeAlias = Callable[[Delivery], bytes]
"""Makes a delivery one line."""


@click.command(context_settings=CONTEXT)
@click.argument("filters", nargs=-1, required=True, metavar="FILTER...", callback=checked_filters)
@connection_options
@click.option(
    "-q",
    "--qos",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="Highest QoS to receive with.",
)
@client_id_option(
    "Keep a session under this name at the broker, so that nothing published with QoS 1 or 2 is"
    " missed between runs. Without it, a run sees only what arrives meanwhile."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after SECONDS; exit status 1 if COUNT was not reached.",
)
@click.option("--quiet", is_flag=True, help="Do not say when the subscription is in place.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per message.")
def sub(
    filters: tuple[str, ...],
    *,
    host: str,
    port: int,
    qos: int,
    client_id: str,
    count: int | None,
    timeout_s: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    r"""Subscribe to FILTERs and print `topic payload`, a line per message.

    Control characters are shown as \n or \x1b, a payload that is not UTF-8 as hex:..., so that a
    message is always one line; --json loses nothing. Ctrl-C ends it, with exit status 0.
    """
    show: _Show = _as_json if as_json else _as_text
    deadline = inf if timeout_s is None else monotonic() + timeout_s
    try:
        with connect(host, port, client_id, clean_session=not client_id) as client:
            _subscribe(client, filters, qos)
            with _signals_as_input() as stop:
                if not quiet:
                    click.echo(f"subscribed to {', '.join(filters)}", err=True)
                printed = _print_deliveries(client, show, count, deadline, stop)
    except BrokenPipeError:
        _discard_output()
        return
    except ConnectionLostError as error:
        raise _with_suspect(error, client_id) from error
    if count is not None and printed < count and monotonic() >= deadline:
        raise ReplyTimeoutError(f"{printed:,} of {count:,} messages came within {timeout_s:g} s")


def _subscribe(client: Client, filters: tuple[str, ...], qos: int) -> None:
    codes = client.subscribe([(each, qos) for each in filters])
    refused = [name for name, code in zip(filters, codes, strict=True) if code == REFUSED]
    if refused:
        raise RefusedError(f"the broker refused to subscribe to {', '.join(map(repr, refused))}")


def _with_suspect(error: ConnectionLostError, client_id: str) -> ConnectionLostError:
    """Name the likeliest cause where the id was chosen: a second run of the same command."""
    if not client_id:
        return error
    what = f"{error.message}: it stopped, or another client uses the id {client_id}"
    return ConnectionLostError(what, error.advice)


def _print_deliveries(
    client: Client,
    show: _Show,
    count: int | None,
    deadline: float,
    stop: int,
) -> int:
    """Print until ``count``, the deadline or ``stop``; return how many were printed."""
    output = sys.stdout.buffer
    wake = [stop, *_watchable(output.fileno())]
    printed = 0
    while count is None or printed < count:
        left = None if count is None else count - printed
        deliveries = client.receive(left, deadline - monotonic(), wake)
        if not deliveries:
            break
        output.write(b"".join([show(delivery) + b"\n" for delivery in deliveries]))
        output.flush()
        printed += len(deliveries)
    return printed


def _watchable(descriptor: int) -> list[int]:
    """Return it if it is a pipe: only of a pipe can we see that its reader has gone."""
    return [descriptor] if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else []


# ── Lines ─────────────────────────────────────────────────────────────────────────────────────


def _as_text(delivery: Delivery) -> bytes:
    try:
        payload = _one_line(delivery.payload.decode())
    except UnicodeDecodeError:
        payload = f"hex:{delivery.payload.hex()}"
    return f"{_one_line(delivery.topic)} {payload}".encode()


def _one_line(text: str) -> str:
    """Escape what would end the line or command the terminal; a tab is harmless."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def _as_json(delivery: Delivery) -> bytes:
    try:
        payload = {"payload": delivery.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": b64encode(delivery.payload).decode()}
    return msgspec.json.encode(
        {
            "topic": delivery.topic,
            **payload,
            "qos": delivery.qos,
            "retain": delivery.retain,
            "dup": delivery.dup,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
    )


# ── The end ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _signals_as_input() -> Iterator[int]:
    """Give a file descriptor that can be read once SIGINT or SIGTERM has come."""
    reading, writing = os.pipe()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(_number: int, _frame: FrameType | None) -> None:
        os.write(writing, b"!")
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield reading
    finally:
        restore()
        os.close(reading)
        os.close(writing)


def _discard_output() -> None:
    """Our reader has gone, as ``head`` does: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
