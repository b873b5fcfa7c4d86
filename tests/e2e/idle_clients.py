"""Idle clients of a broker, and the bytes that each of them takes there: a program.

    python -m tests.e2e.idle_clients tcp|tcp5|websocket

Counted by tracemalloc, so that neither the load of the machine nor what the allocator keeps can
matter. It sees all objects of Python, uvloop and the compiled kernel, but not the buffers of the
kernel. What a process has done before decides what it needs no more of, so this is one of its own.
"""

import contextlib
import gc
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterator

from websockets.frames import Opcode

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


WAYS: dict[str, Connect] = {"tcp": by_3_1_1, "tcp5": by_5, "websocket": by_websocket}


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


def bytes_each(connect: Connect) -> float:
    """What a client takes once it has been silent for a while; its arrival stays recorded."""
    with Broker() as broker, sockets(20) as first, sockets(COUNT) as others:
        connect_all(broker, first, connect, "first")  # what all clients share is there then
        broker.clock.advance(CONNECT_TIMEOUT_S)
        tracemalloc.start()
        connect_all(broker, others, connect, "other")
        broker.clock.advance(CONNECT_TIMEOUT_S)
        events = broker.server.counters.events
        events.turn()
        assert len(events) == 20 + COUNT
        gc.collect()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return used / COUNT


if __name__ == "__main__":
    print(bytes_each(WAYS[sys.argv[1]]))
