"""A worker of a queue: each job goes to one worker, and to another one if this one dies."""

import asyncio

from penstock import Client


def work(job):
    print("working on", job)


async def main():
    async with Client("192.168.1.10", client_id="worker-1", auto_ack=False) as client:
        await client.subscribe("q:images", prefetch=1)
        async for job in client:
            work(job.payload)
            job.ack()


asyncio.run(main())
