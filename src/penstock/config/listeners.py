"""Which addresses a broker must have, and which it takes only where they are free.

Somebody who names an address needs it, so a broker that cannot have it does not start. Nobody
asked for the default ones: the first is what the broker is for, the others spare users of Redis, of
the queue protocol and of Prometheus a flag. A program that holds one of those (a Redis on 6379,
say) is no reason not to start.
"""

from typing import NamedTuple

from penstock.config.address import Address, parse_listen
from penstock.config.schema import HTTP_LISTEN, LISTEN, Config


class ListenAddress(NamedTuple):
    """An address to listen on; without a ``required`` one the broker does not start."""

    address: Address
    is_required: bool


def wanted(config: Config) -> list[ListenAddress]:
    """Return the addresses to listen on, in the order of the configuration."""
    is_usual = config.listen == LISTEN
    is_usual_http = is_usual and config.http_listen == HTTP_LISTEN
    listen = [(text, not is_usual or text == LISTEN[0]) for text in config.listen]
    http = [(text, not is_usual_http) for text in config.http_listen]
    return [ListenAddress(parse_listen(text), is_required) for text, is_required in listen + http]
