"""Observing and controlling clients: CLIENT, MONITOR, INFO, and shard channels."""

import socket
from contextlib import closing

import pytest
import redis

from penstock.doors.resp import registry
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.conformance_resp.wire import Peer, ask

TIMEOUT_S = 10
JAVASCRIPT_MAX = 2**53


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with redis.Redis(port=broker.port, decode_responses=True, protocol=2) as client:
        yield client


def until_blocked(client):
    """Wait until a client blocks; return its id."""
    while True:
        blocked = [one for one in client.client_list() if "b" in one["flags"]]
        if blocked:
            return int(blocked[0]["id"])


def test_numbers_of_clients_are_small_and_go_up(broker):
    first, second = (int(ask(broker.port, "CLIENT ID").split()[0][1:]) for _ in range(2))
    assert 0 < first < second < JAVASCRIPT_MAX
    assert b"id\r\n:%d" % (second + 1) in ask(broker.port, "HELLO 3")


def test_the_list_tells_the_last_command_and_the_state(broker, client):
    with Peer(broker.port) as peer:
        peer.send("CLIENT SETNAME other", "MULTI", "PING")
        assert peer.read(b"+OK\r\n+OK\r\n+QUEUED\r\n").endswith(b"QUEUED\r\n")
        listed = {one["name"]: one for one in client.client_list()}
        assert listed["other"]["cmd"] == "ping"
        assert listed["other"]["flags"] == "x"
        assert listed["other"]["multi"] == "1"
        assert listed[""]["cmd"] == "client|list"


def test_a_client_is_killed_and_that_is_counted(broker, client):
    with Peer(broker.port) as peer:
        peer.send("CLIENT SETNAME victim")
        peer.read(b"+OK\r\n")
        victim = next(one for one in client.client_list() if one["name"] == "victim")
        assert client.client_kill_filter(_id=victim["id"]) == 1
        assert peer.read_end() == b""
    assert broker.server.counters.disconnects[DisconnectReason.CLIENT_KILLED] == 1
    assert client.client_kill_filter(_id=victim["id"]) == 0


def test_a_client_may_kill_itself_and_is_answered_first(broker):
    with closing(socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)) as own:
        own.sendall(b"CLIENT KILL TYPE normal SKIPME no\r\n")
        assert own.recv(100) == b":1\r\n"
        assert own.recv(100) == b""


WAITS = {
    "XREAD": "XREAD BLOCK 0 STREAMS s $",
    "XREADGROUP": "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
    "PULL": "PULL jobs BLOCK 0",
}


@pytest.mark.parametrize("command", WAITS)
def test_a_client_that_waits_is_unblocked(broker, client, command):
    client.xgroup_create("s", "g", mkstream=True)
    with Peer(broker.port) as peer:
        peer.send(WAITS[command])
        number = until_blocked(client)
        assert client.info("clients")["blocked_clients"] == 1
        assert client.client_unblock(number)
        assert peer.read(b"*-1\r\n") == b"*-1\r\n"
        peer.send(WAITS[command])
        assert client.client_unblock(until_blocked(client), error=True)
        error = b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
        assert peer.read(error) == error
        assert client.info("clients")["blocked_clients"] == 0
        assert not client.client_unblock(number)
        peer.send("PING")
        assert peer.read(b"+PONG\r\n") == b"+PONG\r\n"


def test_a_blocked_reader_is_told_that_the_stream_is_gone(broker, client):
    client.xgroup_create("s", "g", "$", mkstream=True)
    with Peer(broker.port) as peer:
        peer.send(WAITS["XREADGROUP"])
        until_blocked(client)
        client.delete("s")
        assert peer.read(b"-") == b"-"


# ── MONITOR ───────────────────────────────────────────────────────────────────────────────────


def lines(monitor, count):
    return [monitor.readline().split(b"] ", 1)[1].rstrip() for _ in range(count)]


@pytest.fixture
def monitor(broker):
    with (
        closing(socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)) as connection,
        connection.makefile("rb") as monitor,
    ):
        connection.sendall(b"MONITOR\r\n")
        assert monitor.readline() == b"+OK\r\n"
        yield monitor


def test_a_monitor_is_shown_commands(broker, monitor):
    ask(broker.port, "PUBLISH 'a b' x", "XLEN s", "NONSENSE", "MULTI", "PING", "EXEC")
    assert lines(monitor, 6) == [
        b'"PUBLISH" "a b" "x"',
        b'"XLEN" "s"',
        b'"MULTI"',
        b'"EXEC"',
        b'"PING"',
        b'"QUIT"',
    ]


def test_a_monitor_is_shown_no_passwords(broker, monitor):
    ask(broker.port, "AUTH default hunter2", "HELLO 3 AUTH default hunter2 SETNAME me", "ECHO x")
    assert lines(monitor, 3) == [
        b'"AUTH" "(redacted)" "(redacted)"',
        b'"HELLO" "3" "AUTH" "(redacted)" "(redacted)" "(redacted)" "(redacted)"',
        b'"ECHO" "x"',
    ]


def test_what_a_monitor_is_shown_is_bounded(broker, monitor, monkeypatch):
    monkeypatch.setattr(registry, "SHOWN_RUN_MAX", 2)
    ask(broker.port, "ECHO " + "a" * 1_000, *["PUBLISH c x"] * 5)
    assert len(lines(monitor, 1)[0]) < 300
    assert lines(monitor, 3) == [b'"PUBLISH" "c" "x"'] * 2 + [b'"and 3 more like it"']


def test_a_monitor_that_does_not_read_loses_lines_and_holds_up_nobody():
    with (
        Broker(limits={"outbound_bytes_max": 65_536}) as broker,
        closing(socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)) as monitor,
    ):
        monitor.sendall(b"MONITOR\r\n")
        assert monitor.recv(5) == b"+OK\r\n"
        while not broker.metrics()['penstock_dropped_total{reason="slow_reader"}']:
            ask(broker.port, *["ECHO " + "a" * 250] * 1_000)
        assert ask(broker.port, "PING") == b"+PONG\r\n+OK\r\n"


# ── INFO ──────────────────────────────────────────────────────────────────────────────────────


def test_info_has_what_the_statistics_of_redis_cli_need(client):
    before = client.info()
    client.ping()
    after = client.info()
    assert after["total_commands_processed"] - before["total_commands_processed"] == 2
    assert after["used_memory"] > 10**6
    for name in ("connected_clients", "blocked_clients", "total_connections_received"):
        assert after[name] >= 0


# ── shard channels ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sign", [b"*", b">"], ids=["RESP 2", "RESP 3"])
def test_a_shard_channel_is_the_topic_of_its_name(broker, client, sign):
    with Peer(broker.port) as peer:
        confirmed = sign + b"3\r\n$10\r\nssubscribe\r\n$3\r\na#b\r\n:1\r\n"
        if sign == b">":
            peer.send("HELLO 3")
            peer.read(ask(broker.port, "HELLO 3").removesuffix(b"+OK\r\n"))
        peer.send("SSUBSCRIBE a#b")
        assert peer.read(confirmed) == confirmed
        assert client.execute_command("SPUBLISH", "a#b", "x") == 1
        assert client.publish("a#b", "y") == 1
        for data in (b"x", b"y"):
            expected = sign + b"3\r\n$8\r\nsmessage\r\n$3\r\na#b\r\n$1\r\n%b\r\n" % data
            assert peer.read(expected) == expected
        assert client.execute_command("PUBSUB", "SHARDNUMSUB", "a#b") == ["a#b", 1]


def test_the_number_of_the_next_entry_cannot_be_set(client):
    client.xadd("s", {"n": 1})
    with pytest.raises(redis.ResponseError, match="the broker counts"):
        client.execute_command("XSETID", "s", "99999999999999-1")
