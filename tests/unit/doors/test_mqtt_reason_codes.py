"""Every reason has a code in MQTT 5, and each packet only codes that the standard allows there."""

import pytest

from penstock.doors.mqtt.reason_codes import CODES
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.packet import PacketType
from penstock.wire.mqtt.reason_codes import CODES as ALLOWED
from penstock.wire.mqtt.reason_codes import FAILURE, SERVER_DISCONNECT_CODES


def test_every_reason_has_codes():
    assert set(CODES) == set(DisconnectReason)


@pytest.mark.parametrize("reason", DisconnectReason)
def test_the_codes_of_a_reason_are_failures_that_their_packet_may_have(reason):
    codes = CODES[reason]
    for code, allowed in (
        (codes.connack, ALLOWED[PacketType.CONNACK]),
        (codes.disconnect, SERVER_DISCONNECT_CODES),
    ):
        assert code is None or (code >= FAILURE and code in allowed)
