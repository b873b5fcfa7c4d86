"""Opening a connection, with TLS if asked for, and the errors when that fails."""

import socket
import sys
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, overload

from penstock.client.credentials import Login
from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    ReplyTimeoutError,
    UnreachableError,
)

if TYPE_CHECKING:  # loaded when TLS is used
    import ssl

    from penstock.client.tls_channel import TlsChannel, TlsSettings
    from penstock.client.tls_socket import TlsSocket
    from penstock.client.websocket import WebSocket

LOGIN_BYTES: Final = 64 * 1024

Connection: TypeAlias = "socket.socket | TlsSocket | WebSocket"
"""What the blocking links use."""


@overload
def dial(host: str, port: int, timeout_s: float) -> socket.socket: ...
@overload
def dial(
    host: str,
    port: int,
    timeout_s: float,
    tls: "TlsSettings | None",
    login: Login | None = None,
) -> Connection: ...
def dial(
    host: str,
    port: int,
    timeout_s: float,
    tls: "TlsSettings | None" = None,
    login: Login | None = None,
) -> Connection:
    """Connect, blocking, and log in; raise a ``ClientError`` with the reason if that fails."""
    connection: Connection | None = None
    try:
        plain = connection = socket.create_connection((host, port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            connection = _encrypted(plain, tls.channel(host), timeout_s)
        if login is not None:
            _log_in(connection, login, timeout_s)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, OSError):
            raise unreachable(error, host, port, timeout_s) from error
        raise
    return connection


def _encrypted(plain: socket.socket, channel: "TlsChannel", timeout_s: float) -> "TlsSocket":
    from penstock.client.tls_socket import TlsSocket  # noqa: PLC0415 - loads ``ssl``

    encrypted = TlsSocket(plain, channel)
    encrypted.shake_hands(timeout_s)
    return encrypted


def _log_in(connection: Connection, login: Login, timeout_s: float) -> None:
    deadline = monotonic() + timeout_s
    answer: bytes | None = login.begin()
    while answer is not None:
        if answer:
            connection.sendall(answer)
        connection.settimeout(max(0.001, deadline - monotonic()))
        data = connection.recv(LOGIN_BYTES)
        if not data:
            raise unanswered(connection)
        answer = login.receive(data)


def host_header(host: str, port: int, *, is_tls: bool) -> str:
    """The address as HTTP names it: without the port if that is the usual one."""
    name = f"[{host}]" if ":" in host else host
    return name if port == (443 if is_tls else 80) else f"{name}:{port}"


def unreachable(error: OSError, host: str, port: int, timeout_s: float) -> ClientError:
    """Return the ``ClientError`` for a failed attempt to connect."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    match error:
        case ConnectionRefusedError():
            return UnreachableError(
                f"no broker is listening on {address}", "start one with `penstock serve`"
            )
        case TimeoutError():
            return ReplyTimeoutError(
                f"no answer from {address} within {timeout_s:g} s",
                "check the address, and firewalls on the way",
            )
        case socket.gaierror():
            return UnreachableError(f"no address is known for {host}", "check the name")
        case _ if is_of_tls(error):
            from penstock.client.tls_channel import handshake_failed  # noqa: PLC0415

            return handshake_failed(error, address)
        case _:
            return UnreachableError(f"cannot connect to {address}: {error.strerror or error}")


def lost(error: OSError | None = None) -> ConnectionLostError:
    """Return the error for a connection that ended, or that TLS ended with an alert."""
    if is_of_tls(error):
        from penstock.client.tls_channel import ended_by_tls  # noqa: PLC0415

        return ended_by_tls(error)
    return ConnectionLostError(
        "the broker closed the connection",
        "its log or /metrics (penstock_disconnects_total) says why",
    )


def unanswered(connection: Connection, error: OSError | None = None) -> ConnectionLostError:
    """``lost``, before the broker said a word: in clear text it may have been waiting for TLS."""
    if not isinstance(connection, socket.socket):
        return lost(error)
    return ConnectionLostError(
        "the broker closed the connection",
        "does it accept encrypted connections only? Then use TLS (tls=, --tls, --ca-file); its log"
        " says why",
    )


def is_of_tls(error: BaseException | None) -> "TypeGuard[ssl.SSLError]":
    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(error, ssl.SSLError)
