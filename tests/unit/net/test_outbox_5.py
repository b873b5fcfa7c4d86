"""What leaves for clients of MQTT 5: properties, expiry, sizes, quota and aliases."""

import pytest
from tests.outbox_bench import BOUND, Bench

from penstock.core.delivery import (
    DELIVER_CONTENT_TYPE_SHIFT,
    DELIVER_DUP,
    DELIVER_ID_SHIFT,
    DELIVER_PUBLISHED_RETAIN,
    DELIVER_PUBREL,
    DELIVER_RETAIN,
)
from penstock.core.live import Live, SpecialLive
from penstock.core.subscription_options import (
    OPTION_RETAIN_AS_PUBLISHED,
    Marks,
)
from penstock.doors.mqtt.live_packets import PACKET_OVERHEAD_BYTES
from penstock.doors.mqtt.terms import Terms
from penstock.model.message import FLAG_RETAIN_UNKEPT, Extras, Message
from penstock.obs.reasons import DropReason
from penstock.wire.mqtt import MqttClientMachine, encode
from penstock.wire.mqtt.events import MqttAcks, Publish
from penstock.wire.mqtt.message_properties import of_properties
from penstock.wire.mqtt.properties import NONE, Carrier, Properties, block_of, properties_in

ID_7 = Marks.of([7 << 8 | 1])
AS_PUBLISHED = Marks.of([OPTION_RETAIN_AS_PUBLISHED | 1])
SOME = Extras(headers=((b"a", b"1"), (b"mqtt-content-type", b"text/plain")))
SOME_PROPERTIES = Properties(user_properties=((b"a", b"1"),), content_type=b"text/plain")


class Bench5(Bench):
    """An outbox of MQTT 5, and a client that reads what was written."""

    def __init__(self, **terms: int) -> None:
        super().__init__()
        defaults = {"version": 5, "clean_start": True, "expiry_s": 0, "keep_alive_s": 0}
        self.outbox.speak_5(Terms(**(defaults | terms)))
        self.reader = MqttClientMachine(version=5)
        self.reader.receive(encode.connack(False, 0, NONE))
        self.reader.alias_max = terms.get("alias_max", 0)

    def seen(self) -> list:
        """Packets that the client has read since the last call."""
        self.loop.run()
        written, self.writes[:] = b"".join(self.writes), []
        events = self.reader.receive(written)
        assert not self.reader.closed, events
        return events

    def properties(self) -> list[Properties]:
        return [properties_of(event) for event in self.seen()]


def properties_of(event: Publish) -> Properties:
    if event.properties is None:
        return NONE
    block = event.properties.block
    found = properties_in(block, Carrier.PUBLISH) if block else NONE
    ids = event.properties.subscription_ids
    return Properties(
        **{name: getattr(found, name) for name in found.__struct_fields__}
        | {"subscription_ids": ids}
    )


@pytest.fixture
def bench() -> Bench5:
    return Bench5()


# ── properties ────────────────────────────────────────────────────────────────────────────────


def test_a_message_without_properties_has_an_empty_block(bench):
    bench.outbox.deliver([(b"t", b"x", 1, 3, 7, None), (b"t", b"y", 0, 0, 8, None)])
    bench.loop.run()
    assert bench.written == bytes.fromhex(
        "3207 0001 74 0003 00 78".replace(" ", "")
    ) + bytes.fromhex("3005 0001 74 00 79".replace(" ", ""))


def test_headers_of_the_journal_leave_as_properties_whatever_the_qos(bench):
    bench.outbox.deliver(
        [(b"t", b"x", qos, qos and 3 + qos, 7 + qos, SOME) for qos in (0, 1, 2)]
        + [(b"r", b"x", DELIVER_RETAIN, 0, 20, SOME)]
    )
    assert bench.properties() == [SOME_PROPERTIES] * 4


def test_the_content_type_of_the_journals_flags_is_told(bench):
    flags = 1 | 2 << DELIVER_CONTENT_TYPE_SHIFT
    bench.outbox.deliver([(b"t", b"{}", flags, 1, 7, None)])
    assert bench.properties() == [Properties(content_type=b"application/json")]


def test_messages_that_waited_have_all_that_the_journal_has(bench):
    extras = Extras(SOME.headers, expires_ms=bench.now_ms + 5_500)
    flags = 1 | FLAG_RETAIN_UNKEPT | 3 << 8
    bench.messages[10] = Message(b"t", b"x", 10, 0, bench.now_ms - 1_000, flags, extras)
    bench.subscriptions[b"t"] = Marks.of([9 << 8 | OPTION_RETAIN_AS_PUBLISHED | 1])
    bench.outbox.deliver([(b"", None, 1, 4, 10, None)])
    bench.answer_reads()
    (event,) = bench.seen()
    assert event.retain
    assert properties_of(event) == Properties(
        user_properties=((b"a", b"1"),),
        content_type=b"text/plain",
        message_expiry=6,
        subscription_ids=(9,),
    )


def test_a_repeated_delivery_is_marked_and_keeps_its_id_and_properties(bench):
    bench.messages[10] = Message(b"t", b"x", 10, 0, 0, 1, SOME)
    bench.outbox.deliver([(b"", None, 1 | DELIVER_DUP, 4, 10, None)])
    bench.answer_reads()
    (event,) = bench.seen()
    assert (event.dup, event.packet_id, properties_of(event)) == (True, 4, SOME_PROPERTIES)


def test_what_follows_from_subscriptions_is_looked_up_when_a_message_is_sent(bench):
    bench.outbox.deliver([(b"t", b"x", 1, 1, 7, None)])
    bench.subscriptions[b"t"] = ID_7
    bench.outbox.deliver([(b"t", b"x", 1, 2, 8, None)])
    assert [found.subscription_ids for found in bench.properties()] == [(), (7,)]


def test_retain_is_as_published_only_for_who_asked(bench):
    retained = 1 | DELIVER_PUBLISHED_RETAIN
    bench.outbox.deliver([(b"t", b"x", retained, 1, 7, None)])
    bench.subscriptions[b"t"] = AS_PUBLISHED
    bench.outbox.deliver([(b"t", b"x", retained, 2, 8, None), (b"t", b"x", 1, 3, 9, None)])
    assert [event.retain for event in bench.seen()] == [False, True, False]


def test_a_retained_message_has_the_id_of_its_subscribe_alone(bench):
    bench.subscriptions[b"t"] = ID_7
    flags = 1 | DELIVER_RETAIN
    bench.outbox.deliver(
        [(b"t", b"x", flags | 300 << DELIVER_ID_SHIFT, 1, 7, None), (b"t", b"y", flags, 2, 8, None)]
    )
    events = bench.seen()
    assert [event.retain for event in events] == [True, True]
    assert [properties_of(event).subscription_ids for event in events] == [(300,), ()]


def test_the_id_of_a_subscribe_survives_being_put_off(bench):
    flags = 1 | DELIVER_RETAIN | 300 << DELIVER_ID_SHIFT
    bench.outbox.deliver([(b"", None, 1, 1, 9, None), (b"", None, flags, 2, 10, None)])
    bench.answer_reads()
    assert [found.subscription_ids for found in bench.properties()] == [(), (300,)]


def test_a_share_says_what_belongs_to_its_messages(bench):
    bench.subscriptions[b"t"] = ID_7
    bench.outbox.deliver([(b"t", b"x", 0, 0, 7, None)], Marks.of([8 << 8]))
    assert [found.subscription_ids for found in bench.properties()] == [(8,)]


# ── live messages ─────────────────────────────────────────────────────────────────────────────


def test_frames_of_the_publisher_are_passed_on_as_they_are(bench):
    frames = encode.publish(b"t", b"x", block=block_of(SOME_PROPERTIES))
    bench.outbox.forward(Live((), 1, None, frames))
    bench.loop.run()
    assert bench.writes == [frames]
    assert bench.writes[0] is frames


def test_messages_of_3_1_1_get_a_place_for_properties(bench):
    live = Live.of(b"t", [b"x", b"yy", b"z"])
    bench.outbox.forward(live)
    assert [(event.topic, event.payload) for event in bench.seen()] == [
        (b"t", b"x"),
        (b"t", b"yy"),
        (b"t", b"z"),
    ]
    assert live.as_mqtt_5() is live.mqtt_5


def test_properties_of_a_live_message_arrive_and_not_at_3_1_1():
    properties = of_properties(SOME_PROPERTIES)
    new, old = Bench5(), Bench()
    live = Live.of(b"t", [b"x"], properties)
    new.outbox.forward(live)
    old.outbox.forward(live)
    old.loop.run()
    assert new.properties() == [SOME_PROPERTIES]
    assert old.written == encode.publish(b"t", b"x")


def test_all_with_the_same_ids_share_one_form(bench):
    other = Bench5()
    live = SpecialLive.of_message(b"t", [b"x"], is_retained=True)
    for box in (bench.outbox, other.outbox):
        box.forward_marked(live, Marks.of([7 << 8, 300 << 8 | OPTION_RETAIN_AS_PUBLISHED]))
    bench.loop.run(), other.loop.run()
    assert bench.writes[0] is other.writes[0]
    (event,) = bench.reader.receive(bench.writes[0])
    assert (event.retain, event.properties.subscription_ids) == (True, (7, 300))


def test_a_session_that_speaks_3_1_1_now_keeps_its_options_and_is_not_told():
    bench = Bench()
    live = SpecialLive.of_message(b"t", [b"x"], is_retained=True)
    bench.outbox.forward_marked(live, Marks.of([7 << 8 | OPTION_RETAIN_AS_PUBLISHED]))
    bench.loop.run()
    assert bench.written == encode.publish(b"t", b"x")


# ── expiry ────────────────────────────────────────────────────────────────────────────────────


def expiring(bench: Bench, expiry_s: int) -> Live:
    properties = of_properties(Properties(message_expiry=expiry_s, payload_format=1))
    expires_ms = bench.now_ms + 1_000 * expiry_s
    return SpecialLive.of_message(b"t", [b"x"], properties, expires_ms=expires_ms)


def test_a_live_message_tells_the_time_that_is_left_when_it_is_sent(bench):
    bench.outbox.pause()
    bench.outbox.forward(expiring(bench, 10))
    bench.loop.run()
    bench.now_ms += 3_500
    bench.outbox.resume()
    assert bench.properties() == [Properties(message_expiry=7, payload_format=1)]


def test_no_message_has_more_time_left_than_it_had_though_a_clock_went_back(bench):
    bench.outbox.pause()
    bench.outbox.forward(expiring(bench, 10))
    bench.now_ms -= 60_000
    bench.outbox.resume()
    extras = Extras(expires_ms=bench.now_ms + 70_000)
    bench.messages[10] = Message(b"t", b"x", 10, 0, bench.now_ms + 60_000, 1, extras)
    bench.outbox.deliver([(b"", None, 1, 4, 10, None)])
    bench.answer_reads()
    assert [found.message_expiry for found in bench.properties()] == [10, 10]


@pytest.mark.parametrize("make", [Bench, Bench5])
def test_a_live_message_that_expires_while_a_client_does_not_read_is_not_sent(make):
    bench = make()
    bench.outbox.pause()
    bench.outbox.forward(expiring(bench, 10))
    bench.outbox.forward(Live.of(b"t", [b"stays"]))
    bench.loop.run()
    bench.now_ms += 10_000
    bench.outbox.resume()
    block = b"" if make is Bench5 else None
    assert bench.written == encode.publish(b"t", b"stays", block=block)
    assert bench.counters.drops[DropReason.EXPIRED] == 1
    assert bench.counters.messages_out_total[0] == 1


def test_small_packets_count_with_the_memory_they_take_while_a_client_does_not_read():
    bench = Bench5(alias_max=5)
    bench.outbox.pause()
    for _ in range(100):
        bench.outbox.forward(Live.of(b"t", [b"x"]))
    bench.loop.run()
    assert bench.counters.drops[DropReason.SLOW_READER] >= 100 - BOUND // PACKET_OVERHEAD_BYTES
    bench.outbox.resume()
    assert [event.topic for event in bench.seen()] == [b"t"]
    assert bench.outbox.counted == 0


def test_expiry_0_is_for_whoever_is_connected(bench):
    bench.outbox.forward(expiring(bench, 0))
    bench.now_ms += 20  # a busy turn of the loop
    assert [found.message_expiry for found in bench.properties()] == [0]
    bench.outbox.deliver([(b"t", b"x", 1, 1, 7, Extras(expires_ms=bench.now_ms - 50))])
    assert [found.message_expiry for found in bench.properties()] == [0]


@pytest.mark.parametrize("make", [Bench, Bench5])
def test_what_expired_in_the_queue_is_lost_as_expired_and_the_queue_goes_on(make):
    bench = make()
    bench.messages[10] = Message(b"t", b"x", 10, 0, 0, 1, Extras(expires_ms=bench.now_ms))
    bench.outbox.deliver([(b"", None, 1, 4, 10, None), (b"", None, 1, 5, 11, None)])
    bench.answer_reads()
    bench.loop.run()
    assert bench.lost_for == {DropReason.EXPIRED: [4]}
    assert b"11" in bench.written


def test_what_was_sent_before_is_repeated_though_it_has_expired(bench):
    bench.messages[10] = Message(b"t", b"x", 10, 0, 0, 1, Extras(expires_ms=bench.now_ms - 9))
    bench.outbox.deliver([(b"", None, 2 | DELIVER_DUP, 4, 10, None)])
    bench.answer_reads()
    (event,) = bench.seen()
    assert (event.dup, properties_of(event).message_expiry) == (True, 0)


# ── maximum packet size ───────────────────────────────────────────────────────────────────────


def test_a_packet_of_exactly_the_maximum_is_sent_and_one_byte_more_is_not():
    size = len(encode.publish(b"t", b"x" * 20, 1, packet_id=1, block=b""))
    bench = Bench5(packet_bytes_max=size)
    bench.outbox.deliver(
        [
            (b"t", b"x" * 20, 1, 1, 7, None),
            (b"t", b"x" * 21, 1, 2, 8, None),
            (b"t", b"y", 1, 3, 9, None),
        ]
    )
    assert [event.packet_id for event in bench.seen()] == [1, 3]
    assert bench.lost_for == {DropReason.TOO_LARGE: [2]}


def test_qos_0_has_no_packet_id_that_counts():
    size = len(encode.publish(b"t", b"x" * 20, block=b""))
    bench = Bench5(packet_bytes_max=size)
    bench.outbox.deliver([(b"t", b"x" * 20, 0, 0, 7, None), (b"t", b"x" * 21, 0, 0, 8, None)])
    assert len(bench.seen()) == 1
    assert bench.counters.drops[DropReason.TOO_LARGE] == 1
    assert not bench.lost


def test_properties_count_and_those_of_the_subscription_too():
    size = len(encode.publish(b"t", b"x", 1, packet_id=1, block=b""))
    bench = Bench5(packet_bytes_max=size)
    bench.outbox.deliver([(b"t", b"x", 1, 1, 7, SOME)])
    bench.subscriptions[b"t"] = ID_7
    bench.outbox.deliver([(b"t", b"x", 1, 2, 8, None)])
    assert bench.seen() == []
    assert bench.lost_for == {DropReason.TOO_LARGE: [1, 2]}


def test_of_live_messages_only_those_that_are_too_large_are_left_out():
    size = len(encode.publish(b"t", b"x" * 20, block=b""))
    bench = Bench5(packet_bytes_max=size)
    payloads = [b"x" * 20, b"x" * 21, b"z"]
    bench.outbox.forward(Live.of(b"t", payloads))
    assert [event.payload for event in bench.seen()] == [payloads[0], payloads[2]]
    assert bench.counters.drops[DropReason.TOO_LARGE] == 1


def test_a_message_from_the_journal_that_is_too_large_does_not_stall_the_queue():
    bench = Bench5(packet_bytes_max=12)
    bench.messages[10] = Message(b"t", b"x" * 100, 10, 0, 0, 1)
    bench.outbox.deliver([(b"", None, 1, 4, 10, None), (b"", None, 1, 5, 11, None)])
    bench.answer_reads()
    assert [event.packet_id for event in bench.seen()] == [5]
    assert bench.lost_for == {DropReason.TOO_LARGE: [4]}


# ── quota ─────────────────────────────────────────────────────────────────────────────────────


def test_no_more_are_unacknowledged_than_the_client_takes_and_each_ack_brings_one():
    bench = Bench5(receive_maximum=2)
    bench.outbox.deliver([(b"t", b"%d" % n, 1, n, n, None) for n in range(1, 6)])
    assert [event.packet_id for event in bench.seen()] == [1, 2]
    assert not bench.reads, "nothing is read that cannot be sent"
    bench.outbox.acknowledged(1)
    bench.loop.run()
    bench.answer_reads()
    assert [event.packet_id for event in bench.seen()] == [3]
    bench.outbox.acknowledged(2)
    bench.loop.run()
    bench.answer_reads()
    assert [event.packet_id for event in bench.seen()] == [4, 5]


def test_a_resumed_session_is_paced_and_pubrel_needs_no_slot():
    bench = Bench5(receive_maximum=1)
    bench.outbox.deliver(
        [
            (b"", None, 1 | DELIVER_DUP, 1, 10, None),
            (b"", None, 2 | DELIVER_DUP, 2, 11, None),
            (b"", None, DELIVER_PUBREL, 3, 12, None),
        ]
    )
    bench.answer_reads()
    events = bench.seen()
    assert [event for event in events if isinstance(event, MqttAcks)] == [MqttAcks(6, [3])]
    assert [event.packet_id for event in events if isinstance(event, Publish)] == [1]
    bench.outbox.acknowledged(1)
    bench.loop.run()
    bench.answer_reads()
    assert [event.packet_id for event in bench.seen()] == [2]


def test_qos_0_does_not_wait_for_the_quota():
    bench = Bench5(receive_maximum=1)
    bench.outbox.deliver(
        [(b"t", b"1", 1, 1, 1, None), (b"t", b"2", 1, 2, 2, None), (b"t", b"3", 0, 0, 0, None)]
    )
    assert [event.payload for event in bench.seen()] == [b"1", b"3"]


def test_the_quota_never_grows_beyond_what_the_client_said():
    bench = Bench5(receive_maximum=2)
    bench.outbox.acknowledged(9)
    assert bench.outbox.quota == 2


def test_what_is_not_sent_takes_no_slot():
    bench = Bench5(receive_maximum=1, packet_bytes_max=12)
    bench.outbox.deliver([(b"t", b"x" * 99, 1, 1, 1, None), (b"t", b"y", 1, 2, 2, None)])
    assert [event.packet_id for event in bench.seen()] == [2]


# ── aliases ───────────────────────────────────────────────────────────────────────────────────


class Bare(MqttClientMachine):
    """Leaves topics as they are."""

    def _published(self, event):
        return event


def names(bench: Bench5) -> list[bytes]:
    """Topics as they are on the wire; the client must find the right ones all the same."""
    bench.loop.run()
    written = b"".join(bench.writes)
    bare = Bare(version=5)
    bare.receive(encode.connack(False, 0, NONE))
    found = [event.topic for event in bare.receive(written)]
    assert [event.topic for event in bench.seen()] == [name or b"long/name" for name in found]
    return found


def test_a_topic_is_named_once_and_then_by_its_alias():
    bench = Bench5(alias_max=5)
    bench.outbox.deliver([(b"long/name", b"%d" % n, 1, n, n, None) for n in (1, 2)])
    bench.outbox.forward(Live.of(b"long/name", [b"3"]))
    bench.outbox.deliver([(b"long/name", b"4", 0, 0, 0, SOME)])
    assert names(bench) == [b"long/name", b"", b"", b""]


def test_live_messages_that_are_dropped_take_no_alias_with_them():
    bench = Bench5(alias_max=5)
    bench.outbox.pause()
    for number in range(40):
        bench.outbox.forward(Live.of(b"long/name", [b"%040d" % number]))
        bench.loop.run()
    bench.outbox.deliver([(b"long/name", b"must arrive", 1, 1, 1, None)])
    assert bench.counters.drops[DropReason.SLOW_READER]
    bench.outbox.resume()
    found = names(bench)
    assert found[0] == b"long/name"
    assert set(found[1:]) == {b""}


def test_only_the_first_topics_get_an_alias_and_none_is_replaced():
    bench = Bench5(alias_max=2)
    for _ in range(2):
        for topic in (b"first", b"second", b"third"):
            bench.outbox.deliver([(topic, b"x", 1, 1, 1, None)])
    bench.loop.run()
    written = b"".join(bench.writes)
    assert [event.topic for event in bench.seen()] == [b"first", b"second", b"third"] * 2
    assert [written.count(topic) for topic in (b"first", b"second", b"third")] == [1, 1, 2]


def test_a_client_that_takes_no_aliases_gets_none(bench):
    bench.outbox.deliver([(b"long/name", b"%d" % n, 1, n, n, None) for n in (1, 2)])
    assert names(bench) == [b"long/name", b"long/name"]


def test_an_alias_never_makes_a_packet_too_large():
    size = len(encode.publish(b"long/name", b"x", 1, packet_id=1, block=b""))
    bench = Bench5(alias_max=5, packet_bytes_max=size)
    bench.outbox.deliver([(b"long/name", b"x", 1, n, n, None) for n in (1, 2)])
    assert names(bench) == [b"long/name", b"long/name"]
