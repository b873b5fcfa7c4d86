"""Publish with a signature. ``penstock keys new pump7`` made the key file for the device."""

import asyncio

import ntptime
from penstock.ed25519 import SigningKey

from penstock import Client


async def main():
    ntptime.settime()  # a signature needs the time
    key = SigningKey.load("pump7.key.json")
    async with Client("192.168.1.10", client_id="pump7", signing_key=key) as client:
        while True:
            await client.publish("secure/pump7/bar", b"4.2")
            await asyncio.sleep(60)


asyncio.run(main())
