"""Names of channels and streams: any bytes for Redis clients, a valid topic for all others."""

import pytest
import redis

from penstock.testing import Broker

TIMEOUT_S = 10

ODD_NAMES = [
    b"user#42",
    b"a+b",
    b"socket.io#/#",
    b"socket.io-request#/#",
    b"100%",
    b"a%23b",
    b"a%2523b",
    b"%2B#%",
    b"nul\0nul",
    b"\xff\xfe",
    b"\xc3\xa9t\xc3\xa9 \xe9",
    b"%xFF",
]


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture(params=[2, 3], ids=["RESP 2", "RESP 3"])
def client(broker, request):
    with redis.Redis(port=broker.port, protocol=request.param) as client:
        yield client


@pytest.fixture
def pubsub(client):
    with client.pubsub() as pubsub:
        yield pubsub


def message(pubsub):
    found = pubsub.get_message(timeout=TIMEOUT_S)
    assert found is not None, "nothing came"
    return found["type"], found["pattern"], found["channel"], found["data"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_a_channel_of_any_name_carries_messages_under_that_name(client, pubsub, name):
    pubsub.subscribe(name)
    assert message(pubsub) == ("subscribe", None, name, 1)
    assert client.pubsub_numsub(name) == [(name, 1)]
    assert client.pubsub_channels() == [name]
    assert client.publish(name, "x") == 1
    assert message(pubsub) == ("message", None, name, b"x")
    pubsub.unsubscribe(name)
    assert message(pubsub) == ("unsubscribe", None, name, 0)
    assert client.publish(name, "y") == 0


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_a_stream_of_any_name_is_read_under_that_name(client, name):
    added = client.xadd(name, {"a": "1"})
    before = client.xlen(name)
    client.xgroup_create(name, added, "0")
    streams = client.xread({name: "0"})
    assert (next(iter(streams)) if isinstance(streams, dict) else streams[0][0]) == name
    streams = client.xreadgroup(added, "c", {name: ">"})
    assert (next(iter(streams)) if isinstance(streams, dict) else streams[0][0]) == name
    assert client.xack(name, added, added) == 1
    assert client.xdel(name, added) == 1
    assert client.xlen(name) == before - 1


def test_no_two_names_are_the_same_channel(client, pubsub):
    pubsub.subscribe(*ODD_NAMES)
    for count, name in enumerate(ODD_NAMES, 1):
        assert message(pubsub) == ("subscribe", None, name, count)
    for name in ODD_NAMES:
        assert client.publish(name, name) == 1
        assert message(pubsub) == ("message", None, name, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (b"socket.io#/#*", b"socket.io#/#room#"),
        (b"user#?", b"user#4"),
        (b"[#+]", b"+"),
        (b"*\xff", b"a\xff"),
        (b"?????", b"a%23b"),
    ],
)
def test_a_pattern_is_held_against_the_name(client, pubsub, pattern, name):
    pubsub.psubscribe(pattern)
    assert message(pubsub) == ("psubscribe", None, pattern, 1)
    assert client.publish(name, "x") == 1
    assert message(pubsub) == ("pmessage", pattern, name, b"x")
    assert client.pubsub_channels(pattern) == []


def test_other_protocols_see_one_valid_topic(client, pubsub, broker):
    pubsub.subscribe("user#43")
    message(pubsub)
    client.xadd("user#43", {"payload": "1"})
    assert message(pubsub) == ("message", None, b"user#43", b"1")
    assert broker.server.store.topic(b"user%2343") is not None
    assert broker.server.store.topic(b"user#43") is None


def test_a_filter_of_mqtt_is_still_a_filter(client, pubsub):
    pubsub.subscribe("hall/+/temp", "hall/#")
    message(pubsub), message(pubsub)
    assert client.publish("hall/1/temp", "20") == 2
    assert {message(pubsub), message(pubsub)} == {("message", None, b"hall/1/temp", b"20")}


def test_a_job_queue_may_have_any_name(client):
    assert client.execute_command("PUSH", "mail#1", "job") > 0
    assert client.execute_command("PULL", "mail#1") == [b"job"]


def test_errors_show_the_name_that_was_given(client):
    with pytest.raises(redis.ResponseError, match="'none#1'"):
        client.xreadgroup("g", "c", {"none#1": ">"})
    with pytest.raises(redis.ResponseError, match="reserved"):
        client.publish("$SYS/x#", "y")
