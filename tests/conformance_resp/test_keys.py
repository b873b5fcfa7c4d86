"""Commands on keys that make sense for topics, and how they answer compared with Redis."""

import pytest
import redis

from penstock.testing import Broker

SAME = [
    ("EXISTS none", "TYPE none", "DEL none", "UNLINK none none"),
    ("XADD {k} * a 1", "EXISTS {k}", "EXISTS {k} {k} none", "TYPE {k}"),
    ("XADD {k} * a 1", "DEL {k}", "EXISTS {k}", "TYPE {k}", "XLEN {k}", "XRANGE {k} - +"),
    ("XADD {k} * a 1", "UNLINK {k} {k} none", "EXISTS {k}"),
    ("XGROUP CREATE {k} g 0 MKSTREAM", "EXISTS {k}", "DEL {k}", "XINFO GROUPS {k}"),
    ("XADD {k} * a 1", "TTL {k}", "PTTL {k}", "PERSIST {k}", "TTL none", "PTTL none"),
    ("XADD {k} * a 1", "EXPIRE {k} 3600", "TTL {k}", "PERSIST {k}", "TTL {k}"),
    ("EXPIRE none 5", "PEXPIRE none 5", "PERSIST none"),
    ("XADD {k} * a 1", "EXPIRE {k} x", "EXPIRE {k}"),
    ("DEL", "EXISTS", "TYPE", "TYPE a b", "TIME x"),
    ("XADD {k} * a 1", "MULTI", "DEL {k}", "EXISTS {k}", "EXEC"),
]


@pytest.mark.parametrize("commands", SAME, ids=" / ".join)
def test_the_answer_is_that_of_redis(commands, ask_redis, ask_penstock, request):
    named = [command.format(k=f"key#{SAME.index(commands)}") for command in commands]
    theirs, ours = ask_redis(*named), ask_penstock(*named)
    assert _without_ids(ours) == _without_ids(theirs)


def _without_ids(answer: bytes) -> list[bytes]:
    lines = answer.split(b"\r\n")
    return [
        line
        for line, following in zip(lines, [*lines[1:], b""], strict=True)
        if not (line[:1].isdigit() and b"-" in line) and not following[:1].isdigit()
    ]


@pytest.fixture
def broker():
    with Broker(signing={"required": ["secure/*"]}) as broker:
        yield broker


@pytest.fixture
def client(broker):
    with redis.Redis(port=broker.port) as client:
        yield client


def test_a_deleted_stream_begins_anew(client):
    client.xadd("s", {"n": 1})
    client.xgroup_create("s", "g", "0")
    assert client.delete("s") == 1
    assert client.xadd("s", {"n": 2}).endswith(b"-0")
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        client.xreadgroup("g", "c", {"s": ">"})


def test_an_expiry_is_the_age_limit_of_the_topic(broker, client):
    client.xadd("s", {"n": 1})
    assert client.pexpire("s", 1_500) == 1
    assert broker.server.parts.broker.topics.get(b"s").max_age_ms == 1_500
    assert (client.ttl("s"), client.pttl("s")) == (2, 1_500)
    broker.restart()
    assert client.pttl("s") == 1_500
    for seconds in (0, -1):
        with pytest.raises(redis.ResponseError, match="invalid expire time"):
            client.expire("s", seconds)
    with pytest.raises(redis.ResponseError, match="not supported"):
        client.expire("s", 5, nx=True)


def test_signed_topics_and_those_of_the_broker_are_not_removed(client):
    client.xgroup_create("secure/a", "g", "0", mkstream=True)
    client.xadd("free", {"n": 1})
    for command in (["DEL", "free", "secure/a"], ["EXPIRE", "secure/a", "1"]):
        with pytest.raises(redis.ResponseError, match="secure/a"):
            client.execute_command(*command)
    assert client.exists("free", "secure/a") == 2


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHDB"])
def test_flushing_is_refused_unless_the_configuration_allows_it(client, command):
    client.xadd("s", {"n": 1})
    with pytest.raises(redis.ResponseError, match=r"resp\.allow_flush"):
        client.execute_command(command)
    assert client.xlen("s") == 1


def test_flushing_deletes_all_topics_but_signed_ones():
    config = {"signing": {"required": ["secure/*"]}, "resp": {"allow_flush": True}}
    with Broker(**config) as broker, redis.Redis(port=broker.port) as client:
        for number in range(100):
            client.publish(f"c{number}", "x")
        client.xadd("s", {"n": 1})
        client.xgroup_create("secure/a", "g", "0", mkstream=True)
        assert client.flushall() is True
        assert client.exists("s", "c0", "c99", "secure/a") == 1
        with pytest.raises(redis.ResponseError, match="syntax"):
            client.execute_command("FLUSHALL", "LATER")


def test_the_time_is_the_brokers(broker, client):
    assert client.time() == (broker.clock.wall_ms() // 1_000, 0)
