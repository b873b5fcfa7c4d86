"""Frames as other clients and brokers of the queue protocol write them, byte for byte, both ways."""

import pytest

from penstock.wire.queue import QueueClientMachine, QueueServerMachine, encode
from penstock.wire.queue._generated.queue_pb2 import Request, Response
from tests.wire.queue_plain import feed, plain

REQUESTS = {
    "stats": ("00000002 4200", Request(stats={})),
    "produce": (
        "0000000c 0a0a 0a0174 2205 68656c6c6f",
        Request(produce={"topic": "t", "payload": b"hello"}),
    ),
    "produce, all fields": (
        "00000012 0a10 0a0174 1007 1802 2202 6869 2a0170 302a",
        Request(
            produce={
                "topic": "t",
                "priority": 7,
                "content_type": 2,
                "payload": b"hi",
                "producer_id": "p",
                "seq": 42,
            }
        ),
    ),
    "poll": (
        "00000015 1213 0a0174 120167 180a 20e807 2a06 6d616e75616c",
        Request(
            poll={
                "topic": "t",
                "group": "g",
                "max": 10,
                "visibility_timeout_ms": 1000,
                "ack_mode": "manual",
            }
        ),
    ),
    "ack of lease 0": (
        "00000008 1a06 0a0174 120167",
        Request(ack={"topic": "t", "group": "g"}),
    ),
    "set_rate_limit": (
        "00000010 520e 0a0174 11 000000000000e03f 1801",
        Request(set_rate_limit={"topic": "t", "rate_per_sec": 0.5, "burst": 1}),
    ),
    "bootstrap": (
        "00000016 4a14 0a12 0801 120e 3132372e302e302e313a37373030",
        Request(bootstrap={"nodes": [{"id": 1, "peer_addr": "127.0.0.1:7700"}]}),
    ),
    "subscribe": (
        "00000014 6212 0a0174 120167 1810 20b0ea01 2a04 6175746f",
        Request(
            subscribe={
                "topic": "t",
                "group": "g",
                "prefetch": 16,
                "visibility_timeout_ms": 30_000,
                "ack_mode": "auto",
            }
        ),
    ),
}

HELLO = (0, 0, 0, 0, b"hello", 1, 0, ())
RESPONSES = {
    "ok": ("00000002 1a00", Response(ok={}), encode.ok_run(1)),
    "produced 0": ("00000002 0a00", Response(produced={}), encode.produced(0)),
    "produced 300": (
        "00000005 0a03 08ac02",
        Response(produced={"offset": 300}),
        encode.produced(300),
    ),
    "polled, empty": ("00000002 1200", Response(polled={}), encode.polled([])),
    "polled": (
        "0000000d 120b 0a09 2a05 68656c6c6f 3001",
        Response(polled={"items": [{"payload": b"hello", "ts_ms": 1}]}),
        encode.polled([HELLO]),
    ),
}

MEANINGS = {
    "produce": ("produce", b"t", 0, 0, b"", b"hello", 0, 0),
    "produce, all fields": ("produce", b"t", 7, 2, b"p", b"hi", 42, 0),
    "ack of lease 0": ("ack", b"t", b"g", 0, 0),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_read_and_written_as_the_vector_has_it(name):
    text, message = REQUESTS[name]
    frame = bytes.fromhex(text)
    assert encode.request(message) == frame
    kind = message.WhichOneof("kind")
    call = ("call", kind, getattr(message, kind).SerializeToString(deterministic=True), 0)
    assert plain(QueueServerMachine().receive(frame)) == [MEANINGS.get(name, call)]


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_is_read_and_written_as_the_vector_has_it(name):
    text, message, by_hand = RESPONSES[name]
    frame = bytes.fromhex(text)
    assert encode.response(message) == by_hand == frame
    assert QueueClientMachine().receive(frame) == [message]


def test_the_requests_made_by_hand_are_those_of_the_vectors():
    everything = {"priority": 7, "content_type": 2, "producer": b"p", "seq": 42}
    by_hand = {
        "produce": encode.produce(b"t", b"hello"),
        "produce, all fields": encode.produce(b"t", b"hi", **everything),
        "ack of lease 0": encode.ack(b"t", b"g", 0),
    }
    assert by_hand == {name: bytes.fromhex(REQUESTS[name][0]) for name in by_hand}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64])
def test_the_requests_of_the_vectors_may_be_cut_anywhere(size):
    stream = b"".join(bytes.fromhex(text) for text, _ in REQUESTS.values())
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert feed(QueueServerMachine(), pieces) == plain(QueueServerMachine().receive(stream))
