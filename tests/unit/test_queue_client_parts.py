"""The parts of the queue client that know no socket: routes, numbers, batches, operations, pushes."""

import pytest
from tests.unit.queue_client_link import ScriptedLink

from penstock.client import ConnectionLostError, Item, NotLeaderError, RateLimitedError
from penstock.client.errors import ArgumentError, BrokerProtocolError, queue_refused
from penstock.client.queue import requests
from penstock.client.queue.operations import PRODUCE_WINDOW
from penstock.client.queue.producer import BATCH_BYTES_MAX, BATCH_MAX, Producer, batches
from penstock.client.queue.push import PushSession
from penstock.client.queue.server_pool import ServerPool
from penstock.client.sync import run
from penstock.errors import LocalProtocolError
from penstock.wire.queue import encode
from penstock.wire.queue.server import QueueServerMachine

LOST = ConnectionLostError("gone")


# ── Where to go ───────────────────────────────────────────────────────────────────────────────


def named_leader(address):
    return queue_refused("not_leader", "no", leader_addr=address)


def test_the_next_address_follows_the_last_and_then_the_first_again():
    pool = ServerPool(["a:1", "b:2"])
    visited = []
    for _ in range(3):
        visited.append(str(pool.address))
        pool.failed(LOST, 0.0)
    assert visited == ["a:1", "b:2", "a:1"]


def next_after(pool, error):
    pool.failed(error, 0.0)
    return str(pool.address)


def test_the_leader_that_was_named_is_next_whether_we_know_it_or_not():
    pool = ServerPool(["a:1", "b:2", "c:3"])
    assert next_after(pool, named_leader("c:3")) == "c:3"
    assert next_after(pool, named_leader("elsewhere:9")) == "elsewhere:9"
    assert next_after(pool, named_leader("b:2")) == "b:2"
    assert next_after(pool, LOST) == "c:3"


@pytest.mark.parametrize("address", ["", "nowhere", "a:b", "x:99999"])
def test_a_leader_that_is_no_address_is_not_looked_for(address):
    assert next_after(ServerPool(["a:1", "b:2"]), named_leader(address)) == "b:2"


def test_a_leader_that_cannot_be_reached_where_it_is_named_is_looked_for_among_our_own():
    pool = ServerPool(["a:1", "b:2", "c:3"])
    inside = named_leader("inside:9")
    assert next_after(pool, inside) == "inside:9"
    assert next_after(pool, LOST) == "b:2"
    assert next_after(pool, inside) == "c:3", "it was tried in vain just now"
    assert next_after(pool, inside) == "inside:9", "it may be back"


def test_whoever_knows_one_node_finds_the_leader_again_and_again():
    pool = ServerPool(["a:1"])
    assert next_after(pool, named_leader("b:2")) == "b:2"
    assert next_after(pool, LOST) == "a:1"
    assert next_after(pool, named_leader("c:3")) == "c:3"


def test_nodes_may_be_one_text_with_commas():
    pool = ServerPool("a:1, b:2")
    assert [str(pool.address), next_after(pool, LOST)] == ["a:1", "b:2"]
    with pytest.raises(ArgumentError, match="not a list"):
        ServerPool("a:1")


def test_pauses_double_up_to_half_a_second_and_are_short_again_after_an_answer():
    pool = ServerPool(["a:1"])
    assert [pool.failed(LOST, 0.0) for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    pool.succeeded()
    assert pool.failed(LOST, 0.0) == 0.05


def test_there_is_no_pause_before_the_way_to_the_leader_that_a_node_names():
    pool = ServerPool(["a:1", "b:2"])
    assert pool.failed(LOST, 0.0) == 0.05
    assert pool.failed(named_leader("c:3"), 0.0) == 0.0
    assert str(pool.address) == "c:3"
    assert pool.failed(LOST, 0.0) == 0.2, "it goes on where it was"


def test_nodes_that_name_each_other_do_not_keep_a_client_running():
    pool = ServerPool(["a:1", "b:2"])
    pauses = [pool.failed(named_leader(name), 0.0) for name in ("b:2", "a:1", "b:2", "a:1")]
    assert pauses == [0.0, 0.1, 0.2, 0.4]


def test_chance_makes_a_pause_up_to_half_shorter():
    assert ServerPool(["a:1"]).failed(LOST, 0.5) == pytest.approx(0.0375)


@pytest.mark.parametrize("nodes", [[], ["a"], ["a:b"], [":1"], ["a:1", "a:99999"]])
def test_what_is_no_address_is_refused(nodes):
    with pytest.raises(LocalProtocolError):
        ServerPool(nodes)


# ── Numbers and batches ───────────────────────────────────────────────────────────────────────


def test_stretches_of_numbers_do_not_overlap():
    producer = Producer(None)
    taken = [producer.take("t", None, count) for count in (1, 256, 3)]
    assert (taken, producer.take("t", None), producer.take("other", None)) == ([0, 1, 257], 260, 0)


def cut(items, **settings):
    return [(batch.settings, batch.payloads) for batch in batches(items, settings)]


def test_batches_are_as_long_as_allowed():
    lengths = [len(payloads) for _, payloads in cut([b""] * (2 * BATCH_MAX + 1))]
    assert lengths == [BATCH_MAX, BATCH_MAX, 1]


def test_batches_are_as_large_as_allowed_and_what_is_larger_goes_alone():
    half, huge = b"x" * (BATCH_BYTES_MAX // 2), b"x" * (BATCH_BYTES_MAX + 1)
    sizes = [list(map(len, payloads)) for _, payloads in cut([half, half, b"y", huge, b"z"])]
    assert sizes == [[len(half), len(half)], [1], [len(huge)], [1]]


def test_a_batch_ends_where_messages_are_not_alike():
    found = cut([b"a", Item(b"b", priority=7), Item(b"c", priority=7), b"d"], priority=2)
    assert [(settings["priority"], payloads) for settings, payloads in found] == [
        (2, [b"a"]),
        (7, [b"b", b"c"]),
        (2, [b"d"]),
    ]


def test_nothing_makes_no_batch():
    assert cut([]) == []


def test_bytes_of_other_kinds_are_taken_and_text_is_not():
    assert cut([bytearray(b"a"), memoryview(b"b")]) == [({}, [b"a", b"b"])]
    with pytest.raises(TypeError, match="payload must be bytes"):
        cut(["text"])


# ── Operations of several requests ─────────────────────────────────────────────────────────────


def polls(link):
    return [request.poll.wait_ms for request in link.begun]


def limited(retry_after_ms):
    return queue_refused("rate_limited", "no", retry_after_ms=retry_after_ms)


def test_a_poll_without_a_wait_is_asked_once():
    link = ScriptedLink([])
    assert run(link.operations().poll("t", "g")) == []
    assert polls(link) == [0]


def test_a_poll_that_the_rate_forbids_is_asked_again_for_the_time_that_is_left():
    link = ScriptedLink(limited(2000), ["job"])
    assert run(link.operations().poll("t", "g", wait_s=10.0)) == ["job"]
    assert polls(link) == [10_000, 7000]


def test_a_poll_ends_with_nothing_when_the_rate_forbids_it_to_the_end():
    link = ScriptedLink(limited(60_000))
    assert run(link.operations().poll("t", "g", wait_s=10.0)) == []
    assert link.now_s == 1010.0


def test_a_poll_without_a_wait_tells_that_the_rate_forbids_it():
    with pytest.raises(RateLimitedError):
        run(ScriptedLink(limited(10)).operations().poll("t", "g"))


def test_a_poll_that_waits_longer_than_a_broker_lets_it_is_asked_again():
    link = ScriptedLink([], ["job"])
    assert run(link.operations().poll("t", "g", wait_s=400.0)) == ["job"]
    assert polls(link) == [300_000, 300_000]


def test_batches_are_under_way_together_but_not_without_bound():
    count = PRODUCE_WINDOW + 2
    link = ScriptedLink(*([["result"]] * count))
    results = run(link.operations().produce_many("t", [b""] * (count * BATCH_MAX)))
    before, after = link.steps[:PRODUCE_WINDOW], link.steps[PRODUCE_WINDOW:]
    assert before == ["begin"] * PRODUCE_WINDOW
    assert after == ["wait", "begin", "wait", "begin"] + ["wait"] * PRODUCE_WINDOW
    assert results == ["result"] * count


def test_the_seqs_of_a_named_producer_go_on_from_batch_to_batch():
    link = ScriptedLink(["result"], ["result"])
    items = [b""] * (BATCH_MAX + 1)
    run(link.operations("me").produce_many("t", items, seq=1000))
    begun = [request.produce_many for request in link.begun]
    assert [(asked.producer_id, asked.seq) for asked in begun] == [("me", 1000), ("me", 1256)]


def test_a_batch_that_fails_is_the_error_of_each_of_its_messages():
    link = ScriptedLink(LOST, ["fine"])
    items = [b""] * (BATCH_MAX + 1)
    results = run(link.operations().produce_many("t", items))
    assert [result.error for result in results[:-1]] == [LOST] * BATCH_MAX
    assert results[-1] == "fine"


# ── Pushes ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def push():
    return PushSession(requests.subscribe("t", "g", 4))


def pushed(lease, offset, payload=b"", ts_ms=1):
    return encode.pushed([(lease, offset, 0, 0, payload, ts_ms, 0, ())])


def calls(data):
    """What is asked for, pings aside."""
    events = QueueServerMachine().receive(data)
    return [(event.kind, event.message) for event in events if event.kind != "ping"]


def kinds(data):
    return [event.kind for event in QueueServerMachine().receive(data)]


def settled(push):
    return [
        (kind, list(m.lease_ids), getattr(m, "reason", ""), getattr(m, "dead_letter", False))
        for kind, m in calls(push.data_to_send())
    ]


def test_a_connection_begins_with_a_ping_and_the_subscription(push):
    push.connected(0.0)
    assert kinds(push.data_to_send()) == ["ping", "subscribe"]
    assert push.data_to_send() == b""


def test_quiet_broker_is_asked_whether_it_is_there_and_left_if_it_is_not(push):
    push.connected(0.0)
    push.data_to_send()
    assert push.receive(encode.ok_run(1, [1]), 1.0) == []
    push.check()
    push.tick(3.9)
    assert push.data_to_send() == b"", "not yet"
    push.tick(4.0)
    assert kinds(push.data_to_send()) == ["ping"]
    push.tick(7.9)
    assert len(push.receive(pushed(1, 10), 7.95)) == 1, "any word is an answer"
    push.tick(11.0)
    assert kinds(push.data_to_send()) == ["ping"]
    with pytest.raises(ConnectionLostError, match="does not answer"):
        push.tick(15.0)


def test_broker_that_never_says_a_word_is_left(push):
    push.connected(0.0)
    push.data_to_send()
    push.tick(3.9)
    with pytest.raises(ConnectionLostError):
        push.tick(4.0)


def test_broker_that_knows_no_pings_is_not_asked_again(push):
    push.connected(0.0)
    push.data_to_send()
    assert push.receive(encode.error("bad_request", "a request of no known kind"), 1.0) == []
    push.check()
    push.tick(1_000.0)
    assert push.data_to_send() == b""
    push.receive(encode.error("not_leader", "no"), 1_001.0)
    with pytest.raises(NotLeaderError):
        push.check()


def test_what_is_done_is_told_together(push):
    jobs = push.receive(pushed(1, 10) + pushed(2, 11) + pushed(3, 12) + pushed(4, 13), 0.0)
    assert [(job.topic, job.group, job.offset) for job in jobs[:1]] == [("t", "g", 10)]
    push.succeeded(jobs[0])
    push.succeeded(jobs[2])
    push.failed(jobs[1], "tired")
    push.failed(jobs[3], "x" * 5000, is_final=True)
    assert push.unsent == 4
    assert settled(push) == [
        ("ack_many", [1, 3], "", False),
        ("nack_many", [2], "tired", False),
        ("nack_many", [4], "x" * 1000, True),
    ]
    assert push.unsent == 0


def test_a_repetition_of_what_is_in_hand_brings_only_its_lease(push):
    (job,) = push.receive(pushed(1, 10, b"slow"), 0.0)
    push.connected(0.0)
    assert push.receive(pushed(2, 10, b"slow"), 0.0) == []
    push.succeeded(job)
    subscribe, ack = calls(push.data_to_send())
    assert (subscribe[0], list(ack[1].lease_ids)) == ("subscribe", [2])


def test_what_was_told_last_is_told_again_on_the_next_connection(push):
    """A broker that was killed may not have had it on its disk."""
    jobs = push.receive(pushed(1, 10) + pushed(2, 11) + pushed(3, 12), 0.0)
    push.succeeded(jobs[0])
    push.failed(jobs[1], "tired")
    push.data_to_send()
    push.succeeded(jobs[2])
    push.connected(0.0)
    assert [kind for kind, _ in calls(push.data_to_send())] == [
        "subscribe",
        "ack_many",
        "nack_many",
    ]
    push.connected(0.0)
    _, ack, nack = calls(push.data_to_send())
    assert (list(ack[1].lease_ids), list(nack[1].lease_ids), nack[1].reason) == (
        [1, 3],
        [2],
        "tired",
    )


def test_no_more_is_told_again_than_may_have_been_lost(push):
    for lease in range(1, 101):
        (job,) = push.receive(pushed(lease, lease), 0.0)
        push.succeeded(job)
        push.data_to_send()
    push.connected(0.0)
    _, ack = calls(push.data_to_send())
    assert list(ack[1].lease_ids) == list(range(93, 101)), "twice the prefetch of 4"


def test_a_repetition_of_what_is_done_is_handled_again(push):
    (job,) = push.receive(pushed(1, 10), 0.0)
    push.succeeded(job)
    (again,) = push.receive(pushed(2, 10), 0.0)
    assert again.lease_id == 2


def test_an_offset_of_a_topic_made_anew_is_another_message(push):
    """Nothing may be acknowledged unseen because an older message had the same offset."""
    (old,) = push.receive(pushed(1, 0, b"old"), 0.0)
    (new,) = push.receive(pushed(2, 0, b"new"), 0.0)
    push.succeeded(old)
    assert settled(push) == [("ack_many", [1], "", False)]
    push.succeeded(new)
    assert settled(push) == [("ack_many", [2], "", False)]


def test_with_auto_nothing_is_told_and_nothing_is_held_back():
    push = PushSession(requests.subscribe("t", "g", 4, ack_mode="auto"))
    (job,) = push.receive(pushed(1, 10), 0.0)
    assert len(push.receive(pushed(1, 10), 0.0)) == 1
    push.succeeded(job)
    push.failed(job, "")
    assert (push.unsent, push.data_to_send()) == (0, b"")


def test_what_is_no_push_ends_the_connection_after_what_came_before_it(push):
    assert len(push.receive(pushed(1, 10) + encode.error("not_leader", "no"), 0.0)) == 1
    with pytest.raises(NotLeaderError):
        push.check()
    push.connected(0.0)
    push.check()
    push.receive(encode.produced(1), 0.0)
    with pytest.raises(BrokerProtocolError):
        push.check()
