"""Which addresses to listen on, and which of them are required.

A configured address is required. Of the defaults only the first is: a program that uses one of the
other ports (a Redis on 6379) must not keep the broker from starting.
"""

from typing import NamedTuple

from penstock.config.address import Address, parse_listen
from penstock.config.schema import HTTP_LISTEN, LISTEN, Config


class ListenAddress(NamedTuple):
    """An address to listen on."""

    address: Address
    is_required: bool


def wanted(config: Config) -> list[ListenAddress]:
    is_default = config.listen == LISTEN
    is_default_http = is_default and config.http_listen == HTTP_LISTEN
    listen = [(text, not is_default or text == LISTEN[0]) for text in config.listen]
    http = [(text, not is_default_http) for text in config.http_listen]
    return [ListenAddress(parse_listen(text), is_required) for text, is_required in listen + http]
