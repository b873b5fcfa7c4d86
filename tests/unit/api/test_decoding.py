"""Payloads are shown in the form that fits, cut where they are long, and never make a mess."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.reading import msgpack
from penstock.api.reading.decoding import headers_of, shown

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20),
)


@pytest.mark.parametrize(
    ("payload", "content_type", "form", "text"),
    [
        (b'{"c":71.3}', 0, "json", '{"c":71.3}'),
        (b"71.3", 0, "json", "71.3"),
        (b"71.3", 1, "text", "71.3"),
        (b"{off", 0, "text", "{off"),
        (b"off", 0, "text", "off"),
        (b"", 0, "text", ""),
        ("naïve".encode(), 0, "text", "naïve"),
        (b"\x81\xa1c\x05", 0, "msgpack", '{"c":5}'),
        (b"\x05", 3, "msgpack", "5"),
        (b"\x81\xff", 0, "msgpack", '{"-1":null}'.replace("null", "null")),
        (b"\xff\xfe", 0, "hex", "ff fe"),
        (b"a\0b", 0, "hex", "61 00 62"),
        (b"[" * 5_000, 0, "text", "[" * 1_000),
    ],
)
def test_the_form_that_fits(payload, content_type, form, text):
    if payload == b"\x81\xff":
        payload = b"\x81\xff\xc0"
    found = shown(payload, "auto", 1_000, content_type)
    assert (found.format, found.payload.text, found.fault) == (form, text, None)


@pytest.mark.parametrize(
    ("payload", "form", "shown_as", "fault"),
    [
        (b"{off", "json", "text", "not JSON"),
        (b"off", "msgpack", "text", "not MessagePack"),
        (b"\xff", "json", "hex", "not JSON"),
        (b"\xff", "text", "base64", "not UTF-8"),
    ],
)
def test_a_payload_that_is_not_what_was_asked_for_says_so(payload, form, shown_as, fault):
    found = shown(payload, form, 1_000)
    assert found.format == shown_as
    assert fault in found.fault


@given(
    st.binary(max_size=200),
    st.sampled_from(["auto", "json", "text", "hex", "msgpack"]),
    st.integers(1, 50),
    st.integers(0, 3),
)
def test_any_payload_is_shown_and_a_cut_one_says_so(payload, form, bytes_max, content_type):
    found = shown(payload, form, bytes_max, content_type)
    msgspec.json.encode(found.payload)
    if found.payload.base64 is not None:
        assert base64.b64decode(found.payload.base64) == payload[:bytes_max]
    elif found.format in {"text", "json"}:
        kept = found.payload.text.encode()
        assert payload.startswith(kept)
        assert found.cut == (len(payload) > bytes_max)
        assert len(kept) > bytes_max - 4 or not found.cut
    elif found.format == "hex":
        assert bytes.fromhex(found.payload.text) == payload[:bytes_max]


@given(VALUES)
def test_message_pack_gives_what_was_packed(value):
    assert msgpack.decode(msgspec.msgpack.encode(value)) == value


@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_fault(data):
    try:
        value = msgpack.decode(data)
    except msgpack.MessagePackError:
        return
    msgspec.json.encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\x01",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 100 + b"\x01",
        b"\xdc\xff\xff" + b"\x01" * 65_535,
    ],
)
def test_what_claims_to_be_large_or_deep_is_refused_before_it_is_made(data):
    with pytest.raises(msgpack.MessagePackError):
        msgpack.decode(data)


def test_bytes_extensions_and_strange_keys_have_a_form_in_json():
    packed = b"\x83\x01\xc4\x02\xff\xfe\xa1t\xd4\x05\x00\xa1f\xcb\x7f\xf0\0\0\0\0\0\0"
    assert msgpack.decode(packed) == {
        "1": {"base64": "//4="},
        "t": {"extension": 5, "base64": "AA=="},
        "f": "inf",
    }


def test_headers_that_are_not_text_are_in_base64():
    found = headers_of(((b"a", b"b"), (b"c", b"\xff")))
    assert [(one.name, one.value, one.is_base64) for one in found] == [
        ("a", "b", False),
        ("c", "/w==", True),
    ]
