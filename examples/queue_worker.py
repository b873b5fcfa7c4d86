"""A queue: jobs are dealt to the workers that are there, and dealt anew if a worker dies.

Run a broker (``make serve``), then, the second line as often as you like::

    .venv/bin/python examples/queue_worker.py push --jobs 20
    .venv/bin/python examples/queue_worker.py work --name worker-1

A job is acknowledged when its handler has returned. One whose handler raises stays with its worker
until that leaves, and then goes to another.
"""

import argparse
import asyncio

from penstock.client import AsyncWorker, Message, QueueProducer


def push(port: int, jobs: int) -> None:
    """Put jobs into the queue, many under way at once."""
    with QueueProducer("images", port=port) as producer:
        refused = producer.push_many(b"image-%d.png" % number for number in range(jobs))
        print(f"{refused.count(None)} jobs are on the broker's disk")


async def work(port: int, name: str, idle_s: float) -> None:
    """Do jobs until there have been none for a while."""

    async def handle(job: Message) -> None:
        await asyncio.sleep(0.01)  # as if it were work
        print(f"done: {job.payload.decode()}")

    async with AsyncWorker("images", name, port=port) as worker:
        await worker.run(handle, idle_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["push", "work"])
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--name", default="worker-1")
    parser.add_argument(
        "--idle", type=float, default=5.0, help="seconds without a job to leave after"
    )
    arguments = parser.parse_args()
    if arguments.what == "push":
        push(arguments.port, arguments.jobs)
    else:
        asyncio.run(work(arguments.port, arguments.name, arguments.idle))
