"""How much memory an idle client takes: what the broker has allocated for it and not freed.

Counted by tracemalloc, so that neither the load of the machine nor what the allocator keeps can
matter. It sees all objects of Python, uvloop and the compiled kernel, but not the buffers of the kernel.
"""

import contextlib
import gc
import socket
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from websockets.frames import Opcode

from penstock import kernel
from penstock.obs.events import Events
from penstock.testing import Broker
from tests.conformance import packets5 as v5
from tests.conformance.wire_client import connect_packet
from tests.websocket.peer import frame, request

COUNT = 400  # clients; both ends fit into the open files that most systems allow
CONNECT_TIMEOUT_S = 10.3  # after which nobody remembers that a connection was ever without protocol

Connect = Callable[[socket.socket, str], None]


def by_3_1_1(client: socket.socket, name: str) -> None:
    client.sendall(connect_packet(name))
    assert client.recv(100) == b"\x20\x02\x00\x00"


def by_5(client: socket.socket, name: str) -> None:
    client.sendall(v5.connect(name))
    assert client.recv(100)[:1] == b"\x20"


def by_websocket(client: socket.socket, name: str) -> None:
    client.sendall(request())
    assert b" 101 " in client.recv(1000)
    client.sendall(frame(Opcode.BINARY, v5.connect(name)))
    assert client.recv(100)[2:3] == b"\x20"


@contextlib.contextmanager
def sockets(count: int) -> Iterator[list[socket.socket]]:
    """Made before anything is counted: those of the clients are none of the broker's."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.socket()) for _ in range(count)]


def connect_all(broker: Broker, clients: list[socket.socket], connect: Connect, name: str) -> None:
    for number, client in enumerate(clients):
        client.settimeout(30)
        client.connect((broker.host, broker.port))
        connect(client, f"{name}-{number:06}")


TRANSPORT = 0 if kernel.is_compiled else 1_150  # what uvloop's takes more than the kernel's


@pytest.mark.parametrize(
    ("connect", "bytes_max"), [(by_3_1_1, 1_536), (by_5, 1_536), (by_websocket, 1_750)]
)
def test_an_idle_client_takes_few_bytes(connect, bytes_max):
    with Broker() as broker, sockets(20) as first, sockets(COUNT) as others:
        # what is recorded of connects is bounded, and no client's
        broker.server.counters.events = Events(broker.clock.wall_ms, kept=1)
        connect_all(broker, first, connect, "first")  # what all clients share is there then
        tracemalloc.start()
        try:
            connect_all(broker, others, connect, "other")
            broker.clock.advance(CONNECT_TIMEOUT_S)
            broker.server.counters.events.turn()
            gc.collect()
            gc.collect()
            used = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert used / COUNT < bytes_max + TRANSPORT
