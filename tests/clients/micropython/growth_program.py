"""Publishes and receives, and says what was in use after a while and after five times as long."""

import asyncio
import gc
import sys

from penstock import Client


def used():
    gc.collect()
    return gc.mem_alloc() if hasattr(gc, "mem_alloc") else sys.getallocatedblocks()


async def exchange(client, count):
    for _ in range(count):
        await client.publish("growth", b"4.2")
        await client.receive()
    await client.flush()
    return used()


async def main(port):
    async with Client("127.0.0.1", port, "growth") as client:
        await client.subscribe("growth")
        before = await exchange(client, 200)
        print(before, await exchange(client, 1000))


asyncio.run(main(int(sys.argv[1])))
