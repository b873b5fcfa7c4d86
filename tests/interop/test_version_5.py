"""What MQTT 5 adds works with every library that speaks it."""

import asyncio

import pytest

from tests.interop.clients import Message, Properties, RefusedError, Subscription
from tests.interop.libraries import BOTH, LIBRARIES, present

pytestmark = pytest.mark.asyncio

QOS = (0, 1, 2)
PROPERTIES = Properties(
    user=(("plant", "north"), ("plant", "south"), ("größe", "3")),
    content_type="application/json",
    response_topic="answers/1",
    correlation=b"\x00\xff",
    payload_format=1,
    expiry_s=3600,
)


def skip_if_hidden(library, what):
    if what in library.client.hides:
        pytest.skip(f"{library.client.library} does not have it: {what}")


# ── messages ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("qos", QOS)
async def test_properties_arrive_as_they_were_sent(connect, library5, unique, qos):
    client = await connect(library5, "only")
    await client.subscribe(unique, qos)
    message = Message(unique, b'"x"', qos, properties=PROPERTIES)
    await client.publish_all([message])
    assert await client.next() == message


@pytest.mark.parametrize("qos", QOS)
async def test_properties_reach_every_library_of_5_and_none_of_3_1_1(
    connect, library5, unique, qos
):
    others = present(LIBRARIES)
    subscribers = [await connect(other, f"to-{other}") for other in others]
    for subscriber in subscribers:
        await subscriber.subscribe(unique, qos)
    publisher = await connect(library5, "publisher")
    await publisher.publish(unique, b'"x"', qos, properties=PROPERTIES)
    plain = Message(unique, b'"x"', qos)
    full = plain._replace(properties=PROPERTIES)
    expected = [full if other.version == 5 else plain for other in others]
    assert [await subscriber.next() for subscriber in subscribers] == expected


async def test_a_retained_message_keeps_its_properties(connect, library5, unique):
    publisher = await connect(library5, "publisher")
    message = Message(unique, b'"x"', 1, True, PROPERTIES)
    await publisher.publish_all([message])
    subscriber = await connect(library5, "subscriber")
    await subscriber.subscribe(unique, 1)
    assert await subscriber.next() == message


async def test_what_a_session_missed_comes_with_its_properties(connect, library5, unique):
    away = await connect(library5, "away", clean=False)
    await away.subscribe(unique, 1)
    await connect.leave(away)
    publisher = await connect(library5, "publisher")
    message = Message(unique, b'"x"', 1, properties=PROPERTIES)
    await publisher.publish_all([message])
    back = await connect(library5, "away", clean=False)
    assert await back.next() == message


async def test_a_request_is_answered_where_it_asks(connect, library5, unique):
    asker, worker = await connect(library5, "asker"), await connect(library5, "worker")
    await worker.subscribe(f"{unique}/requests", 1)
    await asker.subscribe(f"{unique}/answers", 1)
    asked = Properties(response_topic=f"{unique}/answers", correlation=b"\x01\x00")
    await asker.publish(f"{unique}/requests", b"6 * 7", 1, properties=asked)
    request = (await worker.next()).properties
    answer = Properties(correlation=request.correlation)
    await worker.publish(request.response_topic, b"42", 1, properties=answer)
    assert await asker.next() == Message(f"{unique}/answers", b"42", 1, properties=answer)


async def test_topic_aliases_of_a_publisher_are_resolved(connect, library5, unique):
    skip_if_hidden(library5, "alias out")
    client = await connect(library5, "only")
    await client.subscribe(f"{unique}/#", 1)
    aliased = Properties(alias=3)
    await client.publish(f"{unique}/t", b"named", 1, properties=aliased)
    await client.publish("", b"aliased", 1, properties=aliased)
    await client.publish(f"{unique}/other", b"renamed", 1, properties=aliased)
    await client.publish("", b"again", 0, properties=aliased)
    arrived = [(await client.next())[:2] for _ in range(4)]
    topics = [f"{unique}/t"] * 2 + [f"{unique}/other"] * 2
    assert arrived == [*zip(topics, [b"named", b"aliased", b"renamed", b"again"], strict=True)]


async def test_a_subscriber_that_takes_aliases_learns_each_topic(connect, library5, unique):
    skip_if_hidden(library5, "alias in")
    subscriber = await connect(library5, "subscriber", alias_maximum=2)
    await subscriber.subscribe(f"{unique}/#", 1)
    publisher = await connect(library5, "publisher")
    sent = [Message(f"{unique}/{n % 3}", b"%d" % n, n % 2) for n in range(12)]
    await publisher.publish_all(sent)
    arrived = [await subscriber.next() for _ in sent]
    assert sorted(arrived) == sorted(sent)


# ── sessions ──────────────────────────────────────────────────────────────────────────────────


async def test_a_clean_start_may_begin_a_session_that_lasts(connect, library5, unique):
    away = await connect(library5, "away", clean=True, expiry_s=600)
    assert not away.session_present
    await away.subscribe(unique, 1)
    await connect.leave(away)
    publisher = await connect(library5, "publisher")
    await publisher.publish(unique, b"missed", 1)
    back = await connect(library5, "away", clean=False)
    assert back.session_present or "session present" in library5.client.hides
    assert (await back.next()).payload == b"missed"


async def test_a_session_without_expiry_ends_with_its_connection(connect, library5, unique):
    skip_if_hidden(library5, "session present")
    await connect.leave(await connect(library5, "away", clean=False, expiry_s=0))
    assert not (await connect(library5, "away", clean=False, expiry_s=0)).session_present


async def test_a_session_goes_on_with_the_other_version(connect, library5, unique):
    """Properties that came while the client spoke 3.1.1 are there when it speaks 5 again."""
    old = library5._replace(version=4)
    if old not in BOTH:
        pytest.skip(f"{library5.client.library} speaks only MQTT 5")
    away = await connect(old, "away", clean=False)
    await away.subscribe(unique, 1)
    await connect.leave(away)
    publisher = await connect(library5, "publisher")
    await publisher.publish(unique, b'"x"', 1, properties=PROPERTIES)
    back = await connect(library5, "away", clean=False)
    assert await back.next() == Message(unique, b'"x"', 1, properties=PROPERTIES)
    await connect.leave(back)
    await publisher.publish(unique, b'"x"', 1, properties=PROPERTIES)
    assert await (await connect(old, "away", clean=False)).next() == Message(unique, b'"x"', 1)


async def test_a_will_has_properties_and_comes_when_its_delay_is_over(
    broker, connect, library5, unique
):
    watcher = await connect(library5, "watcher")
    await watcher.subscribe(f"{unique}/#", 1)
    will = Message(f"{unique}/will", b'"x"', 1, properties=PROPERTIES)
    mortal = await connect(library5, "mortal", clean=False, will=will, will_delay_s=30)
    await connect.vanish(mortal)
    await watcher.publish(f"{unique}/meanwhile", b"", 1)
    assert (await watcher.next()).topic == f"{unique}/meanwhile"
    await asyncio.to_thread(broker.clock.advance, 31)
    if "properties of a will" in library5.client.hides:  # it sends the user's own alone
        will = will._replace(properties=Properties(user=PROPERTIES.user))
    assert await watcher.next() == will


async def test_who_comes_back_in_time_leaves_no_will(broker, connect, library5, unique):
    watcher = await connect(library5, "watcher")
    await watcher.subscribe(unique, 1)
    will = {"clean": False, "will": Message(unique, b"gone", 1), "will_delay_s": 30}
    await connect.vanish(await connect(library5, "mortal", **will))
    back = await connect(library5, "mortal", **will)
    await asyncio.to_thread(broker.clock.advance, 31)
    await back.publish(unique, b"still here", 1)
    assert (await watcher.next()).payload == b"still here"


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_small_receive_maximum_delays_but_loses_nothing(connect, library5, unique, qos):
    skip_if_hidden(library5, "receive maximum")
    subscriber = await connect(library5, "subscriber", receive_maximum=2)
    await subscriber.subscribe(unique, qos)
    publisher = await connect(library5, "publisher")
    sent = [Message(unique, b"%d" % number, qos) for number in range(100)]
    await publisher.publish_all(sent)
    assert [await subscriber.next() for _ in sent] == sent


# ── subscriptions ─────────────────────────────────────────────────────────────────────────────


async def test_the_options_of_a_subscription_hold(connect, library5, unique):
    """No local, retain as published, retain handling 2, and an identifier."""
    other = await connect(library5, "other")
    await other.publish(f"{unique}/t", b"retained before", 1, retain=True)
    client = await connect(library5, "only")
    await client.subscribe_to(Subscription(f"{unique}/#", 1, True, True, 2, 7))
    await client.publish(f"{unique}/t", b"my own", 1)
    await other.publish(f"{unique}/t", b"retained now", 1, retain=True)
    seen = await client.next()
    assert (seen.payload, seen.retain) == (b"retained now", True)
    if "identifiers" not in library5.client.hides:
        assert seen.properties.identifiers == (7,)


async def test_overlapping_subscriptions_are_all_named(connect, library5, unique):
    skip_if_hidden(library5, "identifiers")
    skip_if_hidden(library5, "overlap")
    client = await connect(library5, "only")
    await client.subscribe_to(Subscription(f"{unique}/#", 1, identifier=1))
    await client.subscribe_to(Subscription(f"{unique}/+", 2, identifier=268_435_455))
    await client.publish(f"{unique}/t", b"x", 2)
    message = await client.next()
    assert sorted(message.properties.identifiers) == [1, 268_435_455]
    assert message.qos == 2


@pytest.mark.parametrize("qos", QOS)
async def test_a_retained_message_names_the_subscription_that_asked(connect, library5, unique, qos):
    skip_if_hidden(library5, "identifiers")
    client = await connect(library5, "only")
    await client.publish(unique, b"x", 1, retain=True)
    await client.subscribe_to(Subscription(unique, qos, identifier=7))
    message = await client.next()
    assert message.properties.identifiers == (7,)
    assert (message.qos, message.retain) == (min(qos, 1), True)


async def test_a_shared_subscription_deals_each_message_once(connect, library5, unique):
    members = [await connect(library5, f"member-{number}") for number in range(2)]
    for member in members:
        assert await member.subscribe(f"$share/group/{unique}/+", 2) == 1
    publisher = await connect(library5, "publisher")
    sent = [Message(f"{unique}/t", b"%d" % n, 1, properties=PROPERTIES) for n in range(40)]
    await publisher.publish_all(sent)

    async def collect(member, into, done):
        while True:
            into.append(await member.next())
            if len(into) == len(sent):
                done.set()

    dealt, done = [], asyncio.Event()
    readers = [asyncio.create_task(collect(member, dealt, done)) for member in members]
    await asyncio.wait_for(done.wait(), 15)
    for reader in readers:
        reader.cancel()
    assert sorted(dealt) == sorted(sent)


# ── refusals ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_refused_publish_says_why_and_the_connection_stays(connect, library5, unique, qos):
    skip_if_hidden(library5, "refused publish")
    client = await connect(library5, "only")
    with pytest.raises(RefusedError) as refused:
        await client.publish("$SYS/broker/mine", b"x", qos)
    hidden = library5.client.hides
    if qos == 2 and "refused PUBREC" in hidden:
        assert refused.value.code == 0x92
    else:
        assert refused.value.code == 0x87
        assert refused.value.reason or hidden & {"reason string", "reason of a publish"}
    if qos == 2 and "connection after a refused PUBREC" in hidden:
        pytest.skip(f"{library5.client.library} ends its connection then")
    await client.subscribe(unique, qos)
    await client.publish(unique, b"still here", qos)
    assert (await client.next()).payload == b"still here"


async def test_a_library_that_hides_a_refusal_is_not_stuck_by_it(connect, library5, unique):
    if "refused publish" not in library5.client.hides:
        pytest.skip("it raises: see the test above")
    client = await connect(library5, "only")
    for qos in (1, 2):
        await client.publish("$SYS/broker/mine", b"x", qos)
    await client.subscribe(unique, 1)
    await client.publish(unique, b"still here", 1)
    assert (await client.next()).payload == b"still here"


async def test_a_refused_filter_has_its_code(connect, library5, unique):
    client = await connect(library5, "only")
    with pytest.raises(RefusedError) as refused:
        await client.subscribe("/" * 300, 1)  # 200 levels are allowed
    assert refused.value.code == 0x8F
    assert await client.subscribe(unique, 1) == 1


async def test_who_is_taken_over_is_told(connect, library5, unique):
    skip_if_hidden(library5, "dismissal")
    first = await connect(library5, "only")
    await connect(library5, "only")
    told = await first.dismissal()
    assert told.code == 0x8E
    assert told.reason or "reason string" in library5.client.hides


async def test_a_refused_connect_has_its_code(connect, library5, unique):
    with pytest.raises(RefusedError) as refused:
        await connect(library5, "x" * 300)  # 256 bytes are allowed
    assert refused.value.code == 0x85
