"""redis-py, with and without hiredis, blocking and not, both versions of the protocol."""

import asyncio
from contextlib import closing

import pytest
import redis
import redis.asyncio
from redis._parsers import _RESP2Parser, _RESP3Parser
from redis.backoff import NoBackoff
from redis.retry import Retry

from penstock.client import connect
from penstock.testing import Broker

TIMEOUT_S = 10


@pytest.fixture(params=[2, 3])
def protocol(request):
    return request.param


@pytest.fixture(params=["hiredis", "python"])
def client(broker, protocol, request):
    """A client; the pure Python parser is used where hiredis is not installed."""
    connection = redis.Redis(port=broker.port, protocol=protocol, client_name="py")
    if request.param == "python":
        parser = _RESP3Parser if protocol == 3 else _RESP2Parser
        connection.connection_pool.connection_kwargs["parser_class"] = parser
    with closing(connection):
        yield connection


def listen(pubsub, count):
    """The next messages, of any kind."""
    found = []
    while len(found) < count:
        message = pubsub.get_message(timeout=TIMEOUT_S)
        assert message is not None, f"only {found}"
        found.append((message["type"], message["channel"], message["data"]))
    return found


def test_the_client_is_greeted_and_known_by_name(client):
    assert client.ping() is True
    assert client.echo("x") == b"x"
    assert client.client_getname() in {"py", b"py"}
    me = next(one for one in client.client_list() if one["id"] == str(client.client_id()))
    assert me["lib-name"].startswith("redis-py")
    assert client.info()["redis_version"]
    assert client.command_count() == len(client.command())


def test_channels_and_patterns(client, unique):
    with closing(client.pubsub()) as pubsub:
        pubsub.subscribe(unique)
        pubsub.psubscribe(f"{unique[:-1]}?")
        assert [kind for kind, *_ in listen(pubsub, 2)] == ["subscribe", "psubscribe"]
        assert client.publish(unique, b"\x00\xff") == 2
        assert listen(pubsub, 2) == [
            ("message", unique.encode(), b"\x00\xff"),
            ("pmessage", unique.encode(), b"\x00\xff"),
        ]
        assert client.pubsub_channels(f"{unique}*") == [unique.encode()]
        assert client.pubsub_numsub(unique) == [(unique.encode(), 1)]
        pubsub.unsubscribe()
        pubsub.punsubscribe()
        assert [kind for kind, *_ in listen(pubsub, 2)] == ["unsubscribe", "punsubscribe"]
    assert client.publish(unique, "x") == 0


def test_a_pipeline_of_publishes_is_answered_one_by_one(client, unique):
    pipeline = client.pipeline(transaction=False)
    for number in range(200):
        pipeline.publish(f"{unique}/{number % 3}", str(number))
    pipeline.ping()
    assert pipeline.execute() == [0] * 200 + [True]


def test_subscribing_replays_the_journal_first_if_the_broker_is_told_to(protocol):
    with (
        Broker(resp={"replay": True}) as broker,
        closing(redis.Redis(port=broker.port, protocol=protocol)) as client,
        closing(client.pubsub()) as pubsub,
    ):
        for number in range(300):
            client.publish("t", number)
        pubsub.subscribe("t")
        messages = listen(pubsub, 301)
    assert messages[0] == ("subscribe", b"t", 1)
    assert [data for _, _, data in messages[1:]] == [b"%d" % number for number in range(300)]


def test_the_journal_is_replayed_after_a_restart(tmp_path):
    with Broker(data=tmp_path, resp={"replay": True}) as broker:
        with closing(redis.Redis(port=broker.port)) as client:
            client.publish("a", "before")
        broker.restart()
        with closing(redis.Redis(port=broker.port)) as client, closing(client.pubsub()) as pubsub:
            pubsub.subscribe("a")
            client.publish("a", "after")
            assert [data for _, _, data in listen(pubsub, 3)] == [1, b"before", b"after"]


def test_a_health_check_while_listening_is_answered(broker, unique):
    client = redis.Redis(port=broker.port, health_check_interval=1)
    with closing(client), closing(client.pubsub()) as pubsub:
        pubsub.subscribe(unique)
        listen(pubsub, 1)
        pubsub.ping()
        assert pubsub.get_message(timeout=TIMEOUT_S)["type"] == "pong"


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_password_is_asked_for(protocol):
    secret = "correct-horse-battery"
    with Broker(resp={"password": secret}) as broker:
        for word in (None, "wrong"):
            once = Retry(NoBackoff(), 0)  # by itself it tries again, until it is told to wait
            client = redis.Redis(port=broker.port, protocol=protocol, password=word, retry=once)
            with closing(client), pytest.raises(redis.AuthenticationError):
                client.ping()
        with closing(redis.Redis(port=broker.port, protocol=protocol, password=secret)) as client:
            assert client.ping()


@pytest.mark.asyncio
async def test_the_asynchronous_client(broker, unique, protocol):
    async with redis.asyncio.Redis(port=broker.port, protocol=protocol) as client:
        async with client.pubsub() as pubsub:
            await pubsub.subscribe(unique)
            assert await client.publish(unique, "x") == 1
            async with asyncio.timeout(TIMEOUT_S):
                seen = [message async for message in _first(pubsub, 2)]
        assert [message["data"] for message in seen] == [1, b"x"]


async def _first(pubsub, count):
    async for message in pubsub.listen():
        yield message
        count -= 1
        if not count:
            return


# ── across protocols ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_mqtt_publishes_reaches_channels_filters_and_patterns(broker, client, unique, qos):
    topic = f"{unique}/t"
    with closing(client.pubsub()) as pubsub, connect(broker.host, broker.port) as mqtt:
        pubsub.subscribe(topic, f"{unique}/#")
        pubsub.psubscribe(f"{unique}*")
        listen(pubsub, 3)
        mqtt.publish(topic, b"from mqtt", qos=qos)
        assert sorted(listen(pubsub, 3)) == [
            ("message", topic.encode(), b"from mqtt"),
            ("message", topic.encode(), b"from mqtt"),
            ("pmessage", topic.encode(), b"from mqtt"),
        ]


@pytest.mark.parametrize("qos", [0, 1])
def test_what_redis_publishes_reaches_mqtt(broker, client, unique, qos):
    with connect(broker.host, broker.port) as mqtt:
        mqtt.subscribe([(f"{unique}/+", qos)])
        assert client.publish(f"{unique}/t", b"from redis") == 1
        delivery = next(mqtt.messages(TIMEOUT_S))
    assert (delivery.topic, delivery.payload, delivery.qos) == (f"{unique}/t", b"from redis", 0)


def test_order_holds_within_a_topic_whoever_listens(broker, client, unique):
    """Runs of one topic, mixed with another's, arrive as they were sent."""
    with closing(client.pubsub()) as pubsub, connect(broker.host, broker.port) as mqtt:
        pubsub.subscribe(f"{unique}/a")
        listen(pubsub, 1)
        mqtt.subscribe([(f"{unique}/a", 0)])
        pipeline = client.pipeline(transaction=False)
        for number in range(500):
            pipeline.publish(f"{unique}/{'ab'[number % 7 == 0]}", str(number))
        receivers = pipeline.execute()
        sent = [b"%d" % number for number in range(500) if number % 7]
        assert sum(receivers) == 2 * len(sent)
        assert [data for _, _, data in listen(pubsub, len(sent))] == sent
        assert [next(mqtt.messages(TIMEOUT_S)).payload for _ in sent] == sent
