"""``penstock sub``: subscribe, and print a line for each message.

A message is acknowledged after its line has been written, not when it arrives: whoever reads the
pipe has it, or the broker still has. So with a stored session (``-c``) a run takes up where the
last one ended, and ``-n COUNT`` takes exactly COUNT; the next stays at the broker.

Once the broker has confirmed the subscription, a line on standard error says so: from here on
nothing is missed. Standard output has messages and nothing else.

**When the broker goes away** the command waits for it and subscribes again, without end or until
``--timeout``; only the first connection must succeed. If the broker is still there, it has thrown
us out. Then a client that chose its id ends: another one has it, and both would go on throwing each
other out.

**With ``--from`` or ``--since``** the journal is read instead (``journal``), by the queue protocol:
what topics hold, then what comes, each message once, also over a restart of the broker.

SIGINT and SIGTERM do not interrupt: they make a file descriptor readable, which the client watches
next to its socket. What has been written is acknowledged, then we say goodbye. A second signal does
interrupt, should the reader of our output have stopped reading.
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
    CONTEXT,
    checked_filters,
    client_id_option,
    connection_options,
    queue_client,
)
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
    connect,
)
from penstock.client.dial import dial
from penstock.config.address import Address

REFUSED: Final = 0x80
"""The return code of SUBACK for a filter that was not accepted."""

BACKOFF: Final = Backoff(first_s=0.1, longest_s=5.0)

LOOK_S: Final = 1.0
"""How long the broker may keep us waiting for news of the journal."""

_AWAY: Final = (ConnectionLostError, ReplyTimeoutError, UnreachableError)
"""What a broker that was stopped, killed or cut off looks like."""

_Show: TypeAlias = Callable[[Delivery], bytes]
"""Makes a delivery one line."""


@click.command(context_settings=CONTEXT)
@click.argument("filters", nargs=-1, metavar="[FILTER]...", callback=checked_filters)
@click.option(
    "-t",
    "--topic",
    "more_filters",
    multiple=True,
    metavar="FILTER",
    callback=checked_filters,
    help="Subscribe to FILTER; may be repeated. The same as the argument.",
)
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
@start_options
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after SECONDS; exit status 1 if COUNT was not reached.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Accepted for compatibility; topics are always printed."
)
@click.option("--quiet", is_flag=True, help="Do not say when the subscription is in place.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per message.")
def sub(
    filters: tuple[str, ...],
    *,
    more_filters: tuple[str, ...],
    host: str,
    port: int,
    qos: int,
    client_id: str,
    begin: int | None,
    since: float | None,
    count: int | None,
    timeout_s: float | None,
    verbose: bool,  # noqa: ARG001 - for those who know mosquitto_sub
    quiet: bool,
    as_json: bool,
) -> None:
    r"""Subscribe to FILTERs and print `topic payload`, a line per message.

    Control characters are shown as \n or \x1b, a payload that is not UTF-8 as hex:..., so that a
    message is always one line; --json loses nothing. When the broker is restarted, sub waits for it
    and goes on. Ctrl-C ends it, with exit status 0.

    With --from or --since it prints what the topics hold first, as far back as the journal goes.
    """
    wanted = filters + more_filters
    if not wanted:
        raise click.UsageError("no FILTER: say what to subscribe to, as in `penstock sub '#'`")
    output = _Output(count, inf if timeout_s is None else monotonic() + timeout_s, quiet=quiet)
    try:
        if begin is None and since is None:
            listening = _Listening(Address(host, port), wanted, qos, client_id, output)
            listening.run(delivery_json if as_json else delivery_text)
        else:
            _check_place(wanted, client_id, begin, since)
            _follow(
                Address(host, port),
                wanted,
                StartPosition(begin or 0, since),
                output,
                as_json=as_json,
            )
    except BrokenPipeError:
        discard_output()
        return
    if output.is_short():
        raise ReplyTimeoutError(
            f"{output.printed:,} of {count:,} messages came within {timeout_s:g} s"
        )


class _Output:
    """What was printed, and how much may be."""

    def __init__(self, count: int | None, deadline: float, *, quiet: bool) -> None:
        self.deadline = deadline
        self.printed = 0
        self._count = count
        self._is_quiet = quiet

    @property
    def left(self) -> int | None:
        """How many messages more are wanted; None: any number."""
        return None if self._count is None else self._count - self.printed

    @property
    def is_done(self) -> bool:
        return self.left == 0

    def is_short(self) -> bool:
        """Whether the time was over first."""
        return bool(self.left) and monotonic() >= self.deadline

    def write(self, lines: list[bytes]) -> None:
        sys.stdout.buffer.write(b"".join([line + b"\n" for line in lines]))
        sys.stdout.buffer.flush()
        self.printed += len(lines)

    def note(self, line: str) -> None:
        """Say something beside the messages."""
        if not self._is_quiet:
            click.echo(line, err=True)


# ── What arrives ──────────────────────────────────────────────────────────────────────────────


class _Listening:
    """A subscription by MQTT that outlives its broker."""

    def __init__(
        self, server: Address, filters: tuple[str, ...], qos: int, client_id: str, output: _Output
    ) -> None:
        self._server = server
        self._filters = filters
        self._qos = qos
        self._client_id = client_id
        self._output = output
        self._attempts = 0
        """In vain, since the broker went away."""
        self._was_there = False

    def run(self, show: _Show) -> None:
        """Print until there is enough, the time is over, or a signal has come."""
        with signals_as_input() as stop:
            while True:
                try:
                    self._listen(show, stop)
                except _AWAY as error:
                    self._lost(error)
                else:
                    return
                if self._waits_in_vain(stop):
                    return

    def _listen(self, show: _Show, stop: int) -> None:
        server, has_session = self._server, bool(self._client_id)
        with connect(
            server.host, server.port, self._client_id, clean_session=not has_session
        ) as client:
            _subscribe(client, self._filters, self._qos)
            self._output.note(f"subscribed to {', '.join(self._filters)}")
            self._was_there, self._attempts = True, 0
            wake = [stop, *watchable(sys.stdout.buffer.fileno())]
            while not self._output.is_done:
                left_s = self._output.deadline - monotonic()
                deliveries = client.receive(self._output.left, left_s, wake)
                if not deliveries:
                    break
                self._output.write([show(delivery) for delivery in deliveries])

    def _lost(self, error: ClientError) -> None:
        """Go on only if the broker was there and is not."""
        if not self._was_there:
            raise error
        if self._client_id and isinstance(error, ConnectionLostError) and self._is_there():
            raise _with_suspect(error, self._client_id) from error
        if not self._attempts:
            self._output.note(f"{error.message}; waiting for it")
        self._attempts += 1

    def _is_there(self) -> bool:
        try:
            dial(self._server.host, self._server.port, timeout_s=1.0).close()
        except UnreachableError:
            return False
        return True

    def _waits_in_vain(self, stop: int) -> bool:
        """Pause; tell whether a signal or the deadline came first."""
        pause_s = BACKOFF.pause_s(self._attempts - 1, random())  # noqa: S311 - no secret
        left_s = max(0.0, self._output.deadline - monotonic())
        has_signal = bool(select.select([stop], [], [], min(pause_s, left_s))[0])
        return has_signal or monotonic() >= self._output.deadline


def _subscribe(client: Client, filters: tuple[str, ...], qos: int) -> None:
    codes = client.subscribe([(each, qos) for each in filters])
    refused = [name for name, code in zip(filters, codes, strict=True) if code == REFUSED]
    if refused:
        raise RefusedError(f"the broker refused to subscribe to {', '.join(map(repr, refused))}")


def _with_suspect(error: ConnectionLostError, client_id: str) -> ConnectionLostError:
    """Name the likeliest cause where the id was chosen: a second run of the same command."""
    what = f"{error.message}: another client may use the id {client_id}"
    return ConnectionLostError(what, error.advice)


# ── What the journal holds ────────────────────────────────────────────────────────────────────


def _check_place(
    filters: tuple[str, ...], client_id: str, begin: int | None, since: float | None
) -> None:
    if begin is not None and since is not None:
        raise click.UsageError("give either --from or --since, not both")
    if client_id:
        raise click.UsageError("-c cannot be combined with --from or --since")
    if any(each.startswith("$share/") for each in filters):
        raise click.UsageError("a shared subscription has no history; penstock queue and groups")


def _follow(
    server: Address,
    filters: tuple[str, ...],
    place: StartPosition,
    output: _Output,
    *,
    as_json: bool,
) -> None:
    """Print what there is, then what comes, until there is enough."""
    show = record_json if as_json else record_text
    with queue_client(server) as client, _signals_as_interrupts():
        absence = _Absence(output)
        client.when_lost(absence.begin)
        journal = JournalReader(client, filters, place)
        output.note(f"reading {', '.join(filters)}")
        records = journal.held()
        while not output.is_done and monotonic() < output.deadline:
            try:
                for record in records:
                    output.write([show(record)])
                    if output.is_done or monotonic() >= output.deadline:
                        return
                absence.end()
                records = journal.news(min(LOOK_S, max(0.0, output.deadline - monotonic())))
            except _AWAY as error:
                absence.begin(error)
                records = journal.held()


class _Absence:
    """Says once that the broker is away, as soon as the client's thread notices."""

    def __init__(self, output: _Output) -> None:
        self._output = output
        self._is_said = False

    def begin(self, error: ClientError) -> None:
        if isinstance(error, _AWAY) and not self._is_said:
            self._is_said = True
            self._output.note(f"{error.message}; waiting for it")

    def end(self) -> None:
        self._is_said = False


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """End the block when SIGINT or SIGTERM comes. What is printed is printed by then."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
