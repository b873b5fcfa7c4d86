"""MULTI and EXEC: commands are queued and run together, nothing is rolled back."""

import pytest
import redis

from penstock.doors.resp import calls
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.conformance_resp.wire import Peer, array, ask, packed

SAME = [
    ("MULTI", "PING", "EXEC"),
    ("MULTI", "EXEC"),
    ("MULTI", "PING", "DISCARD", "PING"),
    ("EXEC",),
    ("DISCARD",),
    ("MULTI x",),
    ("MULTI", "MULTI", "PING", "EXEC"),
    ("MULTI", "WATCH a", "PING", "EXEC"),
    ("MULTI", "NONSENSE", "PING", "EXEC", "PING"),
    ("MULTI", "PING", "ECHO", "EXEC", "PING"),
    ("MULTI", "SELECT x", "ECHO fine", "EXEC"),
    ("MULTI", "PUBLISH nobody x", "PUBLISH nobody y", "PUBLISH nobody z", "EXEC"),
    ("MULTI", "PING", "RESET", "PING", "EXEC"),
    ("MULTI", "PING", "QUIT"),
    ("MULTI", "DISCARD", "EXEC"),
    ("MULTI", "XLEN none", "XRANGE none - +", "EXEC"),
    ("MULTI", "XREAD BLOCK 0 STREAMS none 0", "EXEC"),
    ("MULTI", "XADD s", "EXEC", "EXEC"),
    ("MULTI", "XREADGROUP GROUP g c STREAMS none >", "PING", "EXEC"),
    ("HELLO 3", "MULTI", "PING", "XREAD BLOCK 0 STREAMS none 0", "EXEC"),
    ("UNWATCH",),
]


@pytest.mark.parametrize("commands", SAME, ids=" / ".join)
def test_a_transaction_is_answered_as_by_redis(commands, ask_redis, ask_penstock):
    assert ask_penstock(*commands) == ask_redis(*commands)


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture(params=[2, 3], ids=["RESP 2", "RESP 3"])
def client(broker, request):
    with redis.Redis(port=broker.port, protocol=request.param) as opened:
        yield opened


def test_a_pipeline_in_a_transaction_is_carried_out(client, request):
    name = request.node.name
    pipeline = client.pipeline()  # a transaction by default
    pipeline.xadd(name, {"a": "1"})
    pipeline.xadd(name, {"a": "2"})
    pipeline.xlen(name)
    pipeline.publish(name, "x")
    pipeline.execute_command("PUSH", name, "job")
    pipeline.execute_command("PULL", name, "BLOCK", 0)
    first, second, length, receivers, number, jobs = pipeline.execute()
    assert first < second
    assert (length, receivers, number, jobs) == (2, 0, 1, [b"job"])


def test_a_transaction_sees_its_own_entries_before_the_disk_has_them():
    with (
        Broker(durability="interval") as broker,
        redis.Redis(port=broker.port, protocol=2) as client,
    ):
        for length in (1, 2, 3):
            pipeline = client.pipeline()
            pipeline.readonly()
            pipeline.readwrite()
            pipeline.xadd("s", {"a": "1"})
            pipeline.xlen("s")
            pipeline.xtrim("s", maxlen=9)
            pipeline.exists("s")
            assert pipeline.execute()[3:] == [length, 0, 1]


def test_a_command_that_fails_leaves_the_others_done(client, request):
    pipeline = client.pipeline()
    pipeline.xadd(request.node.name, {"a": "1"})
    pipeline.xadd("$SYS/closed", {"a": "1"})
    pipeline.xadd(request.node.name, {"a": "2"})
    answers = pipeline.execute(raise_on_error=False)
    assert isinstance(answers[1], redis.ResponseError)
    assert client.xlen(request.node.name) == 2


def test_nothing_runs_if_a_command_could_not_be_queued(client, request):
    with client.client() as one:
        one.execute_command("MULTI")
        assert one.execute_command("XADD", request.node.name, "*", "a", "1") == b"QUEUED"
        with pytest.raises(redis.ResponseError, match="unknown command"):
            one.execute_command("NONSENSE")
        with pytest.raises(redis.exceptions.ExecAbortError):
            one.execute_command("EXEC")
        assert one.execute_command("XLEN", request.node.name) == 0


def test_many_commands_make_one_commit(broker):
    commits = broker.server.store.next_index
    adding = [array(b"XADD", b"many", b"*", b"n", b"%d" % number) for number in range(200)]
    answer = ask(broker.port, "MULTI", *adding, "EXEC")
    assert answer.count(b"+QUEUED\r\n") == 200
    assert b"*200\r\n" in answer
    assert broker.server.store.next_index - commits < 20


def test_a_transaction_is_bounded(broker, monkeypatch):
    monkeypatch.setattr(calls, "QUEUED_MAX", 3)
    answer = ask(broker.port, "MULTI", *["PING"] * 4, "PING", "EXEC", "PING")
    assert answer.count(b"+QUEUED\r\n") == 4
    assert b"-ERR The transaction is too large" in answer
    assert answer.endswith(
        b"-EXECABORT Transaction discarded because of previous errors.\r\n" * 1
        + b"+PONG\r\n+OK\r\n"
    )


def test_all_transactions_together_are_bounded():
    """Otherwise ten thousand clients could each leave a transaction of the maximum size."""
    with Broker(limits={"incomplete_bytes_max": 4 << 20, "frame_bytes_max": 1 << 20}) as broker:
        peers = [Peer(broker.port) for _ in range(8)]
        queued = array(b"PUBLISH", b"c", b"x" * 900_000)
        for peer in peers:
            peer.send("MULTI", queued)
            assert peer.read(b"+OK\r\n+QUEUED\r\n").endswith(b"QUEUED\r\n")
        assert peers[0].read_end() == b""
        assert broker.server.counters.disconnects[DisconnectReason.INCOMPLETE_PACKETS] >= 3
        peers[-1].send("EXEC")
        assert peers[-1].read(b"*1\r\n:0\r\n") == b"*1\r\n:0\r\n"
        for peer in peers:
            peer.close()


def test_answers_cannot_be_turned_off_within_a_transaction(broker):
    answer = ask(broker.port, "MULTI", "CLIENT REPLY OFF", "PING", "EXEC", "PING")
    assert b"*2\r\n-ERR CLIENT REPLY is not allowed in a transaction" in answer
    assert answer.endswith(b"+PONG\r\n+PONG\r\n+OK\r\n")


def test_watch_is_refused_with_a_reason(client):
    with pytest.raises(redis.ResponseError, match="has no keys to watch"):
        client.execute_command("WATCH", "k")
    assert client.ping()


def test_a_client_that_leaves_within_a_transaction_does_nothing(broker):
    ask(broker.port, "MULTI", packed("XADD left * a 1"))
    assert ask(broker.port, "XLEN left") == b":0\r\n+OK\r\n"
