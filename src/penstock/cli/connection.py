"""What commands for a broker have in common: where it is, which client id, which names are lawful.

``-h`` is the host, as in the tools of MQTT and Redis; help is ``--help`` only (``CONTEXT``).
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.client import connect
from penstock.client.dial import dial
from penstock.client.mqtt.session import name_fault
from penstock.config.address import Address
from penstock.model.topic import has_wildcard
from penstock.wire.resp.names import topic_of

if TYPE_CHECKING:
    from penstock.client import QueueClient


_Command = TypeVar("_Command", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["--help"]}

DIAL_S: Final = 10.0
"""How long to wait for a connection."""


def connection_options(command: _Command) -> _Command:
    """Give a command ``-h`` and ``-p``."""
    port = click.option(
        "-p", "--port", type=click.IntRange(1, 65_535), default=1883, show_default=True
    )
    host = click.option(
        "-h", "--host", default="127.0.0.1", show_default=True, help="Where the broker is."
    )
    return host(port(command))


def queue_client(server: Address, *, stale_reads: bool = False) -> "QueueClient":
    """Connect by the queue protocol; fail at once if nothing listens there.

    The client itself keeps trying for as long as a call may take, which suits programs. Somebody at
    a terminal has most likely not started the broker, or named another port.
    """
    dial(server.host, server.port, DIAL_S).close()
    return connect([str(server)], stale_reads=stale_reads)


def client_id_option(text: str) -> Callable[[_Command], _Command]:
    """Make the option ``-c``; what a client id is good for depends on the command."""
    return click.option("-c", "--client-id", metavar="ID", default="", help=text)


def checked_topic(topic: str) -> str:
    """Accept a topic that may be published to."""
    return _checked(topic, is_filter=False)


def checked_filters(
    _context: click.Context, _parameter: click.Parameter, filters: tuple[str, ...]
) -> tuple[str, ...]:
    """Accept filters that may be subscribed to (a click callback)."""
    return tuple(_checked(each, is_filter=True) for each in filters)


def _checked(name: str, *, is_filter: bool) -> str:
    fault = name_fault(name, is_filter=is_filter)
    if fault:
        raise click.BadParameter(f"{name!r}: {fault}{_redis_hint(name)}")
    return name


def _redis_hint(name: str) -> str:
    """Tell which topic a name with wildcards is, if a Redis client gave it; empty for others."""
    encoded = os.fsencode(name)
    if not has_wildcard(encoded):
        return ""
    return (
        f"; the channel or stream of that name in Redis is the topic {topic_of(encoded).decode()!r}"
    )
