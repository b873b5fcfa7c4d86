"""Every client library works with the broker."""

import itertools

import pytest

from tests.interop.clients import Message
from tests.interop.libraries import LIBRARIES, present

pytestmark = pytest.mark.asyncio

QOS = (0, 1, 2)


@pytest.mark.parametrize("qos", QOS)
async def test_a_message_comes_back_at_every_qos(connect, library, unique, qos):
    client = await connect(library, "only")
    await client.subscribe(f"{unique}/t", qos)
    await client.publish(f"{unique}/t", b"there and back", qos)
    assert await client.next() == Message(f"{unique}/t", b"there and back", qos)


@pytest.mark.parametrize(("published", "granted"), [*itertools.product(QOS, QOS)])
async def test_a_delivery_has_the_lower_of_both_qos(connect, library, unique, published, granted):
    client = await connect(library, "only")
    await client.subscribe(unique, granted)
    await client.publish(unique, b"x", published)
    assert (await client.next()).qos == min(published, granted)


async def test_a_retained_message_greets_who_comes_later(connect, library, unique):
    publisher = await connect(library, "publisher")
    await publisher.publish(unique, b"old", 1, retain=True)
    await publisher.publish(unique, b"current", 1, retain=True)
    subscriber = await connect(library, "subscriber")
    await subscriber.subscribe(unique, 1)
    assert await subscriber.next() == Message(unique, b"current", 1, retain=True)


async def test_an_empty_retained_message_removes_it(connect, library, unique):
    client = await connect(library, "only")
    await client.publish(unique, b"current", 1, retain=True)
    await client.publish(unique, b"", 1, retain=True)
    await client.subscribe(unique, 1)
    await client.publish(unique, b"live", 1)
    assert await client.next() == Message(unique, b"live", 1)


async def test_a_client_that_vanishes_leaves_its_will(connect, library, unique):
    watcher = await connect(library, "watcher")
    await watcher.subscribe(unique, 1)
    mortal = await connect(library, "mortal", will=Message(unique, b"it is gone", 1))
    await connect.vanish(mortal)
    assert await watcher.next() == Message(unique, b"it is gone", 1)


async def test_a_client_that_says_goodbye_leaves_no_will(connect, library, unique):
    watcher = await connect(library, "watcher")
    await watcher.subscribe(unique, 1)
    polite = await connect(library, "polite", will=Message(unique, b"it is gone", 1))
    await connect.leave(polite)
    again = await connect(library, "polite")  # processed after the effects of the disconnect
    await again.publish(unique, b"still here", 1)
    assert await watcher.next() == Message(unique, b"still here", 1)


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_persistent_session_gets_what_it_missed_in_order(connect, library, unique, qos):
    away = await connect(library, "away", clean=False)
    await away.subscribe(unique, qos)
    await connect.leave(away)
    publisher = await connect(library, "publisher")
    missed = [Message(unique, b"%d" % number, qos) for number in range(50)]
    await publisher.publish_all(missed)
    back = await connect(library, "away", clean=False)
    assert [await back.next() for _ in missed] == missed


async def test_a_clean_session_ends_a_persistent_one(connect, library, unique):
    away = await connect(library, "away", clean=False)
    await away.subscribe(unique, 1)
    await connect.leave(away)
    await connect.leave(await connect(library, "away", clean=True))
    publisher = await connect(library, "publisher")
    await publisher.publish(unique, b"for nobody", 1)
    back = await connect(library, "away", clean=False)
    await back.subscribe(unique, 1)
    await publisher.publish(unique, b"for the new one", 1)
    assert (await back.next()).payload == b"for the new one"


async def test_wildcards_match_as_the_standard_says(connect, library, unique):
    client = await connect(library, "only")
    await client.subscribe(f"{unique}/+/temperature", 1)
    await client.subscribe(f"{unique}/all/#", 1)
    matching = ["kitchen/temperature", "all", "all/a", "all/a/b/c", "/temperature"]
    others = ["kitchen", "kitchen/humidity", "kitchen/sink/temperature", "allmost"]
    for name in others + matching:
        await client.publish(f"{unique}/{name}", b"x", 1)
    arrived = [(await client.next()).topic for _ in matching]
    assert arrived == [f"{unique}/{name}" for name in matching]


async def test_unsubscribe_ends_the_flow(connect, library, unique):
    client = await connect(library, "only")
    await client.subscribe(f"{unique}/a", 1)
    await client.subscribe(f"{unique}/b", 1)
    await client.unsubscribe(f"{unique}/a")
    await client.publish(f"{unique}/a", b"unwanted", 1)
    await client.publish(f"{unique}/b", b"wanted", 1)
    assert (await client.next()).payload == b"wanted"


@pytest.mark.parametrize("qos", QOS)
async def test_a_payload_of_200_kib_arrives_whole(connect, library, unique, qos):
    payload = bytes(range(256)) * 800
    client = await connect(library, "only")
    await client.subscribe(unique, qos)
    await client.publish(unique, payload, qos)
    assert await client.next() == Message(unique, payload, qos)


async def test_a_burst_is_acknowledged_and_delivered_in_order(connect, library, unique):
    """2,000 messages of QoS 1 without a pause; 500 in MQTT 5, where 1,024 may be in flight."""
    subscriber = await connect(library, "subscriber")
    await subscriber.subscribe(unique, 1)
    publisher = await connect(library, "publisher")
    burst = [
        Message(unique, b"%d" % number, 1) for number in range({4: 2_000, 5: 500}[library.version])
    ]
    await publisher.publish_all(burst)
    acknowledged, sent = publisher.acknowledged, [message.payload for message in burst]
    if "order of acknowledgements" in library.client.hides:
        acknowledged, sent = sorted(acknowledged), sorted(sent)
    assert acknowledged == sent
    assert [await subscriber.next() for _ in burst] == burst


@pytest.mark.parametrize("qos", QOS)
async def test_what_one_library_publishes_the_others_receive(connect, library, unique, qos):
    """3.1.1 and 5 in one conversation."""
    others = present(LIBRARIES)
    subscribers = [await connect(other, f"to-{other}") for other in others]
    for subscriber in subscribers:
        await subscriber.subscribe(f"{unique}/#", qos)
    publisher = await connect(library, "publisher")
    message = Message(f"{unique}/größe", b"\x00\xff", qos)
    await publisher.publish_all([message])
    assert [await subscriber.next() for subscriber in subscribers] == [message] * len(others)
