"""The broker's own topics: what is in them reaches nobody by a rule alone, at no door.

A user is given every action on all topics, and on ``$audit/#`` and ``$stage/#`` by name. Only
administrators read the audit log, and nobody sees rows that are staged.
"""

import json
import socket
from base64 import b64encode
from http.client import HTTPConnection
from urllib.parse import quote

import pytest

from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import StagedBlock, StagedLot
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance import wire_client as mqtt
from tests.conformance_binary import wire_client as binary
from tests.conformance_queue.wire_client import QueueClient
from tests.conformance_resp import wire as resp
from tests.conformance_resp.wire import ask

PLANTED = b"planted-row"
NAME = "planted-name"
ACTIONS = "publish,subscribe,read,work,manage"
RULES = [f"allow {ACTIONS} {name}" for name in ("#", "$audit/#", "$stage/#", "$share/#", "$dlq/#")]
AUDIT = "$audit/access"
STAGE = "$stage/s/1/p"


class Listener:
    """A connection whose received bytes are all kept; ``ping`` is answered with ``pong``."""

    def __init__(self, port: int, ping: bytes, pong: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._ping, self._pong = ping, pong
        self.received = b""

    def send(self, *data: bytes) -> None:
        """Send, and read until all of it was handled."""
        self._socket.sendall(b"".join(data) + self._ping)
        start = len(self.received)
        while self._pong not in self.received[start:]:
            chunk = self._socket.recv(65_536)
            assert chunk, self.received
            self.received += chunk

    def close(self) -> None:
        self._socket.close()


def by_mqtt(port, user="nosy"):
    listener = Listener(port, b"\xc0\x00", b"\xd0\x00")
    filters = ["#", "+/access", "$signed/$audit/#", *(
        f"{share}{name}"
        for share in ("", "$share/g/")
        for name in (AUDIT, "$audit/#", "$stage/#", STAGE, "$audit/+")
    )]  # fmt: skip
    login = mqtt.connect_packet("nosy", username=user, password=SECRET.encode())
    listener.send(login, mqtt.subscribe(1, *((name, 1) for name in filters)))
    return listener


def by_resp(port):
    listener = Listener(port, resp.packed("ECHO pong-pong"), b"pong-pong\r\n")
    names = f"{AUDIT} $audit/# $stage/# {STAGE} #"
    commands = [
        f"HELLO 3 AUTH nosy {SECRET}",
        "PSUBSCRIBE * $* $a* $audit/* $stage/* ?audit/access",
    ]
    commands += [f"{word} {name}" for name in names.split() for word in ("SUBSCRIBE", "SSUBSCRIBE")]
    commands += [f"PSUBSCRIBE {name}" for name in ("*", "$*", "$a*", "[$]*", "?stage*")]
    listener.send(*map(resp.packed, commands))
    return listener


def by_binary(port):
    listener = Listener(port, binary.ping(), binary.pong())
    login = binary.frame(0x14, 9, b"nosy", SECRET.encode())
    names = (AUDIT, "$audit/#", "$stage/#", STAGE, "#", "+/access")
    listener.send(login, *(binary.subscribe(name.encode()) for name in names))
    return listener


@pytest.fixture
def broker():
    with Broker(auth=LOGIN_REQUIRED) as own:
        own.add_user("root", SECRET, roles=["admin"])
        own.add_user("nosy", SECRET, rules=RULES)
        yield own


def logged_in(broker, user):
    client = QueueClient(broker.host, broker.port)
    client.ok(authenticate={"user": user, "secret": SECRET.encode()})
    return client


def page(broker, user, method, path, body=None):
    connection = HTTPConnection("127.0.0.1", broker.port)
    login = b64encode(f"{user}:{SECRET}".encode()).decode()
    connection.request(method, path, body, {"authorization": f"Basic {login}"})
    status = connection.getresponse().status
    connection.close()
    return status


def stage(broker):
    """Stage rows, and leave a record in the audit log."""
    block = StagedBlock(lots=[StagedLot(topic="t", payloads=[PLANTED])]).SerializeToString()
    with logged_in(broker, "root") as root:
        root.ok(stage={"sink": "s", "epoch": 1, "part": "p", "block": block})
    body = json.dumps({"name": NAME, "roles": ["client"], "generate_secret": True})
    assert page(broker, "root", "POST", "/users", body) == 200


@pytest.mark.parametrize("door", [by_mqtt, by_resp, by_binary])
def test_nothing_of_them_is_delivered_live(broker, door):
    listener = door(broker.port)
    stage(broker)
    with logged_in(broker, "root") as root:
        root.produce("open", b"the-last")
    while b"the-last" not in listener.received:  # "#" was granted, and what came before is here
        listener.send()
    assert NAME.encode() not in listener.received
    assert PLANTED not in listener.received
    listener.close()


@pytest.mark.parametrize("topic", [AUDIT, STAGE])
def test_their_history_is_not_readable(broker, topic):
    stage(broker)
    redis = ask(
        broker.port, f"AUTH nosy {SECRET}", f"XRANGE {topic} - +", f"XREVRANGE {topic} + -",
        f"XREAD STREAMS {topic} 0", f"XGROUP CREATE {topic} g 0", f"XINFO STREAM {topic} FULL",
        f"XREADGROUP GROUP g c STREAMS {topic} >", f"PULL {topic} GROUP g", f"XTRIM {topic} MAXLEN 0",
        f"DEL {topic}",
    )  # fmt: skip
    with logged_in(broker, "nosy") as nosy:
        asked = [
            {"fetch": {"topic": topic}}, {"fetch": {"topic": topic, "columns": 1}},
            {"fetch_many": {"topics": ["t", topic]}},
            {"locate": {"topic": topic, "times_ms": [0]}}, {"poll": {"topic": topic, "group": "g"}},
            {"create_group": {"topic": topic, "group": "g"}}, {"delete_topic": {"topic": topic}},
            {"subscribe": {"topic": topic, "group": "g"}}, {"set_retention": {"topic": topic}},
        ]  # fmt: skip
        for fields in asked:
            assert nosy.ask(**fields).HasField("error"), fields
        listed = nosy.ask(list_topics={}).topics.topics
        changed = nosy.ask(changes={"filters": ["#", "$stage/#"]})
    assert not [one.name for one in listed if one.name.startswith("$")]
    assert not [one.name for one in changed.changed.topics if one.name.startswith("$")]
    assert NAME.encode() not in redis
    assert PLANTED not in redis
    assert page(broker, "nosy", "GET", f"/topics/{quote(topic)}") in {403, 404}
    assert_all_is_there(broker)  # nothing was deleted either


def assert_all_is_there(broker):
    """Administrators read the log, and committed rows are messages."""
    assert NAME.encode() in ask(broker.port, f"AUTH root {SECRET}", f"XRANGE {AUDIT} - +")
    commit = {"sink": "s", "epoch": 1, "parts": [{"part": "p", "blocks": 1}]}
    with logged_in(broker, "root") as root:
        assert root.ask(commit_stage=commit).stage_committed.messages == 1
    assert PLANTED in ask(broker.port, f"AUTH nosy {SECRET}", "XRANGE t - +")


def test_administrators_follow_the_audit_log(broker):
    listener = by_mqtt(broker.port, "root")
    stage(broker)
    while NAME.encode() not in listener.received:
        listener.send()
    assert PLANTED not in listener.received
    listener.close()
