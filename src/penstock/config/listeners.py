"""The listening sockets: ``listen``, ``http_listen`` and ``[[listeners]]`` in one form.

A configured address is required. Of the defaults only the first is: a program that uses one of the
other ports (a Redis on 6379) must not keep the broker from starting.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Literal

import msgspec

from penstock.config.address import Address, parse_listen, parse_listener
from penstock.config.schema import HTTP_LISTEN, LISTEN, Config, ListenerOptions

TlsMode = Literal["off", "optional", "required"]
Network = IPv4Network | IPv6Network


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One listening socket: where it is, and what it asks of those who connect."""

    address: Address
    is_required: bool = True  # whether the broker does not start if the port is in use
    tls: Literal["auto", "off", "optional", "required"] = "auto"
    client_certs: Literal["auto", "off", "optional", "required"] = "auto"
    protocols: frozenset[str] = frozenset()  # values of ``Protocol``; empty: all
    user: str = ""  # of clients that do not log in
    proxy: bool = False  # whether a PROXY header must come first
    trusted: tuple[Network, ...] = ()  # the proxies

    @property
    def is_reachable(self) -> bool:
        """Whether other machines can connect; a proxy passes on their connections."""
        return self.proxy or not self.address.is_loopback

    def accepts(self, protocol: str) -> bool:
        return not self.protocols or protocol in self.protocols

    def tls_mode(self, *, has_certificate: bool) -> TlsMode:
        if self.tls != "auto":
            return self.tls
        if not has_certificate:
            return "off"
        return "required" if self.is_reachable else "optional"

    def client_certs_mode(self, default: TlsMode) -> TlsMode:
        return default if self.client_certs == "auto" else self.client_certs


def wanted(config: Config) -> list[ListenerSettings]:
    """All listening sockets, in the order in which they are opened."""
    is_default = config.listen == LISTEN
    is_default_http = is_default and config.http_listen == HTTP_LISTEN
    listen = [(text, not is_default or text == LISTEN[0]) for text in config.listen]
    http = [(text, not is_default_http) for text in config.http_listen]
    plain = [_plain_settings(text, is_required=is_required) for text, is_required in listen + http]
    return plain + [_settings(options) for options in config.listeners]


def _plain_settings(text: str, *, is_required: bool) -> ListenerSettings:
    address, is_tls = parse_listener(text)
    return ListenerSettings(
        address=address, is_required=is_required, tls="required" if is_tls else "auto"
    )


def _settings(options: ListenerOptions) -> ListenerSettings:
    return ListenerSettings(
        address=parse_listen(options.address),
        tls=options.tls,
        client_certs=options.client_certs,
        protocols=frozenset(options.protocols),
        user=options.user,
        proxy=options.proxy,
        trusted=tuple(map(ip_network, options.trusted)),
    )
