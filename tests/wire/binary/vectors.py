"""Byte vectors of the binary protocol, and events in a plain form that no cut can change.

The files are written as those of MQTT are (``tests.wire.vectors``). Runs are taken apart, text is
Latin-1, signatures are hex, and of a violation only the reason counts.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from penstock.model.message import Signature
from penstock.wire.binary import BinaryClientMachine, BinaryServerMachine, events
from penstock.wire.binary.fields import HelloFields, SubscribeFields, WelcomeFields
from penstock.wire.binary.machine import BinaryMachine
from penstock.wire.violation import Violation
from tests.wire.vectors import wire_bytes

MACHINES = {"server": BinaryServerMachine, "client": BinaryClientMachine}


def load(name: str) -> list[dict]:
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text("ascii"))


def vector(file: str, name: str) -> bytes:
    (found,) = [item for item in load(file) if item["name"] == name]
    return wire_bytes(found["bytes"])


def feed(machine: BinaryMachine, pieces: Iterable[bytes]) -> list[list]:
    return [item for piece in pieces for item in plain(machine.receive(piece))]


def plain(seen: list[events.Event]) -> list[list]:
    return [item for event in seen for item in _plain(event)]


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def proof(value: Signature | None) -> list | None:
    if value is None:
        return None
    return [
        value.version,
        value.key_id,
        value.signature.hex(),
        value.signed_ms,
        value.nonce.hex(),
    ]


def numbers(fields: HelloFields | WelcomeFields) -> list:
    return [
        value.hex() if isinstance(value, bytes) else value
        for value in msgspec.structs.astuple(fields)
    ]


def _plain(event: events.Event) -> Iterator[list]:
    match event:
        case events.BinaryPublishRun(topic, payloads, sequences, flags):
            for payload, sequence in zip(payloads, sequences, strict=True):
                more = [flags] if flags else []
                yield ["publish", sequence, text(topic), text(payload), *more]
        case events.SignedPublish(sequence, topic, payload, signature):
            yield ["signed publish", sequence, text(topic), text(payload), proof(signature)]
        case events.BinarySubscribe(sequence, client_id, topic, accepts_version_2, fields):
            more = [] if fields == SubscribeFields() else [msgspec.to_builtins(fields)]
            yield ["subscribe", sequence, text(client_id), text(topic), accepts_version_2, *more]
        case events.BinaryUnsubscribe(sequence, topic):
            yield ["unsubscribe", sequence, text(topic)]
        case events.BinaryAuth(sequence, user, secret):
            yield ["auth", sequence, text(user), text(secret)]
        case events.BinaryChallenge(sequence, nonce):
            yield ["challenge", sequence, nonce.hex()]
        case events.BinaryAcks(sequences):
            yield from (["ack", sequence] for sequence in sequences)
        case events.Acked(sequences):
            yield from (["acked", sequence] for sequence in sequences)
        case events.Ping(count):
            yield from [["ping"]] * count
        case events.Unknown(command, _):
            yield ["unknown", command]
        case events.ReceivedMessage(topic, payload, sequence, signature):
            yield ["received", sequence, text(topic), text(payload), proof(signature)]
        case events.Failed(message, "", 0):
            yield ["failed", message]
        case events.Failed(message, code, sequence):
            yield ["failed", message, code, sequence]
        case events.BinaryHello(sequence, client_id, fields):
            yield ["hello", sequence, text(client_id), *numbers(fields)]
        case events.BinaryWelcome(sequence, fields):
            yield ["welcome", sequence, *numbers(fields)]
        case events.Malformed(sequence, command, why):
            yield ["malformed", sequence, command, why]
        case events.Withheld(topic, sequence, payload_bytes):
            yield ["withheld", sequence, text(topic), payload_bytes]
        case events.BinaryPong():
            yield ["pong"]
        case Violation(reason):
            yield ["violation", reason.value]
