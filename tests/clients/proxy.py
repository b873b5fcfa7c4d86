"""A lossy network between a client and a broker.

Faults are data, drawn from a seed: what a test did can be done again. A connection gets the next
one that is planned, and another when it outlives that. Each is about one direction:

=========  =======================================================================================
cut        close both ends in order after so many bytes
reset      the same with RST, so that what is under way is lost, too
blackhole  after so many bytes, take what comes and pass on nothing, in both directions
crumbs     pass on so many bytes one by one, then go on as usual
slow       read nothing for a while after so many bytes, so that the sender's buffers fill
=========  =======================================================================================

A blackhole ends when the client gives up. Whatever time-out it has is the client's; nothing here
waits for a clock, except ``slow``, which is about time.
"""

import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple, Self

__all__ = ["CLEAN", "Fault", "LossyProxy", "faults"]

READ_BYTES: Final = 65_536
SLOW_S: Final = 0.2
KINDS: Final = ("cut", "reset", "blackhole", "crumbs", "slow")


class Fault(NamedTuple):
    """What happens to a connection."""

    kind: str
    after: int  # bytes
    is_upstream: bool  # counted from the client to the broker


CLEAN: Final = Fault("clean", 0, False)


def faults(seed: int, count: int, kinds: Iterable[str] = KINDS, most: int = 4_000) -> list[Fault]:
    """So many faults; small numbers of bytes are as likely as large ones."""
    chance, among = Random(seed), list(kinds)
    return [
        Fault(chance.choice(among), int(most ** chance.random()) - 1, chance.random() < 0.5)
        for _ in range(count)
    ]


class LossyProxy:
    """Listens on ``port``, and passes everything on to a broker, but for the faults."""

    def __init__(self, broker_port: int, planned: Iterable[Fault] = ()) -> None:
        self._broker = ("127.0.0.1", broker_port)
        self._planned = deque(planned)
        self._count = len(self._planned)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._threads: list[threading.Thread] = []
        self.met: list[Fault] = []
        self._accepting = threading.Thread(target=self._accept, name="proxy")
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._connect, args=(client,), name="proxy-link")
            self._threads.append(thread)
            thread.start()

    def _connect(self, client: socket.socket) -> None:
        with client:
            try:
                broker = socket.create_connection(self._broker, timeout=20)
            except OSError:
                return
            with broker:
                link = _Link(client, broker, self)
                with self._lock:
                    self._links.add(link)
                try:
                    link.run()
                finally:
                    with self._lock:
                        self._links.remove(link)

    def take(self) -> Fault:
        """The next fault, for a connection."""
        with self._lock:
            return self._planned.popleft() if self._planned else CLEAN

    def give_back(self, fault: Fault) -> None:
        """A connection has ended before it met its fault: another one shall."""
        with self._lock:
            if fault is not CLEAN:
                self._planned.appendleft(fault)

    @property
    def left(self) -> int:
        """Faults that were not met yet."""
        with self._lock:
            return self._count - len(self.met)

    def cut(self) -> None:
        """End all connections now."""
        with self._lock:
            for link in self._links:
                link.cut()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()
        self.cut()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class _Link:
    """One connection, in a thread of its own."""

    def __init__(self, client: socket.socket, broker: socket.socket, proxy: LossyProxy) -> None:
        self._client, self._broker, self._proxy = client, broker, proxy
        self.fault = proxy.take()
        self._passed = {client: 0, broker: 0}
        self._is_black = False
        for end in (client, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(20)

    def run(self) -> None:
        try:
            self._run()
        finally:
            fault, self.fault = self.fault, CLEAN
            self._proxy.give_back(fault)

    def cut(self) -> None:
        for end in (self._client, self._broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, suppress(OSError):
            selector.register(self._client, selectors.EVENT_READ)
            selector.register(self._broker, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if not self._pass_on(key.fileobj):
                        return

    def _pass_on(self, source: socket.socket) -> bool:
        """Read once; false at the end of the connection."""
        data = source.recv(READ_BYTES)
        if not data:
            return self._is_black and source is self._broker and self._wait_for_the_end()
        if self._is_black:
            return True
        target = self._broker if source is self._client else self._client
        is_faulty = self.fault.is_upstream is (source is self._client)
        if self.fault is CLEAN or not is_faulty:
            target.sendall(data)
            return True
        return self._pass_on_faultily(source, target, data)

    def _wait_for_the_end(self) -> bool:
        """The broker has given up; a client of a blackhole does not hear of that."""
        self._client.settimeout(None)
        while self._client.recv(READ_BYTES):
            pass
        return False

    def _pass_on_faultily(self, source: socket.socket, target: socket.socket, data: bytes) -> bool:
        kind, after, _ = self.fault
        before = self._passed[source]
        self._passed[source] += len(data)
        if kind == "crumbs":
            return self._crumble(target, data, after - before)
        if before + len(data) <= after:
            target.sendall(data)
            return True
        target.sendall(data[: max(after - before, 0)])
        self._meet()
        if kind == "blackhole":
            self._is_black = True
            return True
        if kind == "slow":
            threading.Event().wait(SLOW_S)
            target.sendall(data[max(after - before, 0) :])
            return True
        if kind == "reset":
            for end in (self._client, self._broker):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _crumble(self, target: socket.socket, data: bytes, left: int) -> bool:
        for position in range(min(max(left, 0), len(data))):
            target.sendall(data[position : position + 1])
        target.sendall(data[min(max(left, 0), len(data)) :])
        if left - len(data) <= 0:
            self._meet()
        return True

    def _meet(self) -> None:
        """Note it, and take the next one, for a connection that outlives this one."""
        self._proxy.met.append(self.fault)
        self.fault = self._proxy.take()
        self._passed = dict.fromkeys(self._passed, 0)
