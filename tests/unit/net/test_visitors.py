"""Limits of addresses and strangers: who counts, who is refused, and that memory is bounded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from penstock.config.schema import Limits
from penstock.net import visitors as module
from penstock.net.visitors import Visitor, Visitors

ADDRESS = "192.0.2.7"


def visitors(**limits: float) -> Visitors:
    return Visitors(structs.replace(Limits(), **limits))


def admitted(found: Visitor | str) -> Visitor:
    assert isinstance(found, Visitor)
    return found


def test_an_address_has_so_many_connections_and_no_more():
    counted = visitors(address_connections_max=2)
    first, _ = (admitted(counted.admit(ADDRESS, 0.0)) for _ in range(2))
    assert counted.admit(ADDRESS, 0.0) == "2 connections from 192.0.2.7"
    assert counted.admit("::ffff:192.0.2.7", 0.0) == "2 connections from 192.0.2.7"
    admitted(counted.admit("192.0.2.8", 0.0))
    first.left()
    first.left()
    admitted(counted.admit(ADDRESS, 0.0))
    assert isinstance(counted.admit(ADDRESS, 0.0), str)


def test_a_stranger_that_logs_in_makes_room_for_another():
    counted = visitors(address_strangers_max=1)
    first = admitted(counted.admit(ADDRESS, 0.0))
    assert "have not logged in" in str(counted.admit(ADDRESS, 0.0))
    first.known()
    first.known()
    second = admitted(counted.admit(ADDRESS, 0.0))
    second.known()
    first.known(is_known=False)
    assert isinstance(counted.admit(ADDRESS, 0.0), str)
    first.left()
    assert counted.strangers == 0


def test_strangers_of_all_addresses_together_are_bounded():
    counted = visitors(strangers_max=3)
    here = [admitted(counted.admit(f"192.0.2.{n}", 0.0)) for n in range(3)]
    assert counted.admit("198.51.100.1", 0.0) == "3 connections that have not logged in"
    here[0].known()
    admitted(counted.admit("198.51.100.1", 0.0))


def test_an_address_opens_a_burst_and_then_so_many_a_second():
    counted = visitors(address_connects_burst_max=5, address_connects_per_second_max=2)

    def opened(now: float) -> int:
        count = 0
        while isinstance(found := counted.admit(ADDRESS, now), Visitor):
            found.left()
            count += 1
        assert found == "more than 2 connections a second"
        return count

    assert opened(0.0) == 5
    assert opened(0.4) == 0
    assert opened(1.0) == 2
    assert opened(1_000.0) == 5


def test_connections_of_this_machine_are_not_counted_unless_a_proxy_passes_them_on():
    counted = visitors(address_connections_max=1, strangers_max=1, address_connects_burst_max=1)
    for host in ("127.0.0.1", "::1", "::ffff:127.9.9.9", ""):
        for _ in range(3):
            admitted(counted.admit(host, 0.0)).left()
    assert counted.strangers == 0
    admitted(counted.admit("127.0.0.1", 0.0, is_proxied=True))
    assert isinstance(counted.admit("127.0.0.1", 0.0, is_proxied=True), str)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_of_ipv6_a_whole_64_counts_as_one_address(one, other, is_same):
    counted = visitors(address_connections_max=1)
    admitted(counted.admit(one, 0.0))
    assert isinstance(counted.admit(other, 0.0), str) is is_same


def test_limits_can_be_replaced_while_connections_are_open():
    counted = visitors(address_connections_max=1)
    admitted(counted.admit(ADDRESS, 0.0))
    assert isinstance(counted.admit(ADDRESS, 0.0), str)
    counted.limits = structs.replace(counted.limits, address_connections_max=2)
    admitted(counted.admit(ADDRESS, 0.0))


def test_addresses_without_connections_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "BLOCKS_MAX", 100)
    counted = visitors()
    staying = admitted(counted.admit("10.0.0.1", 0.0))
    for number in range(1_000):
        admitted(counted.admit(f"192.0.{number >> 8}.{number & 255}", 0.0)).left()
    assert len(counted) <= 101
    for number in range(100):
        admitted(counted.admit(f"198.51.100.{number}", 1_000.0)).left()
    assert len(counted) <= 101
    staying.left()
    assert counted.strangers == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(0, 2)), max_size=60))
@settings(max_examples=60)
def test_counts_are_those_of_a_naive_model(steps):
    counted = visitors(address_connections_max=3, address_strangers_max=2, strangers_max=4)
    here: list[tuple[str, Visitor]] = []
    now = 0.0
    for action, number, passed in steps:
        now += passed
        host = f"192.0.2.{number}"
        if action <= 1:
            own = [visitor for name, visitor in here if name == host]
            strangers = sum(visitor.is_stranger for visitor in own)
            everywhere = sum(visitor.is_stranger for _, visitor in here)
            has_room = len(own) < 3 and strangers < 2 and everywhere < 4
            found = counted.admit(host, now)
            assert isinstance(found, Visitor) is has_room
            if isinstance(found, Visitor):
                here.append((host, found))
        elif here and action == 2:
            here[number % len(here)][1].known()
        elif here:
            here.pop(number % len(here))[1].left()
        assert counted.strangers == sum(visitor.is_stranger for _, visitor in here)
