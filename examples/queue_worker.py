"""A queue: each job goes to one worker, and to another one if that worker dies.

Run a broker (``make serve``), then run the second line in any number of terminals::

    .venv/bin/python examples/queue_worker.py push --jobs 20
    .venv/bin/python examples/queue_worker.py work --name worker-1

A job is acknowledged when its handler returns. If the handler raises, the job stays with its worker
until that worker disconnects, and then goes to another.
"""

import argparse
import asyncio

from penstock.client import AsyncWorker, Message, QueueProducer


def push(port: int, jobs: int) -> None:
    """Push jobs to the queue, many in flight at once."""
    with QueueProducer("images", port=port) as producer:
        refused = producer.push_many(b"image-%d.png" % number for number in range(jobs))
        print(f"{refused.count(None)} jobs are on the broker's disk")


async def work(port: int, name: str, idle_s: float) -> None:
    """Process jobs until none has arrived for ``idle_s`` seconds."""

    async def handle(job: Message) -> None:
        await asyncio.sleep(0.01)  # stands for real work
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
        "--idle", type=float, default=5.0, help="leave after this many seconds without a job"
    )
    arguments = parser.parse_args()
    if arguments.what == "push":
        push(arguments.port, arguments.jobs)
    else:
        asyncio.run(work(arguments.port, arguments.name, arguments.idle))
