"""What all clients of a broker have in common: its address, a client id, valid topics.

``-h`` is the host, as in the tools of MQTT and Redis; help is ``--help`` only.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from penstock.cli.inputs import option_set
from penstock.client import connect
from penstock.client.dial import dial
from penstock.client.mqtt.session import name_fault
from penstock.config.address import Address
from penstock.model.topic import has_wildcard
from penstock.wire.resp.names import topic_of

if TYPE_CHECKING:  # loads protobuf
    from penstock.client import QueueClient


_Command = TypeVar("_Command", bound=Callable[..., object])

DIAL_TIMEOUT_S: Final = 10.0

connection_options = option_set(
    click.option("-h", "--host", default="127.0.0.1", show_default=True, help="Broker host."),
    click.option("-p", "--port", type=click.IntRange(1, 65_535), default=1883, show_default=True),
)


def queue_client(server: Address, *, stale_reads: bool = False) -> "QueueClient":
    """Fail at once if nothing listens there; the client itself retries, which suits programs."""
    dial(server.host, server.port, DIAL_TIMEOUT_S).close()
    return connect([str(server)], stale_reads=stale_reads)


def client_id_option(text: str) -> Callable[[_Command], _Command]:
    return click.option("-c", "--client-id", metavar="ID", default="", help=text)


def checked_topic(topic: str) -> str:
    return _checked(topic, is_filter=False)


def checked_filters(
    _context: click.Context, _parameter: click.Parameter, filters: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(_checked(each, is_filter=True) for each in filters)


def _checked(name: str, *, is_filter: bool) -> str:
    fault = name_fault(name, is_filter=is_filter)
    if fault:
        raise click.BadParameter(f"{name!r}: {fault}{_redis_hint(name)}")
    return name


def _redis_hint(name: str) -> str:
    """Translate a name with wildcards, which may come from Redis; empty for other names."""
    encoded = os.fsencode(name)
    if not has_wildcard(encoded):
        return ""
    return (
        f"; the channel or stream of that name in Redis is the topic {topic_of(encoded).decode()!r}"
    )
