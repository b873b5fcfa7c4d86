"""Addresses to listen on: "127.0.0.1:1883", "localhost:1883", "[::1]:1883"."""

from functools import lru_cache
from ipaddress import ip_address

import msgspec

TLS_SCHEME = "tls://"  # of a listener that accepts encrypted connections only


class Address(msgspec.Struct, frozen=True):
    """A host and a port; port 0 lets the system choose one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Names other than localhost are not: the answer must not depend on a resolver."""
        return _is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@lru_cache(1024)  # asked about each new connection
def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_listen(text: str) -> Address:
    """Parse ``host:port``. Raises ValueError with the fault and a suggestion."""
    host, colon, port = text.strip().rpartition(":")
    if not colon and port.isdecimal():
        raise ValueError(f'"{text}" has no host: write "127.0.0.1:{port}"')
    if not colon or not port.isdecimal() or not port.isascii():
        raise ValueError(f'"{text}" has no port: write host:port, as in "127.0.0.1:1883"')
    if int(port) > 65_535:
        raise ValueError(f'"{text}": the port must be at most 65535')
    return Address(_host(text, host, port), int(port))


def parse_listener(text: str) -> tuple[Address, bool]:
    """Parse ``host:port`` or ``tls://host:port``; also return whether it is for TLS only."""
    text = text.strip()
    return parse_listen(text.removeprefix(TLS_SCHEME)), text.startswith(TLS_SCHEME)


def _host(text: str, host: str, port: str) -> str:
    if host in {"", "*"}:
        raise ValueError(f'"{text}" has no host: write "0.0.0.0:{port}" for all interfaces')
    if any(c.isspace() or c == "/" for c in host):
        raise ValueError(f'"{text}" is not host:port; omit scheme, path and spaces')
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise ValueError(f'"{text}": brackets are only for IPv6 addresses')
    elif ":" in host:
        raise ValueError(f'"{text}": write an IPv6 address in brackets, as in "[::1]:{port}"')
    return host


def _is_ipv6(host: str) -> bool:
    try:
        return ip_address(host).version == 6
    except ValueError:
        return False
