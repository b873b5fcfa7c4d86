"""``penstock sub``: subscribe, and print a line per message.

A message is acknowledged after its line has been written. So with a stored session (``-c``) a run
continues where the last one ended, and ``-n COUNT`` consumes exactly COUNT. A line on standard
error reports the subscription; standard output has messages only.

**When the connection breaks** the command reconnects and subscribes again, until ``--timeout`` if
given; only the first connection must succeed. If the broker is still reachable, it closed the
connection on purpose. A client with a chosen id then exits: another client uses the same id, and
the two would keep disconnecting each other.

**With ``--from`` or ``--since``** it reads the journal by the queue protocol instead.

SIGINT and SIGTERM make a file descriptor readable, which the client watches next to its socket.
What has been written is acknowledged, then the client disconnects.
"""

import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from random import random
from time import monotonic
from typing import Final, TypeAlias

import click

from penstock.cli.connection import (
    BrokerTarget,
    checked_filters,
    client_id_option,
    connection_options,
)
from penstock.cli.inputs import flag, is_given
from penstock.cli.interrupts import discard_output, signals_as_input, watchable
from penstock.cli.journal_reader import JournalReader, StartPosition, start_options
from penstock.cli.message_lines import delivery_json, delivery_text, record_json, record_text
from penstock.client import (
    Backoff,
    Client,
    ClientError,
    ConnectionLostError,
    Delivery,
    RefusedError,
    ReplyTimeoutError,
    UnreachableError,
)
from penstock.client.dial import dial

REFUSED: Final = 0x80  # SUBACK code of a filter that was refused
BACKOFF: Final = Backoff(first_s=0.1, longest_s=5.0)
POLL_S: Final = 1.0  # how long the broker waits for new messages of the journal

_UNREACHABLE: Final = (ConnectionLostError, ReplyTimeoutError, UnreachableError)
"""The errors of a broker that was stopped, killed or cut off."""

_Formatter: TypeAlias = Callable[[Delivery], bytes]


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...", callback=checked_filters)
@click.option(
    "-t",
    "--topic",
    "more_filters",
    multiple=True,
    metavar="FILTER",
    callback=checked_filters,
    help="Subscribe to FILTER, like the argument; repeatable.",
)
@connection_options
@click.option(
    "-q",
    "--qos",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="Maximum QoS of deliveries.",
)
@client_id_option(
    "Use a persistent session with this id, so that no QoS 1 or 2 message is missed between runs."
    " Without it, only messages that arrive during the run are printed."
)
@start_options
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after SECONDS; exit with 1 if COUNT was not reached.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Ignored, for compatibility; topics are always printed."
)
@click.option("--quiet", is_flag=True, help="Do not report the subscription on standard error.")
@flag("--json", help="Print a JSON object per message.")
def sub(
    filters: tuple[str, ...],
    *,
    more_filters: tuple[str, ...],
    target: BrokerTarget,
    qos: int,
    client_id: str,
    begin: int | None,
    since: float | None,
    count: int | None,
    timeout_s: float | None,
    verbose: bool,  # noqa: ARG001 - for users of mosquitto_sub
    quiet: bool,
) -> None:
    r"""Subscribe to FILTERs and print `topic payload`, a line per message.

    Control characters are escaped (\n, \x1b), and a payload that is not UTF-8 is printed as
    hex:..., so that a message is always one line; --json is lossless. If the connection breaks, sub
    reconnects. Ctrl-C ends it with exit status 0.

    With --from or --since it prints stored messages first, as far back as the journal goes.
    """
    wanted = filters + more_filters
    if not wanted:
        raise click.UsageError("FILTER is missing, as in `penstock sub '#'`")
    output = _Output(count, inf if timeout_s is None else monotonic() + timeout_s, quiet=quiet)
    try:
        if begin is None and since is None:
            listening = _Listening(target, wanted, qos, client_id, output)
            listening.run(delivery_json if is_given("--json") else delivery_text)
        else:
            _check_start(wanted, client_id, begin, since)
            _follow(target, wanted, StartPosition(begin or 0, since), output)
    except BrokenPipeError:
        discard_output()
        return
    if output.is_short():
        raise ReplyTimeoutError(
            f"received {output.printed:,} of {count:,} messages within {timeout_s:g} s"
        )


class _Output:
    """Prints lines, up to a count and a deadline."""

    def __init__(self, count: int | None, deadline: float, *, quiet: bool) -> None:
        self.deadline = deadline
        self.printed = 0
        self._count = count
        self._is_quiet = quiet
        self.is_connected = True

    @property
    def left(self) -> int | None:
        """The number of messages still wanted; None: any number."""
        return None if self._count is None else self._count - self.printed

    @property
    def is_done(self) -> bool:
        return self.left == 0

    def is_short(self) -> bool:
        return bool(self.left) and monotonic() >= self.deadline

    def write(self, lines: list[bytes]) -> None:
        sys.stdout.buffer.write(b"".join([line + b"\n" for line in lines]))
        sys.stdout.buffer.flush()
        self.printed += len(lines)

    def note(self, line: str) -> None:
        if not self._is_quiet:
            click.echo(line, err=True)

    def report_outage(self, error: ClientError) -> None:
        """Report once that the connection broke; the client's thread may notice first."""
        if isinstance(error, _UNREACHABLE) and self.is_connected:
            self.is_connected = False
            self.note(f"{error.message}; reconnecting")


# ── MQTT ──────────────────────────────────────────────────────────────────────────────────────


class _Listening:
    """An MQTT subscription that survives restarts of the broker."""

    def __init__(
        self,
        target: BrokerTarget,
        filters: tuple[str, ...],
        qos: int,
        client_id: str,
        output: _Output,
    ) -> None:
        self._target = target
        self._filters = filters
        self._qos = qos
        self._client_id = client_id
        self._output = output
        self._attempts = 0  # since the connection broke
        self._has_connected = False

    def run(self, show: _Formatter) -> None:
        with signals_as_input() as stop:
            while True:
                try:
                    self._listen(show, stop)
                except _UNREACHABLE as error:
                    self._lost(error)
                else:
                    return
                if self._pause_ends(stop):
                    return

    def _listen(self, show: _Formatter, stop: int) -> None:
        has_session = bool(self._client_id)
        with self._target.mqtt(self._client_id, clean_session=not has_session) as client:
            _subscribe(client, self._filters, self._qos)
            self._output.note(f"subscribed to {', '.join(self._filters)}")
            self._has_connected, self._attempts = True, 0
            self._output.is_connected = True
            wake = [stop, *watchable(sys.stdout.buffer.fileno())]
            while not self._output.is_done:
                left_s = self._output.deadline - monotonic()
                deliveries = client.receive(self._output.left, left_s, wake)
                if not deliveries:
                    break
                self._output.write([show(delivery) for delivery in deliveries])

    def _lost(self, error: ClientError) -> None:
        """Raise unless reconnecting makes sense."""
        if not self._has_connected:
            raise error
        if self._client_id and isinstance(error, ConnectionLostError) and self._is_reachable():
            what = f"{error.message}: another client probably uses the id {self._client_id}"
            raise ConnectionLostError(what, error.advice) from error
        self._output.report_outage(error)
        self._attempts += 1

    def _is_reachable(self) -> bool:
        try:
            dial(self._target.server.host, self._target.server.port, timeout_s=1.0).close()
        except UnreachableError:
            return False
        return True

    def _pause_ends(self, stop: int) -> bool:
        """Wait before reconnecting; return True on a signal or the deadline."""
        pause_s = BACKOFF.pause_s(self._attempts - 1, random())  # noqa: S311 - no secret
        left_s = max(0.0, self._output.deadline - monotonic())
        has_signal = bool(select.select([stop], [], [], min(pause_s, left_s))[0])
        return has_signal or monotonic() >= self._output.deadline


def _subscribe(client: Client, filters: tuple[str, ...], qos: int) -> None:
    codes = client.subscribe([(each, qos) for each in filters])
    refused = [name for name, code in zip(filters, codes, strict=True) if code == REFUSED]
    if refused:
        raise RefusedError(
            f"the broker refused to subscribe to {', '.join(map(repr, refused))}",
            "penstock acl check USER subscribe FILTER names the rule that decides",
        )


# ── Journal ───────────────────────────────────────────────────────────────────────────────────


def _check_start(
    filters: tuple[str, ...], client_id: str, begin: int | None, since: float | None
) -> None:
    if begin is not None and since is not None:
        raise click.UsageError("give only one of --from and --since")
    if client_id:
        raise click.UsageError("-c cannot be combined with --from or --since")
    if any(each.startswith("$share/") for each in filters):
        raise click.UsageError(
            "shared subscriptions have no history; see penstock queue and groups"
        )


def _follow(
    target: BrokerTarget, filters: tuple[str, ...], start: StartPosition, output: _Output
) -> None:
    show = record_json if is_given("--json") else record_text
    with target.queue() as client, _signals_as_interrupts():
        client.when_lost(output.report_outage)
        journal = JournalReader(client, filters, start)
        output.note(f"reading {', '.join(filters)}")
        records = journal.stored()
        while not output.is_done and monotonic() < output.deadline:
            try:
                for record in records:
                    output.write([show(record)])
                    if output.is_done or monotonic() >= output.deadline:
                        return
                output.is_connected = True
                records = journal.new(min(POLL_S, max(0.0, output.deadline - monotonic())))
            except _UNREACHABLE as error:
                output.report_outage(error)
                records = journal.stored()


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
