"""The flags of a journaled message."""

import pytest

from penstock.model.message import Message


@pytest.mark.parametrize(
    ("flags", "qos", "retain"),
    [(0b000, 0, False), (0b001, 1, False), (0b110, 2, True), (0b100, 0, True)],
)
def test_flags_hold_qos_and_retain(flags, qos, retain):
    message = Message(b"a", b"x", sequence=1, offset=0, time_ms=0, flags=flags)
    assert (message.qos, message.retain) == (qos, retain)
