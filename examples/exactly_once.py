"""A subscriber of the binary protocol: each message once, whatever happens to the connection.

Run a broker (``make serve``), then, in two terminals::

    .venv/bin/python examples/exactly_once.py publish
    .venv/bin/python examples/exactly_once.py subscribe

Stop the subscriber and start it again: it continues where it stopped. Kill the broker in between
(``kill -9``) and start it again: both reconnect, no number is missing, and no message is handed out
twice. A *number* may appear twice: if the broker died after storing a message and before confirming
it, the publisher sends it again, as a new message with its own sequence. Publishing is at least
once; subscribing is exactly once.
"""

import argparse
from itertools import count, islice

from penstock.client import Publisher, Subscriber


def publish(port: int, numbers: int | None) -> None:
    """Publish numbers, each on the broker's disk before the next."""
    with Publisher(port=port) as publisher:
        for number in islice(count(), numbers):
            publisher.publish("plant/numbers", b"%d" % number)
            print(f"kept: {number}")


def subscribe(port: int, numbers: int | None) -> None:
    """Print numbers; each is acknowledged when the loop asks for the next."""
    with Subscriber("example-1", "plant/numbers", port=port) as subscriber:
        for message in islice(subscriber, numbers):
            print(message.payload.decode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["publish", "subscribe"])
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--numbers", type=int, help="how many (default: no end)")
    arguments = parser.parse_args()
    act = {"publish": publish, "subscribe": subscribe}[arguments.what]
    act(arguments.port, arguments.numbers)
