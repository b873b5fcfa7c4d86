"""Strangers: who may come in, how long they may be silent, and what is counted."""

import asyncio
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from penstock.config.address import Address
from penstock.config.listeners import ListenerSettings
from penstock.config.schema import Limits
from penstock.errors import Refused
from penstock.net.detect import Protocol
from penstock.net.flusher import Flusher
from penstock.net.listener import BEYOND_CLIENTS, Listener, _UndetectedConnection, origin_of
from penstock.net.origin import Origin
from penstock.net.sockets import Sockets
from penstock.net.timers import Deadlines
from penstock.net.visitors import Visitors
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
from penstock.testing import VirtualClock
from penstock.trust.bans import Bans
from penstock.trust.book import ANY_VERSION, AccessBook, put
from penstock.trust.rows import Ban

REACHABLE = ListenerSettings(address=Address("192.0.2.1", 1883))
LOOPBACK = ListenerSettings(address=Address("127.0.0.1", 1883))


class Transport:
    """Remembers how it ended."""

    is_aborted = False

    def __init__(self, host: str = "192.0.2.7") -> None:
        self._host = host

    def abort(self) -> None:
        self.is_aborted = True

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return {"peername": (self._host, 4711)}[name]


class Bench:
    """A listener whose MQTT door notes what it is handed; HTTP and the rest have none."""

    def __init__(self, clients_max: int = 10) -> None:
        self.clock = VirtualClock()
        self.handed: list[tuple[Any, bytes, float]] = []
        self.origins: list[Origin] = []
        self.complaints: list[dict[str, Any]] = []
        self.counters = Counters()
        limits = Limits(clients_max=clients_max)
        self.visitors = Visitors(limits)
        self.connections: Any = SimpleNamespace(
            clock=self.clock,
            counters=self.counters,
            deadlines=Deadlines(),
            clients={},
            open_count=0,
            limits=limits,
            visitors=self.visitors,
            throttled_log=SimpleNamespace(
                info=lambda *_a, **values: self.complaints.append(values)
            ),
        )
        self.book = AccessBook()
        self.listener = Listener(self.connections, {Protocol.MQTT: self._door}, Bans(self.book))

    def _door(self, transport: Any, data: bytes, origin: Origin) -> None:
        self.handed.append((transport, data, origin.accepted_at))
        self.origins.append(origin)

    def connect(
        self, settings: ListenerSettings = REACHABLE, host: str = "192.0.2.7"
    ) -> tuple[_UndetectedConnection, Transport]:
        connection = _UndetectedConnection(self.listener, settings)
        transport = Transport(host)
        connection.connection_made(transport)
        return connection, transport

    def count(self, reason: DisconnectReason) -> int:
        return self.counters.disconnects[reason]


def test_a_protocol_with_a_door_is_handed_over_with_all_its_bytes():
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(b"\x10\x0c")
    assert bench.handed == [(transport, b"\x10\x0c", bench.clock.monotonic())]
    assert bench.counters.connections_total == {"mqtt": 1}
    assert not bench.listener.undetected
    connection.data_received(b"late")
    connection.connection_lost(None)
    assert sum(bench.counters.disconnects.values()) == 0
    assert len(bench.handed) == 1


@pytest.mark.parametrize("data", [b"\xff", b"GET / HTTP/1.1\r\n", b"\x16\x03"])
def test_a_protocol_without_a_door_is_refused_and_counted(data):
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(data)
    assert transport.is_aborted
    assert bench.count(DisconnectReason.UNKNOWN_PROTOCOL) == 1
    assert bench.counters.connections_total == {}
    assert bench.complaints[0]["peer"] == "192.0.2.7:4711"


def test_bytes_that_do_not_decide_yet_are_kept_for_the_door():
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(b"GE")
    assert not transport.is_aborted
    connection.data_received(b"T ")
    assert bench.count(DisconnectReason.UNKNOWN_PROTOCOL) == 1


def test_one_client_too_many_is_refused_and_counted():
    bench = Bench(clients_max=2)
    bench.connections.clients["somebody"] = None
    welcome, _ = bench.connect()
    welcome.data_received(b"\x10")
    assert len(bench.handed) == 1
    bench.connections.clients["the one who was welcome"] = None
    one_too_many, transport = bench.connect()
    one_too_many.data_received(b"\x10")
    assert transport.is_aborted
    assert bench.count(DisconnectReason.TOO_MANY_CLIENTS) == 1
    assert len(bench.handed) == 1


def test_a_full_broker_still_answers_probes_but_hears_out_only_so_many():
    bench = Bench(clients_max=1)
    bench.connections.clients["somebody"] = None
    bench.connections.open_count = 1
    bench.listener.doors = {Protocol.HTTP: bench._door}
    probe, _ = bench.connect()
    probe.data_received(b"GET /health HTTP/1.1\r\n")
    assert len(bench.handed) == 1
    strangers = [bench.connect(host=f"192.0.2.{n}")[1] for n in range(BEYOND_CLIENTS + 1)]
    assert [transport.is_aborted for transport in strangers] == [False] * BEYOND_CLIENTS + [True]


def test_a_silent_stranger_is_refused_after_the_connect_timeout():
    bench = Bench()
    _, transport = bench.connect()
    bench.clock.advance(9.9)
    bench.connections.deadlines.turn(bench.clock.monotonic())
    assert not transport.is_aborted
    bench.clock.advance(0.2)
    bench.connections.deadlines.turn(bench.clock.monotonic())
    assert transport.is_aborted
    assert bench.count(DisconnectReason.CONNECT_TIMEOUT) == 1


def test_a_stranger_that_leaves_is_counted_once_and_has_no_deadline():
    bench = Bench()
    connection, _ = bench.connect()
    connection.connection_lost(None)
    bench.clock.advance(60)
    bench.connections.deadlines.turn(bench.clock.monotonic())
    assert bench.count(DisconnectReason.CONNECTION_LOST) == 1
    assert sum(bench.counters.disconnects.values()) == 1


def test_strangers_are_cut_when_the_broker_stops():
    bench = Bench()
    transports = [bench.connect()[1] for _ in range(2)]
    bench.listener.abort_undetected()
    assert all(transport.is_aborted for transport in transports)
    assert bench.count(DisconnectReason.SERVER_SHUTDOWN) == 2
    assert not bench.listener.undetected


@pytest.mark.asyncio
async def test_a_port_that_is_taken_is_an_error_that_says_what_to_do():
    bench = Bench()
    loop = asyncio.get_running_loop()
    flusher = Flusher(loop, bench.clock.monotonic, bench.counters)
    bench.connections.sockets = Sockets(loop, flusher)
    taken = await bench.listener.listen(ListenerSettings(address=Address("127.0.0.1", 0)))
    assert taken.port
    with pytest.raises(Refused, match=f"cannot listen on 127.0.0.1:{taken.port}"):
        await bench.listener.listen(ListenerSettings(address=taken))
    bench.listener.stop_accepting()
    again = await bench.listener.listen(ListenerSettings(address=taken))
    assert again.port == taken.port
    bench.listener.stop_accepting()


def test_a_listener_accepts_no_protocol_that_it_does_not_name():
    bench = Bench()
    connection, transport = bench.connect(structs.replace(REACHABLE, protocols=frozenset({"http"})))
    connection.data_received(b"\x10\x0c")
    assert transport.is_aborted
    assert not bench.handed
    assert bench.count(DisconnectReason.UNKNOWN_PROTOCOL) == 1
    assert "mqtt is not among the protocols of 192.0.2.1:1883" in bench.complaints[0]["detail"]


@pytest.mark.parametrize(
    ("settings", "host", "is_local"),
    [
        (LOOPBACK, "127.0.0.1", True),
        (LOOPBACK, "::ffff:127.0.0.1", True),
        (LOOPBACK, "192.0.2.7", False),
        (LOOPBACK, "", False),
        (ListenerSettings(address=Address("::1", 1883)), "::1", True),
        (ListenerSettings(address=Address("localhost", 1883)), "127.0.0.1", True),
        (REACHABLE, "127.0.0.1", False),
        (ListenerSettings(address=Address("0.0.0.0", 1883)), "127.0.0.1", False),
        (structs.replace(LOOPBACK, proxy=True), "127.0.0.1", False),
    ],
)
def test_local_is_who_reaches_a_loopback_listener_from_this_machine_without_a_proxy(
    settings, host, is_local
):
    origin = origin_of(Transport(host), 1.0, settings)
    assert origin.is_local is is_local
    assert origin.host == host


def test_the_user_of_a_listener_is_part_of_the_origin():
    bench = Bench()
    connection, _ = bench.connect(structs.replace(REACHABLE, user="legacy"))
    connection.data_received(b"\x10")
    assert bench.origins[0].listener_user == "legacy"
    assert bench.origins[0].peer == "192.0.2.7:4711"


def test_a_banned_address_is_cut_before_anything_is_read():
    bench = Bench()
    assert bench.book.apply([put(Ban("address:192.0.2.0/24"))], ANY_VERSION, 1) == ""
    _, transport = bench.connect()
    assert transport.is_aborted
    assert bench.count(DisconnectReason.BANNED) == 1
    assert not bench.connect(host="198.51.100.1")[1].is_aborted


def test_strangers_of_one_address_are_few_and_make_room_when_they_leave():
    bench = Bench(clients_max=1_000)
    connected = [bench.connect() for _ in range(33)]
    assert [transport.is_aborted for _, transport in connected] == [False] * 32 + [True]
    assert bench.count(DisconnectReason.ADDRESS_LIMIT) == 1
    assert "32 connections from 192.0.2.7 that have not" in bench.complaints[0]["detail"]
    connected[0][0].connection_lost(None)
    assert not bench.connect()[1].is_aborted
    assert bench.connect()[1].is_aborted


PROXIED = structs.replace(REACHABLE, proxy=True, trusted=(ip_network("192.0.2.0/24"),))
HEADER = b"PROXY TCP4 203.0.113.9 192.0.2.1 4711 1883\r\n"


@pytest.mark.parametrize("cut", [0, 1, 20, len(HEADER) - 1, len(HEADER), len(HEADER) + 1])
def test_the_address_of_a_header_counts_however_it_is_cut(cut):
    bench = Bench()
    connection, transport = bench.connect(PROXIED)
    stream = HEADER + b"\x10\x0c"
    connection.data_received(stream[:cut])
    connection.data_received(stream[cut:])
    assert bench.handed[0][0] is transport
    assert b"\x10\x0c".startswith(bench.handed[0][1])
    assert bench.origins[0].peer == "203.0.113.9:4711"
    assert not bench.origins[0].is_local


def test_a_proxy_that_is_not_trusted_is_cut_unread():
    bench = Bench()
    connection, transport = bench.connect(PROXIED, host="198.51.100.1")
    assert transport.is_aborted
    connection.data_received(HEADER + b"\x10")
    assert not bench.handed
    assert bench.count(DisconnectReason.PROXY_REFUSED) == 1


@pytest.mark.parametrize("data", [b"\x10\x0c", b"GET / HTTP/1.1\r\n", b"\x16\x03", HEADER[1:]])
def test_a_client_without_a_header_is_refused_where_one_is_demanded(data):
    bench = Bench()
    connection, transport = bench.connect(PROXIED)
    connection.data_received(data)
    assert transport.is_aborted
    assert bench.count(DisconnectReason.PROXY_REFUSED) == 1


def test_a_header_must_be_complete_after_five_seconds():
    bench = Bench()
    connection, transport = bench.connect(PROXIED)
    connection.data_received(HEADER[:-1])
    bench.clock.advance(4.9)
    bench.connections.deadlines.turn(bench.clock.monotonic())
    assert not transport.is_aborted
    bench.clock.advance(0.2)
    bench.connections.deadlines.turn(bench.clock.monotonic())
    assert transport.is_aborted
    assert bench.count(DisconnectReason.PROXY_REFUSED) == 1


def test_the_time_for_the_first_packet_runs_from_the_accept_not_from_the_header():
    bench = Bench()
    connection, transport = bench.connect(PROXIED)
    bench.clock.advance(4)
    connection.data_received(HEADER)
    for _ in range(2):
        bench.clock.advance(3.1)
        bench.connections.deadlines.turn(bench.clock.monotonic())
    assert transport.is_aborted
    assert bench.count(DisconnectReason.CONNECT_TIMEOUT) == 1


def test_bans_and_limits_count_for_the_client_not_for_the_proxy():
    bench = Bench(clients_max=1_000)
    assert bench.book.apply([put(Ban("address:203.0.113.9"))], ANY_VERSION, 1) == ""
    connection, transport = bench.connect(PROXIED)
    connection.data_received(HEADER + b"\x10")
    assert transport.is_aborted
    assert bench.count(DisconnectReason.BANNED) == 1
    for number in range(40):
        connection, transport = bench.connect(PROXIED)
        connection.data_received(HEADER.replace(b"113.9", b"113.%d" % (100 + number)))
        assert not transport.is_aborted
    for number in range(33):
        connection, transport = bench.connect(PROXIED)
        connection.data_received(HEADER.replace(b"203.0.113.9", b"127.0.0.1"))
        assert transport.is_aborted is (number == 32), "a proxied client is never local"


def test_a_header_without_an_address_leaves_the_address_of_the_proxy():
    bench = Bench()
    connection, _ = bench.connect(PROXIED)
    connection.data_received(b"PROXY UNKNOWN\r\n\x10")
    assert bench.origins[0].host == "192.0.2.7"
