"""Reading certificates: the right fields, and never more than a ValueError for damaged ones."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tls.authority import Authority, needs_openssl

from penstock.net.x509 import pem_blocks, read_certificate, read_revocation_list

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def der(authority):
    names = "DNS:broker.example,DNS:*.plant.example,IP:192.0.2.1,IP:2001:db8::1,URI:urn:x"
    files = authority.sign("Broker ÄÖ", names, start="20200102030405Z", end="20510102030405Z")
    (block,) = pem_blocks(Path(files.cert).read_bytes(), b"CERTIFICATE")
    return block


def test_names_and_dates_are_read(der):
    facts = read_certificate(der)
    assert facts.dns == ("broker.example", "*.plant.example")
    assert facts.addresses == ("192.0.2.1", "2001:db8::1")
    assert facts.not_before == 1577934245
    assert facts.not_after == 2556241445  # in 2051: another form of time
    assert facts.name == "broker.example"


@pytest.mark.parametrize(
    ("host", "is_covered"),
    [
        ("broker.example", True),
        ("BROKER.example.", True),
        ("a.plant.example", True),
        ("a.b.plant.example", False),
        ("plant.example", False),
        ("192.0.2.1", True),
        ("192.0.2.2", False),
        ("2001:db8::1", True),
        ("", False),
    ],
)
def test_a_certificate_covers_its_names(der, host, is_covered):
    assert read_certificate(der).covers(host) is is_covered


def test_a_revocation_list_says_when_the_next_one_is_due(authority):
    path = authority.revocation_list(end="20300101000000Z")
    (block,) = pem_blocks(Path(path).read_bytes(), b"X509 CRL")
    found = read_revocation_list(block)
    assert found.next_update == 1893456000
    assert found.this_update == 1577836800


@given(st.data())
def test_damaged_bytes_are_told_apart_from_good_ones_or_refused(der, data):
    damaged = bytearray(der)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(der)))])
    for read in (read_certificate, read_revocation_list):
        try:
            read(cut)
        except ValueError:
            continue


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    text = (
        b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(data) + b"\n-----END CERTIFICATE-----"
    )
    for read in (read_certificate, read_revocation_list):
        try:
            for block in pem_blocks(text, b"CERTIFICATE"):
                read(block)
        except ValueError:
            continue
