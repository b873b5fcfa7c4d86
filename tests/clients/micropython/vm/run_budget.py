"""Measures the client's memory, imported and connected, in the VM."""

import asyncio
import gc
import json

from bridge import Host

host = Host()
port = int(await host.line())
assert asyncio.wait_for, "loaded, as in any program"


async def used():
    """Bytes in use; Node must let go of what it holds of the VM first."""
    for _ in range(10):
        gc.collect()
        await host.collect()
    gc.collect()
    return gc.mem_alloc()


await used()
before = await used()
from penstock import Client  # noqa: E402 - this is what is measured

imported = await used() - before
RX = 1024
client = Client("127.0.0.1", port, "budget", rx=RX, random=host.random, open=host.open)
await client.connect()
await client.publish("budget", b"0")
connected = await used() - before
await client.subscribe("budget")
message = await client.receive()
assert message.payload == b"0"
message.ack()
message = None
subscribed = await used() - before

host.write(
    json.dumps(
        {
            "imported": imported,
            "connected": connected - RX,
            "subscribed": subscribed - RX,
        }
    )
)
await client.close()
