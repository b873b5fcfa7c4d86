"""Addresses of brokers as other tools write them, by TCP or WebSocket, each also with TLS.

::

    mqtt://HOST[:PORT]             ws://HOST[:PORT][/PATH]
    mqtts://HOST[:PORT]            wss://HOST[:PORT][/PATH]

The path is ``/mqtt`` by default. A password has no place in it: addresses end up in logs and in
``ps``. Nor has a user, whose password would have to come from elsewhere: that is what
``credentials`` are for.
"""

from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from penstock.client.errors import ArgumentError
from penstock.client.mqtt.client import Client, connect

PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
PATH: Final = "/mqtt"
_FORM: Final = "write mqtt://HOST:PORT or ws://HOST:PORT/mqtt; with TLS, mqtts:// or wss://"
_TLS: Final = {"mqtt": "mqtts", "ws": "wss"}


class BrokerUrl(NamedTuple):
    """An address of a broker, read."""

    scheme: str
    host: str
    port: int
    websocket: str | None  # path

    @property
    def is_tls(self) -> bool:
        return self.scheme not in _TLS

    @property
    def with_tls(self) -> str:
        """The scheme of the same protocol with TLS."""
        return _TLS.get(self.scheme, self.scheme)


def read_url(url: str) -> BrokerUrl:
    """Raises ArgumentError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ArgumentError("this is no address of a broker", _FORM) from None
    if parts.username is not None or parts.password is not None:
        what = "an address with a user or password: logs and ps would show it"
        raise ArgumentError(what, "give credentials=Credentials(user, password_file=…)")
    is_websocket = parts.scheme in {"ws", "wss"}
    has_path = bool(parts.path.strip("/") or parts.query)
    if parts.scheme not in PORTS or not host or parts.fragment or (has_path and not is_websocket):
        raise ArgumentError(f"{url!r} is no address of a broker", _FORM)
    path = parts.path + (f"?{parts.query}" if parts.query else "") or PATH
    found = port or PORTS[parts.scheme]
    return BrokerUrl(parts.scheme, host, found, path if is_websocket else None)


def connect_to_url(url: str, *arguments: Any, **keywords: Any) -> Client:
    """Connect; arguments after the URL are those of ``connect`` after the port."""
    broker = read_url(url)
    if "port" in keywords or "websocket" in keywords:
        raise ArgumentError("the address has the port and the path", _FORM)
    if broker.is_tls:
        keywords["tls"] = keywords.get("tls") or True
    elif keywords.get("tls"):
        raise ArgumentError(f"{url!r} is without TLS", f"write {broker.with_tls}://")
    return connect(broker.host, broker.port, *arguments, websocket=broker.websocket, **keywords)
