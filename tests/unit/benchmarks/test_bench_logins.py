"""The fleet and the guessers of ``benchmarks.logins``, against a broker."""

import asyncio

import pytest
from benchmarks.logins import Client, come_back, devices, guess, publish

from penstock.testing import AsyncBroker
from penstock.trust.book import put

pytestmark = pytest.mark.asyncio


async def test_a_fleet_is_in_and_strangers_are_not():
    users, clients = devices(5)
    async with AsyncBroker() as broker:
        await broker.change_access(*map(put, users))
        found = await come_back(broker.port, [*clients, Client("x", "device1", "wrong")])
    assert (found["accepted"], found["wrong"], found["busy"]) == (5, 1, 0)


async def test_guesses_are_refused_while_a_bystander_publishes():
    users, clients = devices(1)
    async with AsyncBroker() as broker:
        await broker.change_access(*map(put, users))
        told, found = await asyncio.gather(
            guess(broker.port, 0.1, 1), publish(broker.port, clients[0], 0.1)
        )
    assert told["wrong"] + told["busy"] == 100
    assert found["p99_ms"] > 0
