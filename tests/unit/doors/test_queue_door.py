"""The door of the queue protocol: order, bounds, refusals, the end."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.commit_bench import turns
from tests.benches.queue_door_bench import (
    GROUP,
    TOPIC,
    Bench,
    ack,
    delete_topic,
    nack,
    poll,
    produce,
    stats,
    subscribe,
)

from penstock.doors.queue import connection as module
from penstock.doors.queue import producing
from penstock.errors import StorageFull
from penstock.limits import GROUP_BYTES_MAX, HEADERS_MAX, QUEUE_PAYLOAD_BYTES_MAX
from penstock.net import connection as base
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue._generated import queue_pb2 as wire

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


def offsets_of(peer):
    return [response.produced.offset for response in peer.heard() if response.HasField("produced")]


# ── order


async def test_responses_leave_in_the_order_of_the_requests(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), produce(), stats(), b"\0\0\0\0", produce())
    await turns(20)
    assert peer.heard() == []
    bench.open()
    await bench.rest()
    assert peer.kinds() == ["produced", "produced", "stats", "error", "produced"]
    assert offsets_of(peer) == [0, 1, 2]
    assert peer.codes() == ["bad_request"]


async def test_a_request_with_an_id_overtakes_those_that_wait(bench):
    peer = bench.peer()
    peer.send(poll(wait_ms=5_000), stats())
    await bench.rest()
    assert peer.heard() == []
    peer.send(wire.Request(stats=wire.Stats(), request_id=7), poll(wait_ms=9, request_id=8))
    peer.send(produce(request_id=9, topic="other"))
    await bench.rest()
    assert {r.request_id: r.WhichOneof("kind") for r in peer.heard()} == {
        7: "stats",
        9: "produced",
    }
    await bench.wait(1)
    assert [r.request_id for r in peer.heard()][2:] == [8]


async def test_each_request_of_a_run_gets_its_own_id_back(bench):
    peer = bench.peer()
    peer.send(*[produce(request_id=100 + number) for number in range(200)])
    await bench.rest()
    answered = {r.request_id: r.produced.offset for r in peer.heard()}
    assert answered == {100 + number: number for number in range(200)}


async def test_repeated_numbers_of_a_producer_are_answered_with_the_first_place(bench):
    peer = bench.peer()
    peer.send(*[produce(producer_id="p", seq=seq, request_id=1 + seq) for seq in (0, 1, 2)])
    peer.send(*[produce(producer_id="p", seq=seq, request_id=10 + seq) for seq in (1, 3, 0)])
    await bench.rest()
    answered = {r.request_id: r.produced.offset for r in peer.heard()}
    assert answered == {1: 0, 2: 1, 3: 2, 11: 1, 13: 3, 10: 0}


async def test_a_topic_is_deleted_behind_the_messages_produced_before_it(bench):
    """And what comes after it is the first of a new topic."""
    peer = bench.peer()
    peer.send(produce(), produce(), delete_topic(), produce(), stats())
    await bench.rest()
    assert peer.kinds() == ["produced", "produced", "ok", "produced", "stats"]
    assert offsets_of(peer) == [0, 1, 0]
    assert peer.heard()[-1].stats.messages == 1
    assert not bench.parts.broker.topics.get(TOPIC.encode()).keep


async def test_deleting_waits_for_messages_and_not_for_polls(bench):
    peer = bench.peer()
    peer.send(poll(topic="empty", wait_ms=5_000, request_id=1), produce(), delete_topic())
    await bench.rest()
    assert peer.kinds() == ["produced", "ok"]


async def test_what_must_wait_is_held_and_nothing_is_read_meanwhile(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), delete_topic(), produce())
    assert not peer.transport.is_reading
    bench.open()
    await bench.rest()
    assert peer.transport.is_reading
    assert peer.kinds() == ["produced", "ok", "produced"]


async def test_a_large_read_is_decoded_in_pieces_and_others_have_turns_between(bench, monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 7)  # frames are cut anywhere
    monkeypatch.setattr(module, "TURN_S", -1)
    peer, other = bench.peer(), bench.peer()
    peer.send(*[produce(b"%d" % number) for number in range(9)], stats())
    assert not peer.transport.is_reading
    other.send(b"\0\0\0\0")
    await turns(2)
    assert other.kinds() == ["error"]
    assert peer.kinds() == []
    await bench.rest()
    assert peer.kinds() == ["produced"] * 9 + ["stats"]
    assert [response.produced.offset for response in peer.heard()[:9]] == list(range(9))
    assert peer.transport.is_reading


async def test_what_comes_behind_a_large_read_is_taken_behind_it(bench, monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 7)
    monkeypatch.setattr(module, "TURN_S", -1)
    peer = bench.peer()
    peer.send(produce(), produce())
    peer.send(stats())
    assert peer.connection.eof_received()
    await bench.rest()
    assert peer.kinds() == ["produced", "produced", "stats"]


async def test_requests_without_an_answer_are_bounded(bench, monkeypatch):
    monkeypatch.setattr(module, "UNANSWERED_MAX", 4)
    peer = bench.peer()
    peer.send(*[poll(group=f"g{number}", wait_ms=1_000) for number in range(6)])
    await bench.rest()
    assert not peer.transport.is_reading
    assert len(peer.connection.polls) == 4
    await bench.wait(1)
    assert peer.kinds() == ["polled"] * 4
    await bench.wait(1)
    assert peer.kinds() == ["polled"] * 6
    assert peer.transport.is_reading


async def test_others_have_a_turn_while_many_requests_are_begun(bench, monkeypatch):
    monkeypatch.setattr(base, "TURN_S", -1.0)
    peer = bench.peer()
    peer.send(stats(), stats(), stats())
    assert peer.kinds() == ["stats"]
    await bench.rest()
    assert peer.kinds() == ["stats"] * 3


# ── refusals


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (produce(topic=""), "bad_request"),
        (produce(topic="a/#"), "bad_request"),
        (produce(topic="$SYS/x"), "forbidden"),
        (produce(topic="$dlq/jobs/g"), "forbidden"),
        (produce(b"x" * (QUEUE_PAYLOAD_BYTES_MAX + 1), topic="$SYS"), "payload_too_large"),
        (produce(producer_id="p" * 300), "limit"),
        (produce(headers=[wire.Header(name="n")] * (HEADERS_MAX + 1)), "limit"),
        (produce(headers=[wire.Header(name="n", value=b"v" * 20_000)]), "limit"),
        (poll(topic="$SYS/broker"), "forbidden"),
        (poll(group="g" * (GROUP_BYTES_MAX + 1)), "limit"),
        (subscribe(topic="a/+"), "bad_request"),
        (wire.Request(create_topic=wire.CreateTopic(topic="$x")), "forbidden"),
        (wire.Request(set_retention=wire.SetRetention(topic="#")), "bad_request"),
        (wire.Request(delete_topic=wire.DeleteTopic(topic="$SYS")), "forbidden"),
        (wire.Request(commit=wire.Commit(topic="+")), "bad_request"),
        (wire.Request(create_group=wire.CreateGroup(topic="+")), "bad_request"),
        (wire.Request(configure_group=wire.ConfigureGroup(topic="+")), "bad_request"),
        (wire.Request(fetch=wire.Fetch(topic="$SYS")), "forbidden"),
        (wire.Request(locate=wire.Locate(topic="t", times_ms=[0] * 2_000)), "limit"),
        (wire.Request(ack_many=wire.AckMany(lease_ids=[0] * 65_537)), "limit"),
        (wire.Request(nack_many=wire.NackMany(lease_ids=[0] * 65_537)), "limit"),
        (wire.Request(extend=wire.Extend(lease_ids=[0] * 65_537)), "limit"),
        (wire.Request(produce_many=wire.ProduceMany(topic="t", payloads=[b""] * 65_537)), "limit"),
        (
            wire.Request(
                produce_many=wire.ProduceMany(topic="t", payloads=[b""] * 2, seq=2**64 - 1)
            ),
            "bad_request",
        ),
    ],
)
async def test_a_refusal_has_a_code_and_the_connection_goes_on(bench, request_, code):
    peer = bench.peer()
    response = await peer.ask(request_)
    assert response.error.code == code
    assert response.error.message
    assert (await peer.ask(stats())).HasField("stats")


async def test_of_a_run_only_the_payload_that_is_too_large_is_refused(bench, monkeypatch):
    monkeypatch.setattr(producing, "QUEUE_PAYLOAD_BYTES_MAX", 4)
    peer = bench.peer()
    peer.send(*[produce(payload) for payload in (b"aaaa", b"bb", b"ccccc", b"d")])
    await bench.rest()
    assert peer.kinds() == ["produced", "produced", "error", "produced"]
    assert offsets_of(peer) == [0, 1, 2]


async def test_of_many_payloads_only_those_that_are_too_large_are_refused(bench, monkeypatch):
    monkeypatch.setattr(producing, "QUEUE_PAYLOAD_BYTES_MAX", 4)
    peer = bench.peer()
    payloads = [b"aaaaa", b"b", b"ccccc", b"d"]
    many = wire.ProduceMany(topic=TOPIC, payloads=payloads, producer_id="p", seq=10)
    response = (await peer.ask(wire.Request(produce_many=many))).produced_many
    assert [(s.offset, s.count) for s in response.stretches] == [(0, 2)]
    assert [(r.index, r.error.code) for r in response.refusals] == [
        (0, "payload_too_large"),
        (2, "payload_too_large"),
    ]
    find = bench.parts.broker.producers.find
    assert [find(TOPIC.encode(), b"p", seq) for seq in range(10, 14)] == [None, 0, None, 1]


async def test_nothing_at_all_can_be_produced_at_once(bench):
    peer = bench.peer()
    many = wire.ProduceMany(topic=TOPIC)
    response = await peer.ask(wire.Request(produce_many=many))
    assert response.HasField("produced_many")


async def test_when_the_disk_refuses_each_request_hears_of_it_and_may_be_repeated(bench):
    peer = bench.peer()
    await peer.ask(produce())
    bench.store.error = StorageFull("no room")
    peer.send(produce(), produce(), delete_topic(), poll(), poll(group="new", start=1))
    await bench.rest()
    assert peer.codes() == ["internal"] * 5
    bench.store.error = None
    await bench.wait(1)
    peer.send(produce(), poll())
    await bench.rest()
    assert peer.kinds()[-2:] == ["produced", "polled"]


# ── what is kept of a request


async def test_priority_type_schedule_and_headers_arrive_with_the_message(bench):
    peer = bench.peer()
    headers = [wire.Header(name="n", value=b"v")]
    await peer.ask(produce(b"1", priority=9, content_type=2, headers=headers, delay_ms=1_000))
    await peer.ask(produce(b"2", content_type=9, ttl_ms=500))
    assert [i.payload for i in (await peer.ask(poll())).polled.items] == [b"2"]
    await bench.wait(1)
    (item,) = (await peer.ask(poll(wait_ms=1_000))).polled.items
    assert (item.payload, item.priority, item.content_type) == (b"1", 7, 2)
    assert [(h.name, h.value) for h in item.headers] == [("n", b"v")]


# ── polls


async def test_a_poll_waits_as_long_as_it_said(bench):
    peer = bench.peer()
    peer.send(poll(wait_ms=1_000))
    await bench.wait(0.9)
    assert peer.heard() == []
    await bench.wait(0.2)
    assert peer.kinds() == ["polled"]
    assert not peer.connection.polls


async def test_a_poll_that_waits_gets_what_comes(bench):
    peer, other = bench.peer(), bench.peer()
    peer.send(poll(wait_ms=1_000))
    await bench.rest()
    await other.ask(produce(b"m"))
    await bench.rest()
    assert [item.payload for item in peer.pushed()] == [b"m"]


async def test_what_is_on_its_way_when_the_time_is_over_is_still_taken(bench):
    peer, other = bench.peer(), bench.peer()
    await other.ask(poll())
    await other.ask(produce())
    bench.shut()
    peer.send(poll(wait_ms=1_000))
    await turns(5)
    bench.ring(1)
    assert peer.heard() == []
    bench.open()
    await bench.rest()
    assert peer.offsets() == [0]


async def test_a_message_of_a_poll_whose_client_left_goes_to_the_next(bench):
    peer, other = bench.peer(), bench.peer()
    await other.ask(produce())
    bench.shut()
    peer.send(poll())
    await turns(20)
    peer.connection.connection_lost(None)
    bench.open()
    await bench.rest()
    (item,) = (await other.ask(poll())).polled.items
    assert (item.offset, item.redeliveries) == (0, 0)


async def test_an_automatic_poll_settles_what_it_took(bench):
    peer = bench.peer()
    await peer.ask(produce())
    await peer.ask(poll(ack_mode="auto"))
    await bench.rest()
    assert (await peer.ask(stats())).stats.in_flight == 0
    await bench.wait(60)
    assert not (await peer.ask(poll())).polled.items


async def test_the_rate_of_a_topic_holds_over_polls(bench):
    peer = bench.peer()
    limit = wire.SetRateLimit(topic=TOPIC, rate_per_sec=1, burst=1)
    await peer.ask(wire.Request(set_rate_limit=limit))
    peer.send(produce(), produce())
    await bench.rest()
    assert len((await peer.ask(poll())).polled.items) == 1
    refused = (await peer.ask(poll(wait_ms=5_000))).error
    assert refused.code == "rate_limited"
    assert 0 < refused.retry_after_ms <= 1_001
    await bench.wait(1)
    assert len((await peer.ask(poll())).polled.items) == 1


async def test_a_new_group_begins_where_its_first_poll_says(bench):
    peer = bench.peer()
    peer.send(*[produce() for _ in range(4)])
    await bench.rest()
    earliest = await peer.ask(poll())
    latest = await peer.ask(poll(group="latest", start=wire.LATEST))
    third = await peer.ask(poll(group="third", start=wire.OFFSET, start_value=2))
    again = await peer.ask(poll(group="third", start=wire.OFFSET, start_value=0))
    assert [len(r.polled.items) for r in (earliest, latest, third, again)] == [4, 0, 2, 0]


async def test_a_poll_takes_nothing_while_its_client_does_not_read(bench):
    peer = bench.peer()
    await peer.ask(produce())
    peer.stop_reading()
    peer.send(poll(wait_ms=10_000))
    await bench.wait(1)
    assert (await bench.peer().ask(stats())).stats.in_flight == 0
    peer.read_on()
    await bench.rest()
    assert peer.offsets() == [0]


async def test_what_reaches_a_poll_whose_client_stopped_reading_goes_back(bench):
    peer, other = bench.peer(), bench.peer()
    await peer.ask(produce())
    bench.shut()
    peer.send(poll(wait_ms=10_000))
    await turns(20)
    peer.stop_reading()
    bench.open()
    await bench.rest()
    (item,) = (await other.ask(poll())).polled.items
    assert (item.offset, item.redeliveries) == (0, 0)


async def test_responses_that_wait_behind_a_poll_are_bounded(bench, monkeypatch):
    monkeypatch.setattr(bench.parts.limits.__class__, "outbound_bytes_max", 100, raising=False)
    peer = bench.peer()
    peer.connection.door.limits = bench.parts.limits
    peer.send(produce(b"x" * 200), produce())
    await bench.rest()
    peer.send(poll(topic="empty", wait_ms=1_000), poll(max=1), poll(max=1))
    await bench.rest()
    assert (await bench.peer().ask(stats())).stats.in_flight == 1
    await bench.wait(1)
    assert peer.offsets() == [0, 1]


# ── acknowledgements


async def test_acknowledgements_of_what_is_over_do_no_harm(bench):
    peer = bench.peer()
    peer.send(produce(), produce())
    await bench.rest()
    first, second = (await peer.ask(poll())).polled.items
    peer.send(ack(first.lease_id), ack(first.lease_id), ack(99), nack(second.lease_id), nack(7))
    await bench.rest()
    assert peer.kinds()[-5:] == ["ok"] * 5
    assert [i.offset for i in (await peer.ask(poll())).polled.items] == [second.offset]


async def test_many_leases_are_acknowledged_given_back_or_extended_at_once(bench):
    peer = bench.peer()
    peer.send(*[produce() for _ in range(3)])
    await bench.rest()
    leases = [item.lease_id for item in (await peer.ask(poll())).polled.items]
    names = {"topic": TOPIC, "group": GROUP}
    extend = wire.Extend(**names, lease_ids=leases[:1], visibility_timeout_ms=90_000)
    await peer.ask(wire.Request(extend=extend))
    await peer.ask(wire.Request(ack_many=wire.AckMany(**names, lease_ids=leases[1:2])))
    back = wire.NackMany(**names, lease_ids=leases[2:], delay_ms=40_000, reason="why")
    await peer.ask(wire.Request(nack_many=back))
    await bench.wait(35)
    assert not (await peer.ask(poll())).polled.items
    await bench.wait(10)
    assert [i.offset for i in (await peer.ask(poll())).polled.items] == [2]
    await bench.wait(50)
    assert [i.offset for i in (await peer.ask(poll())).polled.items] == [0, 2]


# ── the end


async def test_a_client_that_closes_its_side_gets_what_it_asked_for(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), poll(topic="empty", wait_ms=60_000), produce())
    assert peer.connection.eof_received()
    bench.open()
    await bench.rest()
    assert peer.kinds() == ["produced", "polled", "produced"]
    assert peer.connection.reason is DisconnectReason.CLIENT_DISCONNECT


async def test_a_poll_that_waits_does_so_no_longer_when_the_client_closes_its_side(bench):
    peer = bench.peer()
    peer.send(poll(wait_ms=60_000))
    await bench.rest()
    peer.connection.eof_received()
    assert peer.kinds() == ["polled"]
    assert peer.transport.is_closed


async def test_what_was_held_when_the_client_closed_its_side_is_still_done(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), delete_topic(), poll(wait_ms=60_000), produce())
    assert peer.connection.eof_received()
    bench.open()
    await bench.rest()
    assert peer.kinds() == ["produced", "ok", "polled", "produced"]
    assert peer.transport.is_closed


async def test_a_client_that_closes_its_side_and_is_owed_nothing_is_closed(bench):
    peer = bench.peer()
    await peer.ask(stats())
    peer.connection.eof_received()
    assert peer.transport.is_closed


async def test_a_frame_that_is_too_large_ends_the_connection_behind_what_is_owed(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), b"\x04\0\0\x01")
    await turns(10)
    assert not peer.transport.is_closed
    bench.open()
    await bench.rest()
    assert peer.kinds() == ["produced"]
    assert peer.connection.reason is DisconnectReason.PACKET_TOO_LARGE


async def test_answers_that_come_after_the_end_go_nowhere(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), produce(request_id=1), delete_topic())
    peer.connection.connection_lost(None)
    bench.open()
    await bench.rest()
    assert peer.heard() == []


async def test_silence_ends_no_connection_that_has_asked_something(bench):
    peer, stranger = bench.peer(), bench.peer()
    await peer.ask(stats())
    stranger.send(b"\0\0")
    bench.clock.advance(1_000_000)
    bench.parts.connections.deadlines.turn(bench.parts.monotonic())
    assert peer.connection.reason is None
    assert stranger.connection.reason is DisconnectReason.CONNECT_TIMEOUT


# ── what one's own requests did before


async def test_a_client_sees_what_it_did_before(bench):
    peer = bench.peer()
    fetch = wire.Request(fetch=wire.Fetch(topic=TOPIC))
    groups = wire.Request(list_groups=wire.ListGroups(topic=TOPIC))
    peer.send(produce(b"m"), poll(), produce(), fetch)
    await bench.rest()
    _, polled, _, fetched = peer.heard()
    assert polled.polled.items[0].payload == b"m", "and perhaps what was stored meanwhile"
    assert fetched.fetched.end_offset == 2
    peer.send(ack(0), groups, stats())
    await bench.rest()
    _, listed, counted = peer.heard()[4:]
    assert [group.lag for group in listed.groups.groups] == [1]
    assert counted.stats.messages == 1


async def test_one_that_numbers_its_requests_does_not_wait_for_what_it_did_before(bench):
    peer = bench.peer()
    bench.shut()
    peer.send(produce(), wire.Request(stats=wire.Stats(), request_id=1))
    await turns(10)
    assert peer.kinds() == ["stats"]
