"""Listening sockets, and who reads from those of clients.

Where the kernel is compiled, that is its poller: one for all sockets of a broker, whose transports
are a tenth as large as the event loop's. Otherwise it is the event loop, which is told to listen on
the same addresses in the same way.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock import kernel
from penstock.net.flusher import Flusher

if TYPE_CHECKING or kernel.is_compiled:
    from penstock.kernel.sockets import ListeningSocket, Poller

Factory = Callable[[], asyncio.BaseProtocol]


class Server(Protocol):
    """Accepts connections on the addresses of one host."""

    @property
    def port(self) -> int: ...
    def close(self) -> None: ...  # connections that it has accepted stay


class Sockets:
    """The sockets of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flusher: Flusher) -> None:
        self._loop = loop
        self._poller = Poller(loop, flusher) if kernel.is_compiled else None

    async def listen(self, factory: Factory, host: str, port: int, backlog: int) -> Server:
        """Listen on every address of ``host``; ``factory`` makes a protocol per connection."""
        loop, poller = self._loop, self._poller
        if poller is None:
            return _LoopServer(await loop.create_server(factory, host, port, backlog=backlog))
        opened = await listening_sockets(loop, host, port, backlog)
        return _PollerServer([poller.listen(one, factory) for one in opened])


class _LoopServer:
    """Of the event loop."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()


class _PollerServer:
    """Of the kernel's poller."""

    def __init__(self, listening: "list[ListeningSocket]") -> None:
        self._listening = listening
        self.port: int = listening[0].socket.getsockname()[1]

    def close(self) -> None:
        for one in self._listening:
            one.close()


async def listening_sockets(
    loop: asyncio.AbstractEventLoop, host: str, port: int, backlog: int
) -> list[socket.socket]:
    """Open a socket for each address of ``host``, or none; as ``loop.create_server`` does it."""
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with contextlib.ExitStack() as stack:
        opened = []
        for family, kind, number, _, address in dict.fromkeys(found):
            try:
                listening = stack.enter_context(socket.socket(family, kind, number))
            except OSError:
                continue  # a family that this machine has names for, but does not speak
            _bind(listening, family, address)
            opened.append(listening)
        if not opened:
            raise OSError(f"no address of {host!r} can be listened on")
        for listening in opened:
            listening.listen(backlog)
        stack.pop_all()
    return opened


def _bind(listening: socket.socket, family: int, address: tuple[object, ...]) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    if family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listening.bind(address)
