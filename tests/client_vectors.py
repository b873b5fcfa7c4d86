"""``clients/vectors.json``: what every client must write and read, byte for byte.

One file for all of them, in whatever language: it is made from the broker's codec, and the tests of
each client go through it. All bytes are hexadecimal. Its parts:

=============  ===================================================================================
frames         every frame of the binary protocol, both ways, with its fields
streams        several frames in one piece, to be cut anywhere: the result must be the same
cut            beginnings of frames: no event, and no fault
faults         what no broker sends: the client ends the connection
signatures     RFC 8032; what versions 1 and 2 cover, and the signatures; the answer to a challenge
envelopes      signed messages of MQTT clients, published to ``$signed/`` and their topic
queue          messages of the queue protocol, framed, with the fields that they have
errors         every text of an ERROR with its code word, its kind, and what a client does
backoff        pauses between attempts to reconnect, before and with the longest jitter
=============  ===================================================================================
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from penstock.client.binary.timing import Backoff
from penstock.model.history_start import HistoryStart
from penstock.model.message import Signature
from penstock.trust import signatures
from penstock.wire.binary import client, encode
from penstock.wire.binary.errors import ErrorCode
from penstock.wire.binary.fields import Feature, HelloFields, SubscribeFields, WelcomeFields
from penstock.wire.binary.frame import PublishFlag, frame_at
from penstock.wire.mqtt import envelope
from penstock.wire.queue import encode as queue
from penstock.wire.queue._generated import queue_pb2 as pb

SEED = bytes.fromhex("6f1c0b7a52d94e8830a7c4f5e2961d3b874a0ee95bd62c71f8a3940d65be12c7")
KEY_ID = 7
TOPIC, SIGNED_TOPIC, PAYLOAD = b"pump/7/bar", b"secure/pump7/bar", b"4.2"
UNICODE_TOPIC = "küche/温度".encode()
LONG_TOPIC = b"plant/" + b"x" * 1_018
SIGNED_MS, NONCE = 1_800_000_000_000, bytes.fromhex("a1b2c3d4e5f60718")
CHALLENGE = bytes(range(32))
EPOCH = bytes.fromhex("0102030405060708")

# RFC 8032, section 7.1: seed, public key, message, signature
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


def text() -> str:
    """The file."""
    return json.dumps(document(), indent=1, ensure_ascii=True) + "\n"


def document() -> dict[str, Any]:
    return {
        "about": "Made by make docs from the broker's codec; see tests/client_vectors.py.",
        "frames": [_described(*found) for found in _frames()],
        "streams": _streams(),
        "cut": _cut(),
        "faults": _faults(),
        "signatures": _signatures(),
        "envelopes": _envelopes(),
        "queue": [_queue(*found) for found in _queue_messages()],
        "errors": [_error(code) for code in ErrorCode],
        "backoff": _backoff(),
    }


# ── frames


def _signed(version: int) -> Signature:
    if version == 1:
        return signatures.sign_1(SEED, KEY_ID, SIGNED_TOPIC, PAYLOAD)
    return signatures.sign_2(SEED, KEY_ID, SIGNED_TOPIC, PAYLOAD, signed_ms=SIGNED_MS, nonce=NONCE)


def _frames() -> Iterator[tuple[str, str, bytes]]:
    """Name, sender, bytes."""
    yield from ((name, "client", frame) for name, frame in _client_frames().items())
    yield from ((name, "broker", frame) for name, frame in _broker_frames().items())


def _client_frames() -> dict[str, bytes]:
    login = signatures.sign_login(SEED, CHALLENGE)
    features = Feature.CODED_ERRORS | Feature.DEDUPLICATION
    hello = HelloFields(features, 512, 60, EPOCH)
    return {
        "PUBLISH": client.publish(TOPIC, PAYLOAD, 7),
        "PUBLISH, empty": client.publish(TOPIC, b"", 8),
        "PUBLISH, topic in UTF-8": client.publish(UNICODE_TOPIC, bytes(range(256)), 2**64 - 1),
        "SUBSCRIBE": client.subscribe(1, TOPIC),
        "SUBSCRIBE, with client id": client.subscribe(1, TOPIC, b"billing"),
        "SUBSCRIBE, accepts version 2": client.subscribe(
            1, TOPIC, b"billing", accepts_version_2=True
        ),
        "SUBSCRIBE, from the earliest": _subscribe(start=HistoryStart()),
        "SUBSCRIBE, from the latest": _subscribe(is_from_now=True),
        "SUBSCRIBE, the last 10": _subscribe(start=HistoryStart(last=10)),
        "SUBSCRIBE, since a time": _subscribe(start=HistoryStart(since_ms=SIGNED_MS)),
        "SUBSCRIBE, prefetch 1": _subscribe(prefetch=1),
        "SUBSCRIBE, retained first": _subscribe(retained_first=True),
        "SUBSCRIBE, all fields": _subscribe(
            start=HistoryStart(last=3), prefetch=8, retained_first=True
        ),
        "UNSUBSCRIBE": client.unsubscribe(2, TOPIC),
        "ACK": encode.ack(42),
        "PING": client.ping(),
        "SIGNED_PUBLISH": client.signed_publish(SIGNED_TOPIC, PAYLOAD, 8, _signed(1)),
        "SIGNED_PUBLISH_2": client.signed_publish(SIGNED_TOPIC, PAYLOAD, 9, _signed(2)),
        "AUTH": client.auth(3, b"ann", b"s3cret"),
        "AUTH, asks for a challenge": client.auth(4, b"key:7"),
        "AUTH, answers the challenge": client.auth(5, b"key:7", login),
        "HELLO": client.hello(1, b"pump-7", hello),
        "HELLO, without anything": client.hello(1, b"", HelloFields()),
        "PUBLISH_2, retain": client.publish_2(TOPIC, PAYLOAD, 10, PublishFlag.RETAIN),
        "PUBLISH_2, no reply": client.publish_2(TOPIC, PAYLOAD, 11, PublishFlag.NO_REPLY),
        "PUBLISH_2, clears what is retained": client.publish_2(TOPIC, b"", 12, PublishFlag.RETAIN),
    }


def _subscribe(**fields: Any) -> bytes:
    return client.subscribe(1, TOPIC, fields=SubscribeFields(**fields))


def _broker_frames() -> dict[str, bytes]:
    welcome = WelcomeFields(3, 16 * 1024 * 1024, 90, SIGNED_MS)
    return {
        "MESSAGE": encode.message(TOPIC, PAYLOAD, 42),
        "MESSAGE, empty, not journaled": encode.message(TOPIC, b"", 0),
        "MESSAGE, longest topic": encode.message(LONG_TOPIC, PAYLOAD, 43),
        "MESSAGE, larger than 512 bytes": encode.message(TOPIC, bytes(range(256)) * 3, 44),
        "SIGNED_MESSAGE": encode.signed_message(SIGNED_TOPIC, PAYLOAD, 45, _signed(1)),
        "SIGNED_MESSAGE_2": encode.signed_message(SIGNED_TOPIC, PAYLOAD, 46, _signed(2)),
        "ACK of a request": encode.ack(7),
        "PONG": encode.pongs(1),
        "CHALLENGE": encode.challenge(4, CHALLENGE),
        "ERROR": encode.error("Unknown command"),
        "ERROR, coded": encode.coded_error("unknown_command", 9, "Unknown command"),
        "WELCOME": encode.welcome(1, welcome),
        "WITHHELD": encode.withheld(TOPIC, 44, 768, 512),
        "WITHHELD, topic cut": encode.withheld(LONG_TOPIC, 47, 100_000, 256),
    }


def _described(name: str, sender: str, data: bytes) -> dict[str, Any]:
    found = frame_at(data, 0)
    described = {
        "name": name,
        "from": sender,
        "hex": data.hex(),
        "command": found.command,
        "sequence": str(found.sequence),  # as text: JSON numbers end at 2^53 in some languages
        "topic": found.topic.hex(),
        "payload": found.payload.hex(),
    }
    return described | ({"trailer": found.trailer.hex()} if found.trailer else {})


def _streams() -> list[dict[str, Any]]:
    """What a broker sends in one piece."""
    frames = _broker_frames()
    history = [
        "MESSAGE",
        "MESSAGE, longest topic",
        "ACK of a request",
        "SIGNED_MESSAGE",
        "SIGNED_MESSAGE_2",
        "MESSAGE, larger than 512 bytes",
        "PONG",
        "ERROR, coded",
        "WITHHELD",
    ]
    return [
        {
            "name": "history, answers and signed messages",
            "frames": history,
            "hex": b"".join(frames[name] for name in history).hex(),
        }
    ]


def _cut() -> list[dict[str, Any]]:
    frames = _broker_frames()
    places = {
        "PONG": [1, 2, 15],
        "MESSAGE": [10, 16, 20, 28],
        "SIGNED_MESSAGE_2": [35, 36, 118],
        "WELCOME": [17],
    }
    return [
        {
            "frame": name,
            "bytes": place,
            "hex": frames[name][:place].hex(),
            "missing": frames[name][place:].hex(),
        }
        for name, found in places.items()
        for place in found
    ]


def _faults() -> list[dict[str, str]]:
    frames = {
        "another version": encode.ack(7).replace(b"\1", b"\2", 1),
        "HTTP": b"HTTP/1.1 400 Bad Request\r\n",
        "a command of clients": client.publish(TOPIC, PAYLOAD, 7),
    }
    return [{"name": name, "hex": data.hex()} for name, data in frames.items()]


# ── signatures


def _signatures() -> dict[str, Any]:
    public_key = signatures.key_pair(SEED).public_key
    one, two = _signed(1), _signed(2)
    common = {"topic": SIGNED_TOPIC.hex(), "payload": PAYLOAD.hex()}
    return {
        "rfc8032": [
            dict(zip(("seed", "public_key", "message", "signature"), row, strict=True))
            for row in RFC_8032
        ],
        "seed": SEED.hex(),
        "public_key": public_key.hex(),
        "key_id": KEY_ID,
        "version_1": common
        | {
            "covered": signatures.signed_bytes_1(SIGNED_TOPIC, PAYLOAD).hex(),
            "signature": one.signature.hex(),
        },
        "version_2": common
        | {
            "signed_ms": SIGNED_MS,
            "nonce": NONCE.hex(),
            "covered": signatures.signed_bytes_2(
                SIGNED_TOPIC, PAYLOAD, KEY_ID, SIGNED_MS, NONCE
            ).hex(),
            "signature": two.signature.hex(),
        },
        "login": {
            "nonce": CHALLENGE.hex(),
            "covered": (b"\0penstock-login-1" + CHALLENGE).hex(),
            "signature": signatures.sign_login(SEED, CHALLENGE).hex(),
        },
    }


def _envelopes() -> list[dict[str, Any]]:
    return [
        {
            "version": version,
            "topic": (b"$signed/" + SIGNED_TOPIC).hex(),
            "payload": envelope.sealed(_signed(version), PAYLOAD).hex(),
        }
        for version in (1, 2)
    ]


# ── the queue protocol


def _queue_messages() -> Iterator[tuple[str, str, bytes]]:
    job = pb.Request(
        request_id=1,
        produce=pb.Produce(
            topic="images", payload=b"cat.png", priority=5, producer_id="p-1", seq=9
        ),
    )
    yield "Produce", "client", queue.request(job)
    yield (
        "Produce, with a delay and a time to live",
        "client",
        queue.request(
            pb.Request(
                request_id=2,
                produce=pb.Produce(topic="images", payload=b"x", delay_ms=5_000, ttl_ms=60_000),
            )
        ),
    )
    many = pb.ProduceMany(topic="images", payloads=[b"a", b"", b"c"], producer_id="p-1", seq=10)
    yield "ProduceMany", "client", queue.request(pb.Request(request_id=3, produce_many=many))
    yield "Ack", "client", queue.ack(b"images", b"resize", 2**53 + 1, request_id=4)
    dead = pb.NackMany(
        topic="images", group="resize", lease_ids=[7, 8], reason="no such cat", dead_letter=True
    )
    dead_many = queue.request(pb.Request(request_id=5, nack_many=dead))
    yield "NackMany, as dead letters", "client", dead_many
    yield "Produced", "broker", queue.produced(2**53 + 1, 1)
    yield (
        "Error, another node leads",
        "broker",
        queue.error("not_leader", "node 2 leads", request_id=2, leader_addr="10.0.0.2:1883"),
    )
    yield (
        "Error, later",
        "broker",
        queue.error("rate_limited", "later", request_id=3, retry_after_ms=250),
    )


def _queue(name: str, sender: str, data: bytes) -> dict[str, str]:
    return {"name": name, "from": sender, "hex": data.hex()}


# ── errors and pauses


def _error(code: ErrorCode) -> dict[str, str]:
    """``text`` is an example; ``begins`` and ``ends`` are what recognises it."""
    parts = re.split(r"\{\w+\}", code.text)
    return {
        "code": code.word,
        "kind": code.kind,
        "do": code.remedy,
        "text": re.sub(r"\{\w+\}", "7", code.text),
        "begins": parts[0],
        "ends": parts[-1] if len(parts) > 1 else "",
    }


def _backoff() -> dict[str, Any]:
    pauses = Backoff()
    attempts = range(12)
    return {
        "first_ms": round(pauses.first_s * 1_000),
        "longest_ms": round(pauses.longest_s * 1_000),
        "longest_pauses_ms": [round(pauses.pause_s(n, 0.0) * 1_000) for n in attempts],
        "shortest_pauses_ms": [round(pauses.pause_s(n, 1.0) * 1_000) for n in attempts],
    }
