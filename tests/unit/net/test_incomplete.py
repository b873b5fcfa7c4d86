"""What all connections hold of incomplete packets is bounded; the silent go first."""

import socket
import time
from collections.abc import Callable

from penstock.net.incomplete import WORTH_COUNTING, Incomplete
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker

MIB = 1 << 20


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


class Holder:
    def __init__(self, book: Incomplete) -> None:
        self.book = book
        self.closed: DisconnectReason | None = None

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        self.closed = reason
        self.book.forget(self)


def test_the_one_that_was_silent_for_longest_goes():
    book = Incomplete(3 * MIB)
    first, second, third = (Holder(book) for _ in range(3))
    book.note(first, MIB)
    book.note(second, MIB)
    book.note(first, MIB + 1)  # it goes on sending
    book.note(third, 2 * MIB)
    assert second.closed is DisconnectReason.INCOMPLETE_PACKETS
    assert (
        first.closed is DisconnectReason.INCOMPLETE_PACKETS
    )  # by a byte; it came before the third
    assert third.closed is None
    assert book.total == 2 * MIB


def test_little_is_not_counted_and_what_is_complete_is_forgotten():
    book = Incomplete(MIB)
    holder = Holder(book)
    book.note(holder, WORTH_COUNTING)
    assert book.total == 0
    book.note(holder, MIB)
    book.note(holder, 0)
    assert book.total == 0


def test_one_alone_may_hold_as_much_as_its_packet_takes():
    book = Incomplete(MIB)
    holder = Holder(book)
    book.note(holder, 16 * MIB)
    assert holder.closed is None


def test_half_commands_do_not_take_all_memory_and_others_go_on():
    half = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$1000000\r\n" + b"x" * 900_000
    with Broker(limits={"incomplete_bytes_max": 3 * MIB}) as broker:
        address = ("127.0.0.1", broker.port)
        strangers = [socket.create_connection(address, 10) for _ in range(8)]
        for number, stranger in enumerate(strangers, start=1):
            stranger.sendall(half)
            wait_until(lambda n=number: broker.server.counters.bytes_in_total == n * len(half))
        name = 'penstock_disconnects_total{reason="incomplete_packets"}'
        wait_until(lambda: broker.metrics()[name] == 5)
        strangers[-1].sendall(b"x" * 100_000 + b"\r\n")
        assert strangers[-1].recv(10) == b":0\r\n"
        for stranger in strangers:
            stranger.close()
        wait_until(lambda: broker.server.parts.connections.incomplete.total == 0)
