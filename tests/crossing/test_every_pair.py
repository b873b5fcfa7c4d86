"""What one protocol publishes, every other receives in its own encoding.

Every way in with every way out. The payload is hostile to text protocols on purpose: line ends, the
signs of RESP, bytes that are not UTF-8.
"""

import uuid
from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.crossing.doors import HEADERS, WAYS_IN, WAYS_OUT, Got, MqttEnvelope, register_key

PAYLOAD = b"\r\n$3\r\n*1\x00\x01\xff\xfe 21.5"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as own:
        register_key(own)
        yield own


def _is_carried(way_in: str, way_out: str) -> bool:
    """Envelopes are for signed messages only."""
    return WAYS_OUT[way_out] is not MqttEnvelope or "signed" in way_in


PAIRS = [(i, o) for i in WAYS_IN for o in WAYS_OUT if _is_carried(i, o)]


@pytest.mark.parametrize(("way_in", "way_out"), PAIRS)
def test_a_message_crosses(broker: Broker, way_in: str, way_out: str) -> None:
    topic = b"crossing/%b/x" % uuid.uuid4().hex.encode()
    outlet = WAYS_OUT[way_out](broker, topic)
    WAYS_IN[way_in](broker, topic, PAYLOAD)
    got = outlet.next()
    outlet.close()
    assert (got.topic, got.payload) == (topic, PAYLOAD)
    _check_headers(way_in, way_out, got)
    _check_signature(way_in, way_out, got)


def _check_headers(way_in: str, way_out: str, got: Got) -> None:
    expected = HEADERS if way_in == "xadd with headers" else {}
    assert got.headers == (expected if WAYS_OUT[way_out].carries_headers else None)


def _check_signature(way_in: str, way_out: str, got: Got) -> None:
    outlet = WAYS_OUT[way_out]
    version = {"mqtt signed, qos 0": 1, "mqtt signed, qos 1": 2}.get(way_in, 0)
    version = version or (int(way_in[-1]) if way_in.startswith("binary signed") else 0)
    carries = (version == 1 and outlet.carries_signature_1) or (
        version == 2 and outlet.carries_signature_2
    )
    assert (got.signature is not None) == carries


def test_a_retained_message_reaches_whoever_comes_later(broker: Broker) -> None:
    """MQTT gets it as the retained message, the others as entries of the topic."""
    topic = b"crossing/%b/x" % uuid.uuid4().hex.encode()
    WAYS_IN["mqtt retained"](broker, topic, PAYLOAD)
    for name in ("mqtt qos 1", "xread", "xreadgroup", "binary"):
        outlet = WAYS_OUT[name](broker, topic)
        assert outlet.next()[:2] == (topic, PAYLOAD), name
        outlet.close()
