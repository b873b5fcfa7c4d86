"""CONNECT and CONNACK in version 5: what is accepted, refused with a code, and announced."""

import pytest

from tests.conformance import packets5 as v5


@pytest.mark.proves5("MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-3.2.0-2", "MQTT-4.2-1")
def test_a_good_connect_is_answered_by_connack_zero_and_no_second_one(dial, unique):
    client = dial()
    client.send(v5.connect(unique))
    client.expect_connack()
    client.expect_nothing()
