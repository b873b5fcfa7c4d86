"""Secrets of devices and API tokens."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.trust.rows import TOKEN_ID
from penstock.trust.secrets import (
    device_secret,
    digest_of,
    matching,
    parse_token,
    token_id,
    token_text,
)

RANDOM = bytes(range(20))


def test_a_device_secret_has_160_bits_in_32_characters():
    assert re.fullmatch(r"psd_[a-z2-7]{32}", device_secret(RANDOM))
    with pytest.raises(ValueError, match="20 random bytes"):
        device_secret(RANDOM[:16])


@given(st.binary(min_size=10, max_size=10), st.binary(min_size=20, max_size=20))
def test_a_token_is_parsed_as_it_was_made(id_bytes, secret_bytes):
    id_ = token_id(id_bytes)
    assert TOKEN_ID.fullmatch(id_)
    found = parse_token(token_text(id_, secret_bytes).encode())
    assert found.id == id_
    assert found.digest == digest_of(found.secret)
    assert found.secret.decode() not in repr(found)


@given(st.binary(max_size=100))
def test_nothing_else_is_a_token(data):
    found = parse_token(data)
    assert found is None or data == b"pst_%s_%s" % (found.id.encode(), found.secret)


@pytest.mark.parametrize(
    "change", [str.upper, lambda t: t + "a", lambda t: t[:-1], lambda t: t + "\n"]
)
def test_a_changed_token_is_none(change):
    assert parse_token(change(token_text("abcdefgh", RANDOM)).encode()) is None


def test_the_matching_digest_is_found_among_several():
    digests = (digest_of(b"old"), digest_of(b"new"))
    assert matching(digests, b"old") == digests[0]
    assert matching(digests, b"new") == digests[1]
    assert matching(digests, b"else") is None
    assert matching((), b"old") is None
