"""The administrator's socket, ``admin.sock`` in the data directory: HTTP with full rights.

Whoever can open it can read the journal next to it anyway: it has mode 0600, and the process at the
other end must belong to the broker's user or to root. So the first administrator can be made
without a password, on a broker that others can reach.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

from penstock.net.admin_path import NAME, reachable
from penstock.net.origin import Approach, Origin
from penstock.obs.log import get_logger

BACKLOG = 16

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_log = get_logger("net")
Door = Callable[[asyncio.Transport, bytes, Origin], None]


class AdminSocket:
    """Listens in a data directory until it is closed."""

    def __init__(self, directory: Path, door: Door, monotonic: Callable[[], float]) -> None:
        self.path = directory / NAME
        self._door = door
        self._monotonic = monotonic
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """The directory must be locked by this process: what a killed broker left is replaced."""
        self.path.unlink(missing_ok=True)
        listening = _bound(self.path)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: _Visitor(self._door, self._monotonic), sock=listening, backlog=BACKLOG
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self.path.unlink(missing_ok=True)


def _bound(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    try:
        with reachable(path) as address:
            listening.bind(address)
        path.chmod(0o600)  # nobody can connect before it listens
    except BaseException:
        listening.close()
        raise
    return listening


class _Visitor(asyncio.Protocol):
    """A connection whose other end has to be looked at."""

    def __init__(self, door: Door, monotonic: Callable[[], float]) -> None:
        self._door = door
        self._monotonic = monotonic

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        visitor = cast("asyncio.Transport", transport)
        uid = _peer_uid(visitor)
        if uid not in {0, os.geteuid()}:
            _log.warning("administrator_refused", client=f"uid {uid}", path=NAME)
            visitor.abort()
            return
        owner = f"uid {uid}"
        self._door(visitor, b"", Origin(self._monotonic(), owner, Approach(owner=owner)))


def _peer_uid(transport: asyncio.Transport) -> int:
    descriptor = os.dup(transport.get_extra_info("socket").fileno())
    with socket.socket(fileno=descriptor) as other:
        found = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(found)[1]
    return uid
