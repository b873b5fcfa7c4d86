"""A battery device: wake, publish, wait until the broker has it, sleep."""

import asyncio

import machine
from penstock import Client


async def main():
    async with Client("192.168.1.10", client_id="meter3") as client:
        for value in (b"20.1", b"20.3", b"20.2"):
            client.publish_nowait("meter/3", value)
        await client.flush(10)


try:
    asyncio.run(main())
finally:
    machine.deepsleep(600_000)
