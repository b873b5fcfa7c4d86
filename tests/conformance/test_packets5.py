"""The suite's own packets of version 5, against bytes written down from the standard's figures.

A builder and a reader that were wrong in the same way would agree with each other; these vectors
agree with the standard.
"""

import pytest

from tests.conformance import packets5 as v5


@pytest.mark.parametrize(
    ("built", "bytes_"),
    [
        (v5.connect("ab", keep_alive=10), "10 0f 00 04 4d 51 54 54 05 02 00 0a 00 00 02 61 62"),
        (
            v5.connect("", clean=False, session_expiry=10),
            "10 12 00 04 4d 51 54 54 05 00 00 3c 05 11 00 00 00 0a 00 00",
        ),
        (v5.publish("t", b"p"), "30 05 00 01 74 00 70"),
        (
            v5.publish("t", b"p", qos=1, packet_id=7, topic_alias=2, user=("a", "b")),
            "32 11 00 01 74 00 07 0a 23 00 02 26 00 01 61 00 01 62 70",
        ),
        (v5.puback(1), "40 02 00 01"),
        (v5.pubrec(1, 0x87), "50 03 00 01 87"),
        (v5.pubrel(1, 0, reason_string="x"), "62 08 00 01 00 04 1f 00 01 78"),
        (v5.subscribe(1, ("a", 0x2E)), "82 07 00 01 00 00 01 61 2e"),
        (v5.subscribe(1, ("a", 1), subscription_id=200), "82 0a 00 01 03 0b c8 01 00 01 61 01"),
        (v5.unsubscribe(1, "a"), "a2 06 00 01 00 00 01 61"),
        (v5.disconnect(), "e0 00"),
        (v5.disconnect(4), "e0 01 04"),
        (v5.disconnect(0, session_expiry=1), "e0 07 00 05 11 00 00 00 01"),
        (v5.auth(0x18, auth_method="M"), "f0 06 18 04 15 00 01 4d"),
    ],
)
def test_builders_make_the_bytes_of_the_standard(built, bytes_):
    assert built.hex(" ") == bytes_


@pytest.mark.parametrize(("number", "bytes_"), [
    (0, "00"), (127, "7f"), (128, "80 01"), (16_383, "ff 7f"), (16_384, "80 80 01"),
    (2_097_151, "ff ff 7f"), (2_097_152, "80 80 80 01"), (268_435_455, "ff ff ff 7f"),
])  # fmt: skip
def test_varints_are_those_of_table_1_1(number, bytes_):
    assert v5.varint(number).hex(" ") == bytes_
    assert v5._Reader(bytes.fromhex(bytes_)).varint() == number


@pytest.mark.parametrize(
    ("bytes_", "read"),
    [
        ("20 03 01 00 00", v5.Packet(2, 0, 0, (0,), {}, session_present=True)),
        ("20 06 00 85 03 21 00 0a", v5.Packet(2, 0, 0, (0x85,), {"receive_maximum": [10]})),
        ("30 05 00 01 74 00 70", v5.Packet(3, 0, 0, (), {}, "t", b"p")),
        ("3d 08 00 01 74 00 09 02 0b 05", v5.Packet(3, 13, 9, (), {"subscription_id": [5]}, "t")),
        ("40 02 00 01", v5.Packet(4, 0, 1, (0,), {})),
        ("50 03 00 01 97", v5.Packet(5, 0, 1, (0x97,), {})),
        ("62 04 00 01 92 00", v5.Packet(6, 0, 1, (0x92,), {})),
        ("90 05 00 01 00 01 80", v5.Packet(9, 0, 1, (1, 0x80), {})),
        ("b0 05 00 01 00 00 11", v5.Packet(11, 0, 1, (0, 0x11), {})),
        ("d0 00", v5.Packet(13)),
        ("e0 01 8e", v5.Packet(14, 0, 0, (0x8E,), {})),
        ("f0 06 18 04 15 00 01 4d", v5.Packet(15, 0, 0, (0x18,), {"auth_method": ["M"]})),
    ],
)
def test_the_reader_reads_the_bytes_of_the_standard(bytes_, read):
    # Flags of PUBREL are 2, which ``Packet`` leaves out: only those of PUBLISH carry a meaning.
    assert v5.parse(bytes.fromhex(bytes_)) == read


@pytest.mark.parametrize(
    "bytes_",
    [
        "20 03 02 00 00",  # reserved bits
        "20 03 00 8b 00",  # a code that CONNACK does not have
        "20 04 00 00 80 00",  # a length that is not minimal
        "20 05 00 00 02 24 01 00",  # longer than its length says
        "20 07 00 00 04 25 01 25 01",  # a property twice
        "20 08 00 00 05 02 00 00 00 01",  # a property of another packet
        "30 04 00 01 74 01",  # properties cut off
        "32 07 00 01 74 00 00 00 70",  # packet id 0
        "38 05 00 01 74 00 70",  # DUP with QoS 0
        "30 04 00 00 00 70",  # neither topic nor alias
        "60 02 00 01",  # flags of PUBREL
        "40 05 00 01 00 00 00",  # bytes left over
        "10 00",  # a client's packet
    ],
)
def test_the_reader_refuses_what_no_broker_may_send(bytes_):
    with pytest.raises((AssertionError, KeyError)):
        v5.parse(bytes.fromhex(bytes_))
