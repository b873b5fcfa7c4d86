"""Commands, each handled once, those from before this boot too: the client id is the memory."""

import asyncio

from penstock import Client


async def main():
    async with Client("192.168.1.10", client_id="pump7") as client:
        await client.subscribe("plant/pump7/commands")
        async for message in client:  # acknowledged when the loop comes back
            print(message.topic, message.payload)


asyncio.run(main())
