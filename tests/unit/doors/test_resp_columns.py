"""Commands that came in one read have the same outcome as one by one, whatever their arguments."""

import random

import pytest
import pytest_asyncio
from tests.benches.resp_bench import Client, command, settle
from tests.conformance_resp.wire import array, ask

from penstock.obs.reasons import DropReason
from penstock.testing import AsyncBroker, Broker

PLAIN = [b"a/1", b"a/2", b"b", b"a%23", b"odd#1", b"odd+", b"\xff\xfe", b"long" * 200]
SECRET = "a secret of sixteen letters"
SPECIAL = [b"$SYS/x", b"secure/a", b"", b"$local/x"]


@pytest_asyncio.fixture
async def broker():
    async with AsyncBroker(sys={"interval_s": 0}) as own:
        yield own


def publishes(channels, count, seed, name=b"PUBLISH"):
    chance = random.Random(seed)
    sizes = [0, 1, 30, 400, 3_000]
    return [
        [name, chance.choice(channels), b"%d " % number + chance.randbytes(chance.choice(sizes))]
        for number in range(count)
    ]


def by_subscription(listener):
    """What a client was sent, for each kind of subscription and pattern in order."""
    found = {}
    for reply in listener.replies:
        if isinstance(reply, list) and reply[0].endswith(b"message"):
            *form, channel, payload = reply
            found.setdefault(tuple(form), []).append((channel, payload))
    return found


async def outcome(broker, commands, *, together):
    """What the publisher, and each kind of subscriber, was sent, and what was journaled."""
    listeners = [Client(broker) for _ in range(4)]
    listeners[0].send_all(b"SUBSCRIBE a/1 b a%23 odd#1 odd+ $local/x", b"SSUBSCRIBE a/2")
    listeners[0].send(b"SUBSCRIBE", b"\xff\xfe")
    listeners[1].send_all(b"HELLO 3", b"SUBSCRIBE #", b"PSUBSCRIBE o* $local/?")
    listeners[2].send_all(b"PSUBSCRIBE *", b"PSUBSCRIBE a/[12]")
    listeners[3].send_all(b"SUBSCRIBE b", b"PSUBSCRIBE b*")
    await settle(broker, *listeners)
    parts = broker.server.parts
    start, drops = parts.store.next_sequence, sum(broker.server.counters.drops.values())
    client = Client(broker)
    stream = [command(*arguments) for arguments in commands]
    for piece in [b"".join(stream)] if together else stream:
        client.connection.data_received(piece)
    await settle(broker, client, *listeners)
    received = [by_subscription(listener) for listener in listeners]
    journal = parts.store.read(range(start, parts.store.next_sequence))
    for one in (client, *listeners):
        one.transport.close()
    await settle(broker)
    lost = sum(broker.server.counters.drops.values()) - drops
    return client.replies, received, [(one.topic, one.payload) for one in journal], lost


@pytest.mark.asyncio
@pytest.mark.parametrize("channels", [PLAIN, PLAIN[:1], PLAIN + SPECIAL, SPECIAL], ids=len)
@pytest.mark.parametrize("name", [b"PUBLISH", b"publish", b"Publish", b"SPUBLISH"])
async def test_publishes_to_any_channels_together_are_as_one_by_one(broker, channels, name):
    commands = publishes(channels, 300, seed=len(channels), name=name)
    alone = await outcome(broker, commands, together=False)
    assert await outcome(broker, commands, together=True) == alone


@pytest.mark.asyncio
@pytest.mark.parametrize("second", [b"SUBSCRIBE y", b"PSUBSCRIBE y*"])
async def test_a_client_gets_messages_of_several_channels_in_the_order_of_their_publisher(
    broker, second
):
    """Also if others, who get some of them, are served together."""
    listener, other, third = Client(broker), Client(broker), Client(broker)
    listener.send_all(b"SUBSCRIBE x", second)
    other.send_all(b"SUBSCRIBE z")
    third.send_all(b"SUBSCRIBE w v")
    commands = publishes([b"v", b"w", b"x", b"y", b"z"], 200, seed=9)
    client = Client(broker)
    client.connection.data_received(b"".join(command(*each) for each in commands))
    await settle(broker, client, listener, other, third)
    sent = [(channel, payload) for _, channel, payload in commands]
    for one, channels in ((listener, b"xy"), (other, b"z"), (third, b"vw")):
        found = [tuple(reply[-2:]) for reply in one.replies if reply[0].endswith(b"message")]
        assert found == [each for each in sent if each[0] in channels]


@pytest.mark.parametrize("times", [1, 100])
def test_a_channel_that_a_user_may_not_publish_to_is_refused_among_others(times):
    channels = [channel for _, channel, _ in publishes(PLAIN, 200, seed=3) for _ in range(times)]
    denied = [channel for channel in channels if not channel.startswith(b"a/")]
    with Broker() as broker:
        broker.add_user("ann", SECRET, rules=["allow publish a/#"])
        commands = [array(b"PUBLISH", channel, b"x") for channel in channels]
        login = array(b"AUTH", b"ann", SECRET.encode())
        _, *answers, _ = ask(broker.port, login, *commands).splitlines()
        assert broker.server.counters.drops[DropReason.NOT_AUTHORIZED] == len(denied)
    refused = [
        channel for channel, answer in zip(channels, answers, strict=True) if answer != b":0"
    ]
    assert refused == denied


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "first", [b"MULTI", b"CLIENT REPLY OFF", b"CLIENT REPLY SKIP", b"SUBSCRIBE x", b"XLEN none"]
)
async def test_what_changes_how_commands_run_changes_it_for_those_behind_it_in_a_read(
    broker, first
):
    commands = [first.split(), *publishes(PLAIN, 100, seed=5), [b"EXEC"], [b"PING"]]
    commands += publishes(PLAIN, 100, seed=6)
    alone = await outcome(broker, commands, together=False)
    at_once = await outcome(broker, commands, together=True)
    assert at_once == alone


@pytest.mark.asyncio
async def test_a_monitor_sees_every_command_in_order(broker):
    monitor, client = Client(broker), Client(broker)
    monitor.send(b"MONITOR")
    commands = publishes([b"a", b"b"], 50, seed=7)
    client.connection.data_received(b"".join(command(*each) for each in commands))
    await settle(broker, monitor, client)
    shown = [line.split(b" ")[4:6] for line in monitor.replies[1:]]
    assert [channel.strip(b'"') for channel, _ in shown] == [channel for _, channel, _ in commands]


@pytest.mark.asyncio
async def test_new_channels_beyond_the_turn_are_left_for_the_next(broker, monkeypatch):
    client = Client(broker)
    now = iter(range(10_000))
    monkeypatch.setattr(client.parts.connections, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(client.parts.resp_door, "monotonic", lambda: float(next(now)))
    commands = [[b"PUBLISH", b"new/%d" % number, b"x"] for number in range(200)]
    client.connection.data_received(b"".join(command(*each) for each in commands))
    assert client.connection._held
    await settle(broker, client)
    assert client.replies == [0] * 200
