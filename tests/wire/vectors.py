"""Byte vectors in JSON, and events in a plain form that does not depend on how bytes were cut.

A vector has a ``name`` that begins with the clause it is about, the ``state`` the machine is in,
``bytes`` in hex, one group per field (``78*300`` is a byte 300 times), and what to ``expect``:
lists that begin with a word. Runs of messages and acknowledgements are taken apart, text is Latin-1
so that any byte can be written, and of a violation only the reason counts. Files whose names end in
``_5`` are about MQTT 5: what a packet has beyond 3.1.1, a reason code or properties, comes last in
its list, and only if it is there.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine, events
from penstock.wire.mqtt.machine import MqttMachine
from penstock.wire.mqtt.message_properties import MessageProperties
from penstock.wire.mqtt.properties import Properties
from penstock.wire.violation import Violation

SERVER_FILES = ("acknowledge", "connect", "length", "publish", "state", "subscribe")
CLIENT_FILES = ("client",)
SERVER_FILES_5 = ("acknowledge_5", "connect_5", "publish_5", "state_5", "subscribe_5")
CLIENT_FILES_5 = ("client_5",)
CONNECT = bytes.fromhex("100d 00044d515454 04 02 003c 000161")
CONNACK = bytes.fromhex("2002 0000")
CONNECT_5 = bytes.fromhex("100e 00044d515454 05 02 003c 00 000161")
CONNACK_5 = bytes.fromhex("2003 000000")


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


def server_5_in(state: str) -> MqttServerMachine:
    machine = _brought_to(state, MqttServerMachine(), CONNECT_5)
    machine.alias_max = 4
    return machine


def client_5_in(state: str) -> MqttClientMachine:
    return _brought_to(state, MqttClientMachine(version=5), CONNACK_5)


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
            each = event.each or [event.properties] * len(payloads)
            for payload, own in zip(payloads, each, strict=True):
                more = _of_message(own)
                yield ["publish", _text(topic), _text(payload), 0, False, False, 0, *more]
        case events.Publish(topic, payload, qos, retain, dup, packet_id):
            more = _of_message(event.properties)
            yield ["publish", _text(topic), _text(payload), qos, retain, dup, packet_id, *more]
        case events.MqttAcks(kind, packet_ids):
            more = [] if event.codes is None else event.codes
            for packet_id in packet_ids:
                yield ["ack", kind, packet_id, *more, *_of_packet(event.properties)]
        case events.Connect():
            yield ["connect", _plain_connect(event), *_of_connect(event)]
        case events.ConnectRefused(return_code, reason):
            yield ["refused", return_code, reason.value]
        case events.MqttSubscribe(packet_id, requests):
            more = _of_packet(event.properties)
            yield ["subscribe", packet_id, [[_text(name), qos] for name, qos in requests], *more]
        case events.MqttUnsubscribe(packet_id, filters):
            more = _of_packet(event.properties)
            yield ["unsubscribe", packet_id, [_text(name) for name in filters], *more]
        case events.ConnAck(session_present, return_code):
            yield ["connack", session_present, return_code, *_of_packet(event.properties)]
        case events.SubAck(packet_id, return_codes):
            yield ["suback", packet_id, return_codes, *_of_packet(event.properties)]
        case events.UnsubAck(packet_id):
            codes = [event.codes] if event.codes else []
            yield ["unsuback", packet_id, *codes, *_of_packet(event.properties)]
        case events.Auth(code, properties):
            yield ["auth", code, *_of_packet(properties)]
        case events.Disconnect(code, properties) if event != events.Disconnect():
            yield ["disconnect", code, *_of_packet(properties)]
        case Violation(reason, _):
            yield ["violation", reason.value]
        case _:
            yield [type(event).__name__.lower()]


def _of_packet(properties: Properties) -> list[dict]:
    names = properties.__struct_fields__
    given = {name: getattr(properties, name) for name in names}
    found = {name: _jsonable(value) for name, value in given.items() if value not in (None, ())}
    return [found] if found else []


def _of_message(properties: MessageProperties | None) -> list[dict]:
    if properties is None:
        return []
    given = {
        "headers": _jsonable(properties.headers),
        "expiry_s": properties.expiry_s,
        "ids": list(properties.subscription_ids),
    }
    found = {name: value for name, value in given.items() if value not in (None, [])}
    return [found] if found else []


def _of_connect(packet: events.Connect) -> list[dict]:
    will = packet.will
    if will is None or (will.properties is None and not will.delay_s):
        return _of_packet(packet.properties)
    return [{"will": _of_message(will.properties)[0], "delay_s": will.delay_s}]


def _jsonable(value):
    if isinstance(value, bytes):
        return _text(value)
    return [_jsonable(item) for item in value] if isinstance(value, tuple) else value


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
