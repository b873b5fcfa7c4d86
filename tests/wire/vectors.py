"""Byte vectors in JSON, and events in a plain form that does not depend on how bytes were cut.

A vector has a ``name`` that begins with the clause it is about, the ``state`` the machine is in,
``bytes`` in hex, one group per field (``78*300`` is a byte 300 times), and what to ``expect``:
lists that begin with a word. Runs of messages and acknowledgements are taken apart, text is Latin-1
so that any byte can be written, and of a violation only the reason counts.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine, events
from penstock.wire.mqtt.machine import MqttMachine
from penstock.wire.violation import Violation

SERVER_FILES = ("acknowledge", "connect", "length", "publish", "state", "subscribe")
CLIENT_FILES = ("client",)
CONNECT = bytes.fromhex("100d 00044d515454 04 02 003c 000161")
CONNACK = bytes.fromhex("2002 0000")


def load(name: str) -> list[dict]:
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text("ascii"))


def wire_bytes(text: str) -> bytes:
    groups = (group.partition("*") for group in text.split())
    return b"".join(bytes.fromhex(digits) * int(times or 1) for digits, _, times in groups)


def expectation(value):
    """Write abbreviated long texts out."""
    if isinstance(value, dict) and "repeat" in value:
        return value["repeat"] * value["times"]
    if isinstance(value, dict):
        return {key: expectation(item) for key, item in value.items()}
    if isinstance(value, list):
        return [expectation(item) for item in value]
    return value


def server_in(state: str) -> MqttServerMachine:
    return _brought_to(state, MqttServerMachine(), CONNECT)


def client_in(state: str) -> MqttClientMachine:
    return _brought_to(state, MqttClientMachine(), CONNACK)


def _brought_to(state, machine, first_packet):
    if state == "connected":
        machine.receive(first_packet)
    assert machine.state.name.lower() == state
    return machine


def feed(machine: MqttMachine, pieces) -> list[list]:
    return [item for piece in pieces for item in plain(machine.receive(piece))]


def plain(seen: list[events.Event]) -> list[list]:
    return [item for event in seen for item in _plain(event)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _plain(event: events.Event) -> Iterator[list]:
    match event:
        case events.MqttPublishRun(topic, payloads):
            for payload in payloads:
                yield ["publish", _text(topic), _text(payload), 0, False, False, 0]
        case events.Publish(topic, payload, qos, retain, dup, packet_id):
            yield ["publish", _text(topic), _text(payload), qos, retain, dup, packet_id]
        case events.MqttAcks(kind, packet_ids):
            for packet_id in packet_ids:
                yield ["ack", kind, packet_id]
        case events.Connect():
            yield ["connect", _plain_connect(event)]
        case events.ConnectRefused(return_code, reason):
            yield ["refused", return_code, reason.value]
        case events.MqttSubscribe(packet_id, requests):
            yield ["subscribe", packet_id, [[_text(name), qos] for name, qos in requests]]
        case events.MqttUnsubscribe(packet_id, filters):
            yield ["unsubscribe", packet_id, [_text(name) for name in filters]]
        case events.ConnAck(session_present, return_code):
            yield ["connack", session_present, return_code]
        case events.SubAck(packet_id, return_codes):
            yield ["suback", packet_id, return_codes]
        case events.UnsubAck(packet_id):
            yield ["unsuback", packet_id]
        case Violation(reason, _):
            yield ["violation", reason.value]
        case _:
            yield [type(event).__name__.lower()]


def _plain_connect(packet: events.Connect) -> dict:
    will = packet.will
    return {
        "client_id": _text(packet.client_id),
        "clean_session": packet.clean_session,
        "keep_alive": packet.keep_alive,
        "will": will and [_text(will.topic), _text(will.payload), will.qos, will.retain],
        "username": _text(packet.username),
        "password": _text(packet.password),
    }
