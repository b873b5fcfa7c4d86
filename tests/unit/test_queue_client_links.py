"""Calls of both queue clients over real sockets, with scripted brokers at the other end."""

import subprocess
import sys
import threading

import pytest
from tests.unit.queue_client_broker import (
    Blocking,
    Looped,
    broker,
    ok,
    polled,
    refused,
    unused_address,
)

from penstock.client import (
    BrokerProtocolError,
    ConnectionLostError,
    Item,
    NotLeaderError,
    PayloadTooLargeError,
    RateLimitedError,
    ReplyTimeoutError,
    UnreachableError,
    connect,
    connect_async,
)
from penstock.errors import LocalProtocolError
from penstock.wire.queue._generated import queue_pb2 as wire


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request):
    made = request.param()
    yield made
    made.close()


class Shelf:
    """A broker's memory over several connections: what was stored, known by producer and seq."""

    def __init__(self):
        self.stored = []
        self._offsets = {}

    def store(self, topic, producer_id, seq, payload):
        key = (topic, producer_id, seq)
        if key not in self._offsets:
            self._offsets[key] = len(self.stored)
            self.stored.append(payload)
        return self._offsets[key]

    def serve(self, peer):
        for request in peer.requests():
            peer.say(request, **self.answer(request))

    def answer(self, request):
        if request.HasField("produce"):
            asked = request.produce
            offset = self.store(asked.topic, asked.producer_id, asked.seq, asked.payload)
            return {"produced": wire.Produced(offset=offset)}
        asked = request.produce_many
        stretches = [
            wire.Stretch(
                offset=self.store(asked.topic, asked.producer_id, asked.seq + index, payload),
                count=1,
            )
            for index, payload in enumerate(asked.payloads)
        ]
        return {"produced_many": wire.ProducedMany(stretches=stretches)}

    def cut_after(self, count):
        """Store this many requests, answer none of them, and close."""

        def converse(peer):
            for _ in range(count):
                self.answer(peer.read())

        return converse


# ── Producing ─────────────────────────────────────────────────────────────────────────────────


def test_what_was_stored_before_the_connection_was_cut_is_not_stored_twice(clients):
    shelf = Shelf()
    with broker(shelf.cut_after(1), shelf.serve) as address, clients.connect(address) as client:
        assert client.produce("t", b"once") == 0
        assert client.produce("t", b"next") == 1
    assert shelf.stored == [b"once", b"next"]


def test_batches_that_were_under_way_when_the_connection_was_cut_are_stored_once(clients):
    shelf = Shelf()
    payloads = [b"%d" % number for number in range(1000)]
    with broker(shelf.cut_after(3), shelf.serve) as address, clients.connect(address) as client:
        results = client.produce_many("t", payloads)
    assert [result.offset for result in results] == list(range(1000))
    assert shelf.stored == payloads


def test_each_topic_is_counted_from_zero_under_an_id_of_the_clients_own(clients):
    seen = []

    def converse(peer):
        for request in peer.requests():
            seen.append(request.produce)
            peer.say(request, produced=wire.Produced())

    with broker(converse, converse) as address:
        for _ in range(2):
            with clients.connect(address) as client:
                client.produce("a", b"")
                client.produce("b", b"")
                client.produce("a", b"")
    assert [(asked.topic, asked.seq) for asked in seen[:3]] == [("a", 0), ("b", 0), ("a", 1)]
    assert len({asked.producer_id for asked in seen[:3]}) == 1
    assert seen[0].producer_id != seen[3].producer_id, "another client, another producer"
    assert seen[0].producer_id


def test_a_named_producer_is_told_each_seq_and_others_none(clients):
    seen = []

    def converse(peer):
        for request in peer.requests():
            seen.append((request.produce.producer_id, request.produce.seq))
            peer.say(request, produced=wire.Produced())

    with broker(converse, converse) as address:
        with clients.connect(address, producer_id="billing") as client:
            client.produce("t", b"", seq=7)
            with pytest.raises(LocalProtocolError, match="without a seq"):
                client.produce("t", b"")
        with clients.connect(address) as client, pytest.raises(LocalProtocolError, match="seq"):
            client.produce("t", b"", seq=7)
    assert seen == [("billing", 7)]


def test_items_and_payloads_are_told_their_results_in_their_order(clients):
    seen = []

    def converse(peer):
        for request in peer.requests():
            asked = request.produce_many
            seen.append((asked.priority, list(asked.payloads), asked.seq))
            too_large = wire.Refusal(
                index=0, error=wire.Error(code="payload_too_large", message="no")
            )
            answer = (
                wire.ProducedMany(refusals=[too_large])
                if b"large" in asked.payloads
                else wire.ProducedMany(stretches=[wire.Stretch(offset=10, count=2)])
            )
            peer.say(request, produced_many=answer)

    items = [b"a", b"b", Item(b"large", priority=7)]
    with broker(converse) as address, clients.connect(address) as client:
        results = client.produce_many("t", items)
    assert seen == [(0, [b"a", b"b"], 0), (7, [b"large"], 2)]
    assert [result.offset for result in results] == [10, 11, None]
    assert isinstance(results[2].error, PayloadTooLargeError)


def test_a_message_says_all_that_can_be_said_of_it(clients):
    seen = []

    def converse(peer):
        request = peer.read()
        seen.append(request.produce)
        peer.say(request, produced=wire.Produced(offset=300))

    with broker(converse) as address, clients.connect(address) as client:
        offset = client.produce(
            "t",
            b"{}",
            priority=3,
            content_type="json",
            delay_s=1.5,
            ttl_s=60,
            headers={"to": b"ann"},
        )
    assert offset == 300
    (asked,) = seen
    assert (asked.priority, asked.content_type, asked.delay_ms, asked.ttl_ms) == (
        3,
        2,
        1500,
        60_000,
    )
    assert [(header.name, header.value) for header in asked.headers] == [("to", b"ann")]


# ── One connection for all ────────────────────────────────────────────────────────────────────


def test_a_long_poll_holds_up_nobody(clients):
    polling, produced = threading.Event(), threading.Event()

    def converse(peer):
        poll = peer.read()
        polling.set()
        produce = peer.read()
        peer.say(produce, produced=wire.Produced(offset=1))
        assert produced.wait(20), "answered while the poll waits"
        peer.say(poll, **polled((0, b"late")))

    with broker(converse) as address, clients.connect(address) as client:
        jobs = []
        waiting = threading.Thread(target=lambda: jobs.extend(client.poll("t", "g", wait_s=20)))
        waiting.start()
        assert polling.wait(20)
        client.produce("t", b"")
        produced.set()
        waiting.join()
    assert [job.payload for job in jobs] == [b"late"]


def test_a_broker_that_knows_no_numbers_is_understood(clients):
    def converse(peer):
        for number, _request in enumerate(peer.requests()):
            peer.say(produced=wire.Produced(offset=number))

    with broker(converse) as address, clients.connect(address) as client:
        assert [client.produce("t", b"") for _ in range(3)] == [0, 1, 2]


def test_many_callers_share_a_connection_and_get_their_own_answers(clients):
    def converse(peer):
        for request in peer.requests():
            peer.say(request, produced=wire.Produced(offset=int(request.produce.payload)))

    found = {}

    def call(client, number):
        found[number] = client.produce("t", b"%d" % number)

    with broker(converse) as address, clients.connect(address) as client:
        callers = [threading.Thread(target=call, args=(client, n)) for n in range(32)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert found == {number: number for number in range(32)}


# ── Trouble ───────────────────────────────────────────────────────────────────────────────────


def test_the_next_address_is_tried_when_nobody_is_at_the_first(clients):
    shelf = Shelf()
    with broker(shelf.serve) as address, clients.connect(unused_address(), address) as client:
        assert client.produce("t", b"") == 0


def test_who_is_nowhere_is_told_so(clients):
    with pytest.raises(UnreachableError), clients.connect(unused_address(), timeout_s=0.1):
        pass


def test_a_leader_that_is_named_is_asked(clients):
    shelf = Shelf()
    nobody = unused_address()  # next in the list: taken if the hint were ignored
    with broker(shelf.serve) as leader:

        def point(peer):
            peer.say(peer.read(), **refused("not_leader", leader_addr=leader))

        with broker(point) as follower, clients.connect(follower, nobody, leader) as client:
            assert client.produce("t", b"") == 0
    assert shelf.stored == [b""]


def test_a_leader_that_is_none_of_our_addresses_is_asked(clients):
    shelf = Shelf()
    with broker(shelf.serve) as leader:

        def point(peer):
            peer.say(peer.read(), **refused("not_leader", leader_addr=leader))

        with broker(point) as follower, clients.connect(follower) as client:
            assert client.produce("t", b"") == 0
    assert shelf.stored == [b""]


def test_a_cluster_without_a_quorum_is_asked_until_it_has_one(clients):
    shelf = Shelf()

    def refuse(peer):
        peer.say(peer.read(), **refused("no_quorum", retry_after_ms=1))

    with broker(refuse, refuse, shelf.serve) as address, clients.connect(address) as client:
        assert client.produce("t", b"") == 0
    assert shelf.stored == [b""]


def test_a_cluster_without_a_leader_is_an_error_in_the_end(clients):
    def point(peer):
        for request in peer.requests():
            peer.say(request, **refused("not_leader"))

    with (
        broker(again=point) as address,
        clients.connect(address, timeout_s=0.2) as client,
        pytest.raises(NotLeaderError),
    ):
        client.produce("t", b"")


def test_a_broker_that_falls_silent_is_left_for_the_next_one(clients):
    shelf = Shelf()
    heard = threading.Event()

    def be_silent(peer):
        peer.read()
        heard.set()
        assert peer.read() is None, "the client hangs up"

    with broker(be_silent) as silent, broker(shelf.serve) as other:
        with clients.connect(silent, other, timeout_s=2) as client:
            assert client.produce("t", b"") == 0
        assert heard.is_set()


def test_silence_is_an_error_in_the_end(clients):
    def be_silent(peer):
        while peer.read() is not None:
            pass

    with (
        broker(again=be_silent) as address,
        clients.connect(address, timeout_s=0.3) as client,
        pytest.raises((ReplyTimeoutError, ConnectionLostError)),
    ):
        client.produce("t", b"")


def test_what_speaks_another_protocol_is_no_broker(clients):
    def greet(peer):
        peer.read()
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)

    with (
        broker(again=greet) as address,
        clients.connect(address, timeout_s=0.2) as client,
        pytest.raises(BrokerProtocolError),
    ):
        client.stats()


def test_closing_fails_what_is_under_way(clients):
    asked = threading.Event()
    errors = []

    def converse(peer):
        peer.read()
        asked.set()
        assert peer.read() is None

    def call(client):
        with pytest.raises(ConnectionLostError) as met:
            client.stats()
        errors.append(met.value)

    with broker(converse) as address, clients.connect(address, timeout_s=1000) as client:
        caller = threading.Thread(target=call, args=(client,))
        caller.start()
        assert asked.wait(20)
        client.close()
        caller.join()
        with pytest.raises(ConnectionLostError):
            client.stats()
    assert len(errors) == 1


def test_a_client_at_rest_comes_back_when_it_has_something_to_say(clients):
    shelf = Shelf()
    with (
        broker(lambda peer: peer.say(peer.read(), **ok()), shelf.serve) as address,
        clients.connect(address) as client,
    ):
        client.commit("t", "g", 1)
        assert client.produce("t", b"") == 0


# ── Consuming ─────────────────────────────────────────────────────────────────────────────────


def test_a_poll_whose_answer_was_lost_is_asked_again(clients):
    def converse(peer):
        peer.say(peer.read(), **polled((0, b"job")))

    with (
        broker(lambda peer: peer.read(), converse) as address,
        clients.connect(address) as client,
    ):
        (job,) = client.poll("t", "g")
    assert (job.topic, job.group, job.lease_id, job.offset) == ("t", "g", 0, 100)


def test_a_poll_that_may_have_lost_messages_says_so(clients):
    def serve(peer):
        for request in peer.requests():
            peer.say(request, **ok())

    with broker(lambda peer: peer.read(), serve) as address, clients.connect(address) as client:
        with pytest.raises(ConnectionLostError, match="more than once"):
            client.poll("t", "g", ack_mode="auto")
        client.commit("t", "g", 0)


def test_a_poll_waits_for_the_rate_of_the_topic(clients):
    def converse(peer):
        for _ in range(2):
            peer.say(peer.read(), **refused("rate_limited", retry_after_ms=10))
        peer.say(peer.read(), **polled((0, b"job")))
        peer.say(peer.read(), **refused("rate_limited", retry_after_ms=2500))

    with broker(converse) as address, clients.connect(address) as client:
        assert len(client.poll("t", "g", wait_s=20)) == 1
        with pytest.raises(RateLimitedError) as met:
            client.poll("t", "g")
        assert met.value.retry_after_s == 2.5


def test_jobs_are_settled_together_by_topic_and_group(clients):
    seen = []

    def converse(peer):
        for request in peer.requests():
            if request.HasField("poll"):
                peer.say(request, **polled((1, b"x"), (2, b"y")))
            else:
                seen.append(request)
                peer.say(request, **ok())

    with broker(converse) as address, clients.connect(address) as client:
        jobs = client.poll("t", "g") + client.poll("t", "h")
        client.ack(jobs)
        client.nack(jobs[0], delay_s=2, reason="tired", dead_letter=True)
        client.extend(jobs[:2], 300)
        client.ack([])
    acks, nack, extend = seen[:2], seen[2].nack_many, seen[3].extend
    assert [(ack.ack_many.group, list(ack.ack_many.lease_ids)) for ack in acks] == [
        ("g", [1, 2]),
        ("h", [1, 2]),
    ]
    assert (list(nack.lease_ids), nack.delay_ms, nack.reason) == ([1], 2000, "tired")
    assert nack.dead_letter
    assert (list(extend.lease_ids), extend.visibility_timeout_ms) == ([1, 2], 300_000)
    assert len(seen) == 4


# ── What is loaded, and by whom ───────────────────────────────────────────────────────────────


def test_nobody_pays_for_what_is_not_used():
    """A program that speaks MQTT loads no protobuf, a blocking one no asyncio."""
    code = (
        "import sys; from penstock.client import connect, Publisher;"
        "assert 'google.protobuf' not in sys.modules;"
        "from penstock.client import QueueClient, Job;"
        "assert 'google.protobuf' in sys.modules;"
        "assert 'asyncio' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_addresses_that_cannot_be_are_refused_at_once():
    for nodes in ([], ["127.0.0.1"], ["a b:1"]):
        with pytest.raises(LocalProtocolError):
            connect(nodes)


def test_other_loops_than_that_of_the_library_will_do():
    """uvloop's transports do not derive from asyncio's."""
    uvloop = pytest.importorskip("uvloop")

    async def main(address):
        async with connect_async([address]) as client:
            return await client.produce("t", b"")

    with broker(Shelf().serve) as address:
        assert uvloop.run(main(address)) == 0
