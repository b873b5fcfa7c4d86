"""The envelope that carries a signature within an MQTT payload: its bytes, and hostile ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.message import Signature
from penstock.wire.mqtt.envelope import opened, sealed

PROOF = bytes(range(64))
VERSION_1 = Signature(1, 7, PROOF)
VERSION_2 = Signature(2, 7, PROOF, 1_700_000_000_000, b"nonce..8")

signatures = st.one_of(
    st.builds(
        Signature, st.just(1), st.integers(0, 2**32 - 1), st.binary(min_size=64, max_size=64)
    ),
    st.builds(
        Signature,
        st.just(2),
        st.integers(0, 2**32 - 1),
        st.binary(min_size=64, max_size=64),
        st.integers(0, 2**64 - 1),
        st.binary(min_size=8, max_size=8),
    ),
)


def test_version_1_is_version_key_id_signature_and_payload():
    assert sealed(VERSION_1, b"21.5") == b"\x01\x00\x00\x00\x07" + PROOF + b"21.5"


def test_version_2_has_time_and_nonce_before_the_signature():
    head = b"\x02\x00\x00\x00\x07" + (1_700_000_000_000).to_bytes(8, "big") + b"nonce..8"
    assert sealed(VERSION_2, b"21.5") == head + PROOF + b"21.5"


@given(signatures, st.binary(max_size=300))
def test_what_was_sealed_is_opened_again(signature, payload):
    assert opened(sealed(signature, payload)) == (signature, payload)


@pytest.mark.parametrize("signature", [VERSION_1, VERSION_2], ids=["1", "2"])
def test_an_envelope_may_hold_nothing_but_may_not_be_cut(signature):
    whole = sealed(signature, b"")
    assert opened(whole) == (signature, b"")
    assert [opened(whole[:size]) for size in range(len(whole))] == [None] * len(whole)


@pytest.mark.parametrize("version", [0, 3, 0x7B, 0xFF])
def test_another_version_is_no_envelope(version):
    assert opened(bytes([version]) + bytes(200)) is None


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(lambda b: b"\x02" + b)))
def test_any_bytes_are_an_envelope_or_none(raw):
    """Nothing raises, and everything is found."""
    found = opened(raw)
    assert found is None or sealed(*found) == raw
