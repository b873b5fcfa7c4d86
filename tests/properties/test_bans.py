"""Bans against a naive search, and until when they last."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.trust.bans import Bans
from penstock.trust.book import ANY_VERSION, AccessBook, put, removed
from penstock.trust.rows import Ban

near_v4 = st.integers(0, 2**12).map(lambda low: ip_address((192 << 24) + (low << 8 | low >> 4)))
near_v6 = st.integers(0, 2**12).map(lambda low: ip_address((0x20010DB8 << 96) + (low << 52)))
addresses = st.one_of(near_v4, near_v6, st.ip_addresses())


@st.composite
def ranges(draw):
    address = draw(addresses)
    length = draw(st.integers(0, address.max_prefixlen))
    return ip_network((address, length), strict=False)


def book_of(bans) -> AccessBook:
    book = AccessBook()
    assert book.apply([put(ban) for ban in bans], ANY_VERSION, 1) == ""
    return book


@given(st.lists(st.tuples(ranges(), st.sampled_from([0, 5, 15])), max_size=8), addresses)
def test_an_address_is_banned_if_it_lies_in_a_range_in_force(given_ranges, address):
    bans = {f"address:{network}": until for network, until in given_ranges}
    book = book_of(Ban(name, until) for name, until in bans.items())
    meant = getattr(address, "ipv4_mapped", None) or address  # both forms are one address
    expected = any(
        meant in ip_network(name.partition(":")[2]) and until != 5 for name, until in bans.items()
    )
    assert (Bans(book).of_address(str(address), 10) is not None) is expected
    if address.version == 4:
        assert (Bans(book).of_address(f"::ffff:{address}", 10) is not None) is expected


def test_a_ban_counts_from_its_entry_on_and_no_longer_than_it_says():
    book = AccessBook()
    bans = Bans(book)
    assert bans.of_address("192.0.2.7", 10) is None
    ban = Ban("address:192.0.2.0/24", until_ms=20)
    assert book.apply([put(ban)], ANY_VERSION, 1) == ""
    assert bans.of_address("192.0.2.7", 19) == ban
    assert bans.of_address("192.0.2.7", 20) is None
    assert bans.of_address("not an address", 10) is None
    assert book.apply([removed(ban)], ANY_VERSION, 2) == ""
    assert bans.of_address("192.0.2.7", 19) is None


def test_users_and_client_ids_are_banned_by_their_exact_names():
    bans = Bans(book_of([Ban("user:ann"), Ban("client:pump:7", until_ms=20)]))
    assert bans.of_user("ann", 10) == Ban("user:ann")
    assert bans.of_user("an", 10) is None
    assert bans.of_client("pump:7", 19) is not None
    assert bans.of_client("pump:7", 20) is None
    assert bans.of_client("ann", 10) is None


@pytest.mark.parametrize("text", ["192.0.2.7/24", "x", "", "10.0.0.0/33", "1.2.3"])
def test_a_range_that_is_none_cannot_be_banned(text):
    assert Ban(f"address:{text}").fault()
