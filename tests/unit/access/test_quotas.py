"""Quotas of users: rates pause reading, counts refuse."""

import asyncio
import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.conformance.wire_client import connect_packet, publish

from penstock.access.quotas import Quotas
from penstock.obs.reasons import DisconnectReason
from penstock.testing import AsyncBroker
from penstock.trust.book import AccessBook, put
from penstock.trust.principal import ANYONE
from penstock.trust.rights import NO_RIGHTS
from penstock.trust.rows import Quotas as Limits
from penstock.trust.rows import User


def book_with(**limits: int) -> AccessBook:
    book = AccessBook()
    assert not book.apply([put(User("ann", quotas=Limits(**limits))), put(User("bob"))], -1, 1)
    return book


def test_a_user_without_quotas_has_no_meter():
    assert Quotas(book_with(connections=1)).meter("bob") is None


def test_one_connection_too_many_is_refused_until_another_leaves():
    quotas = Quotas(book_with(connections=2))
    meters = [quotas.meter("ann"), quotas.meter("ann")]
    assert "2 connections" in quotas.admit_connection("ann")
    assert not quotas.admit_connection("bob")
    meters[0].leave()
    assert not quotas.admit_connection("ann")


def test_subscriptions_are_counted_over_all_connections_of_a_user():
    quotas = Quotas(book_with(subscriptions=5))
    first, second = quotas.meter("ann"), quotas.meter("ann")
    assert not first.admit_subscriptions(3)
    assert "5 subscriptions" in second.admit_subscriptions(3)
    assert not second.admit_subscriptions(2)
    assert first.admit_subscriptions(4)
    assert not first.admit_subscriptions(1)
    assert not second.admit_subscriptions(4)
    first.leave()
    assert not second.admit_subscriptions(5)


def test_sessions_are_refused_at_the_quota():
    meter = Quotas(book_with(sessions=2)).meter("ann")
    assert not meter.admit_session(1)
    assert "2 sessions" in meter.admit_session(2)


def test_a_raised_quota_counts_at_once():
    book = book_with(subscriptions=1)
    meter = Quotas(book).meter("ann")
    assert meter.admit_subscriptions(2)
    assert not book.apply([put(User("ann", quotas=Limits(subscriptions=2)))], -1, 2)
    assert not meter.admit_subscriptions(2)


def test_connecting_anew_does_not_pay_a_debt():
    quotas = Quotas(book_with(messages_per_s=10))
    first = quotas.meter("ann")
    first.messages_owed = 100
    assert first.pay(0.0) > 0
    first.leave()
    assert quotas.meter("ann").pay(0.0) > 0


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 2)), min_size=1, max_size=50))
def test_no_more_is_used_than_the_rate_the_burst_and_one_chunk(chunks: list[tuple[int, float]]):
    """A user that stops reading when told to never gets more than that, at any time."""
    meter = Quotas(book_with(messages_per_s=20)).meter("ann")
    now = used = 0.0
    for size, pause in chunks:
        meter.messages_owed += size
        used += size
        wait_s = meter.pay(now)
        while wait_s:
            now += wait_s
            wait_s = meter.pay(now)
        assert used <= 20 + 20 * now + 20 * 0.25 + 1e-3
        now += pause


@contextlib.asynccontextmanager
async def client_of(broker: AsyncBroker):
    """A client of MQTT: what it reads and writes, and its connection in the broker."""
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    writer.write(connect_packet("one"))
    await reader.readexactly(4)
    (client,) = broker.server.parts.connections.clients
    yield reader, writer, client
    writer.close()
    await writer.wait_closed()


async def until(condition, broker: AsyncBroker, step_s: float = 0.0) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        broker.clock.advance(step_s)
        await asyncio.sleep(0)


@pytest.mark.asyncio
@pytest.mark.parametrize("limits", [{"messages_per_s": 25}, {"bytes_per_s": 400}])
async def test_reading_pauses_and_nothing_is_lost(limits):
    async with AsyncBroker() as broker, client_of(broker) as (_reader, writer, client):
        server = broker.server
        server.broker.access.apply([put(User("ann", quotas=Limits(**limits)))], -1, 10**6)
        client.become(replace(ANYONE, user="ann"))
        received = server.counters.messages_in_total
        writer.write(publish("t", b"x" * 10) * 30)
        await until(lambda: received[0] == 30, broker)
        assert client._is_over_quota
        assert client._is_reading_paused
        writer.write(publish("t", b"next"))
        await writer.drain()
        client.resume_reading()  # as others do who have paused it, too
        assert client._is_reading_paused
        await until(lambda: received[0] == 31, broker, step_s=0.01)
        assert client.reason is None


@pytest.mark.asyncio
async def test_new_rights_of_the_same_user_keep_what_it_uses():
    async with AsyncBroker() as broker, client_of(broker) as (_reader, _writer, client):
        limits = Limits(connections=9, subscriptions=5)
        broker.server.broker.access.apply([put(User("ann", quotas=limits))], -1, 10**6)
        client.become(replace(ANYONE, user="ann"))
        assert not client.meter.admit_subscriptions(5)
        client.become(replace(ANYONE, user="ann", rights=NO_RIGHTS))
        other = broker.server.parts.quotas.meter("ann")
        assert other.admit_subscriptions(1)
        client.become(ANYONE)
        assert client.meter is None
        assert not other.admit_subscriptions(5)


@pytest.mark.asyncio
async def test_a_connection_ends_when_its_credentials_expire():
    async with AsyncBroker() as broker, client_of(broker) as (reader, _writer, client):
        client.become(replace(ANYONE, expires_ms=broker.clock.wall_ms() + 5_000))
        broker.clock.advance(4.5)
        assert client.reason is None
        broker.clock.advance(1)
        assert await reader.read() == b""
        assert client.reason is DisconnectReason.CREDENTIALS_REVOKED


@pytest.mark.asyncio
async def test_expiry_far_ahead_does_not_put_off_the_keep_alive():
    async with AsyncBroker() as broker, client_of(broker) as (reader, _writer, client):
        client.become(replace(ANYONE, expires_ms=broker.clock.wall_ms() + 3_600_000))
        broker.clock.advance(100)
        assert await reader.read() == b""
        assert client.reason is DisconnectReason.KEEP_ALIVE_TIMEOUT
