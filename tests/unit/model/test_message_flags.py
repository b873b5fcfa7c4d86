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


@pytest.mark.parametrize(
    ("flags", "priority", "content_type"),
    [(0, 0, 0), (0x70, 7, 0), (0x10, 1, 0), (0x300, 0, 3), (0x100, 0, 1), (0x8F, 0, 0)],
)
def test_flags_hold_priority_and_content_type(flags, priority, content_type):
    message = Message(b"a", b"x", sequence=1, offset=0, time_ms=0, flags=flags)
    assert (message.priority, message.content_type) == (priority, content_type)
