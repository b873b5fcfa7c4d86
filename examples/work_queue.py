"""A work queue: priorities, leases, retries with back-off, dead letters.

Run a broker (``make serve``), then run the second line in any number of terminals::

    .venv/bin/python examples/work_queue.py produce --jobs 20
    .venv/bin/python examples/work_queue.py work
    .venv/bin/python examples/work_queue.py dead

A job whose handler raises is redelivered after a growing pause. After three attempts it is
dead-lettered; ``dead`` shows dead letters with their reason, and ``dead --redrive`` publishes them
again. Kill a worker in the middle (``kill -9``): its jobs go to the others. Kill the broker and
start it again: nothing is lost, nothing is stored twice, and jobs in flight are not done twice.
"""

import argparse
import sys

from penstock.client import Item, Job, QueueClient, connect

TOPIC, GROUP = "thumbnails", "resize"


def say(line: str) -> None:
    """Print a line with one write: handlers run in several threads."""
    sys.stdout.write(f"{line}\n")


def produce(client: QueueClient, jobs: int) -> None:
    """Produce jobs; every fifth is urgent and every seventh always fails."""
    items = [
        Item(
            b"image-%d.%s" % (number, b"broken" if number % 7 == 6 else b"png"),
            priority=7 if number % 5 == 0 else 0,
        )
        for number in range(jobs)
    ]
    results = client.produce_many(TOPIC, items)
    say(f"{sum(result.error is None for result in results)} jobs are on the broker's disk")


def resize(job: Job) -> None:
    """Process one job. It may be delivered twice, so this must be idempotent."""
    if job.payload.endswith(b".broken"):
        raise ValueError(f"cannot read {job.payload.decode()}")
    say(f"done: {job.payload.decode()} (priority {job.priority})")


def work(client: QueueClient, drain: bool) -> None:
    """Process four jobs at a time; forever, or until the group has finished everything."""
    client.configure_group(TOPIC, GROUP, max_deliveries=3, backoff_s=0.1)

    def report(error: Exception, job: Job | None) -> None:
        attempt = "" if job is None else f" (attempt {job.redeliveries + 1})"
        say(f"failed: {error}{attempt}")

    with client.subscribe(TOPIC, GROUP, resize, concurrency=4, on_error=report) as subscription:
        while not subscription.wait(0.1) and not (drain and is_drained(client)):
            pass


def is_drained(client: QueueClient) -> bool:
    """Return whether every job is done or dead-lettered."""
    return all(group.lag == 0 for group in client.groups(TOPIC))


def dead(client: QueueClient, redrive: bool) -> None:
    """Show failed jobs and their reasons."""
    for record in client.dead_letters(TOPIC, GROUP):
        reason = dict(record.headers)["dlq-reason"].decode()
        say(f"dead: {record.payload.decode()}: {reason}")
    if redrive:
        say(f"put back: {client.redrive(TOPIC, GROUP)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["produce", "work", "dead"])
    parser.add_argument("--address", default="127.0.0.1:1883")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--drain", action="store_true", help="exit when all jobs are finished")
    parser.add_argument("--redrive", action="store_true", help="publish dead letters again")
    arguments = parser.parse_args()
    with connect([arguments.address]) as made:
        if arguments.what == "produce":
            produce(made, arguments.jobs)
        elif arguments.what == "work":
            work(made, arguments.drain)
        else:
            dead(made, arguments.redrive)
