"""Opening a connection, with TLS if asked for, and the errors when that fails."""

import socket
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, overload

from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    ReplyTimeoutError,
    UnreachableError,
)

if TYPE_CHECKING:  # loaded when TLS is used
    import ssl

    from penstock.client.tls_channel import TlsSettings
    from penstock.client.tls_socket import TlsSocket

Connection: TypeAlias = "socket.socket | TlsSocket"
"""What the blocking links use."""


@overload
def dial(host: str, port: int, timeout_s: float, tls: None = None) -> socket.socket: ...
@overload
def dial(host: str, port: int, timeout_s: float, tls: "TlsSettings | None") -> Connection: ...
def dial(host: str, port: int, timeout_s: float, tls: "TlsSettings | None" = None) -> Connection:
    """Connect, blocking; raise a ``ClientError`` with the reason if that fails."""
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise unreachable(error, host, port, timeout_s) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return connection
    from penstock.client.tls_socket import TlsSocket  # noqa: PLC0415 - loads ``ssl``

    try:
        encrypted = TlsSocket(connection, tls.channel(host))
        encrypted.shake_hands(timeout_s)
    except BaseException as error:
        connection.close()
        if isinstance(error, OSError):
            raise unreachable(error, host, port, timeout_s) from error
        raise
    return encrypted


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
        case _ if _is_of_tls(error):
            from penstock.client.tls_channel import handshake_failed  # noqa: PLC0415

            return handshake_failed(error, address)
        case _:
            return UnreachableError(f"cannot connect to {address}: {error.strerror or error}")


def lost(error: OSError | None = None) -> ConnectionLostError:
    """Return the error for a connection that ended, or that TLS ended with an alert."""
    if error is not None and _is_of_tls(error):
        from penstock.client.tls_channel import ended_by_tls  # noqa: PLC0415

        return ended_by_tls(error)
    return ConnectionLostError(
        "the broker closed the connection",
        "its log or /metrics (penstock_disconnects_total) says why",
    )


def _is_of_tls(error: OSError) -> "TypeGuard[ssl.SSLError]":
    return type(error).__module__ == "ssl"
