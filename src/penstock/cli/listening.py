"""Subscriptions of commands that run until they are stopped, and survive a broken connection.

**When the connection breaks** the command reconnects and subscribes again, up to a deadline; only
the first connection must succeed. A broker of MQTT 5 says why it closes: what would happen again
ends the command. In 3.1.1 a broker that is still reachable closed on purpose: a client with a
chosen id then ends, because another client uses the same id, and the two would keep disconnecting
each other.

SIGINT and SIGTERM make a file descriptor readable, which the client watches next to its socket.
What has been handled is acknowledged, then the client disconnects.
"""

import select
import sys
from collections.abc import Callable
from random import random
from time import monotonic
from typing import Final, TypeAlias

import click
import msgspec

from penstock.cli.connection import BrokerTarget
from penstock.cli.interrupts import signals_as_input, watchable
from penstock.client import (
    Backoff,
    Client,
    ClientError,
    ConnectionLostError,
    Delivery,
    ReplyTimeoutError,
    UnreachableError,
)
from penstock.client.dial import dial
from penstock.client.mqtt.refusals import PASSING, subscribe_refused

REFUSED: Final = 0x80  # the lowest SUBACK code of a filter that was refused
BACKOFF: Final = Backoff(first_s=0.1, longest_s=5.0)

UNREACHABLE: Final = (ConnectionLostError, ReplyTimeoutError, UnreachableError)
"""The errors of a broker that was stopped, killed or cut off."""

REPLAY: Final = "$replay/"
Handler: TypeAlias = Callable[[Client, list[Delivery]], None]


class Output:
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
        if isinstance(error, UNREACHABLE) and self.is_connected:
            self.is_connected = False
            self.note(f"{error.message}; reconnecting")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to subscribe to, and how; see ``Client.subscribe``."""

    filters: tuple[str, ...]
    qos: int
    client_id: str = ""
    session_expiry_s: int | None = None
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    replay: str = ""

    @property
    def has_history(self) -> bool:
        return bool(self.replay) or any(each.startswith(REPLAY) for each in self.filters)

    def subscribe(self, client: Client, *, is_first: bool) -> list[str]:
        """Return what was granted, to be told. Raises RefusedError.

        History is asked for once: it would come twice. A session that is still there goes on with
        it by itself, and subscribing again would end it.
        """
        if self.has_history and client.session_present and not is_first:
            return [f"subscribed to {', '.join(self.filters)}"]
        codes = client.subscribe(
            [(each, self.qos) for each in self.filters],
            no_local=self.no_local,
            retain_as_published=self.retain_as_published,
            retain_handling=self.retain_handling,
            replay=self.replay if is_first else "",
        )
        granted = dict(zip(self.filters, codes, strict=True))
        refused = {name: code for name, code in granted.items() if code >= REFUSED}
        if refused:
            first = next(iter(refused.values()))
            raise subscribe_refused(list(refused), first, client.reason_string)
        lower = [f"{each}: QoS {qos} only" for each, qos in granted.items() if qos < self.qos]
        kept_s = client.session_expiry_s if self.session_expiry_s else None
        cut = [] if kept_s is None else [f"the broker keeps the session for {kept_s:,} s only"]
        return [f"subscribed to {', '.join(self.filters)}", *lower, *cut]


class Listening:
    """An MQTT subscription that survives restarts of the broker."""

    def __init__(self, target: BrokerTarget, wanted: Wanted, output: Output) -> None:
        self._target = target
        self._wanted = wanted
        self._output = output
        self._attempts = 0  # since the connection broke
        self._version = 0  # of MQTT, once we were connected

    def run(self, handle: Handler, batch_max: int | None = None) -> None:
        """Handle what comes, at most ``batch_max`` at a time: they are acknowledged together.

        Raises ClientError if the first connection fails, or if another one must.
        """
        with signals_as_input() as stop:
            while True:
                try:
                    self._listen(handle, stop, batch_max)
                except UNREACHABLE as error:
                    self._lost(error)
                else:
                    return
                if self._pause_ends(stop):
                    return

    def _listen(self, handle: Handler, stop: int, batch_max: int | None) -> None:
        wanted = self._wanted
        with self._target.mqtt(
            wanted.client_id,
            clean_session=not wanted.client_id,
            session_expiry_s=wanted.session_expiry_s,
        ) as client:
            for line in wanted.subscribe(client, is_first=not self._version):
                self._output.note(line)
            self._version, self._attempts = client.version, 0
            self._output.is_connected = True
            wake = [stop, *watchable(sys.stdout.buffer.fileno())]
            while not self._output.is_done:
                left_s = self._output.deadline - monotonic()
                deliveries = client.receive(batch_max or self._output.left, left_s, wake)
                if not deliveries:
                    break
                handle(client, deliveries)

    def _lost(self, error: ClientError) -> None:
        """Raise unless reconnecting makes sense."""
        if not self._version or error.reason_code not in PASSING:
            raise error
        client_id = self._wanted.client_id
        is_guessed = client_id and self._version < 5 and isinstance(error, ConnectionLostError)
        if is_guessed and self._is_reachable():
            what = f"{error.message}: another client probably uses the id {client_id}"
            raise ConnectionLostError(what, error.advice) from error
        self._output.report_outage(error)
        self._target.choose_again()
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
