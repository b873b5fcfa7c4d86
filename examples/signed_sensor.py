"""A device that signs what it publishes, and a subscriber that trusts only the device.

Run a broker (``make serve``), create a key, then publish and subscribe::

    .venv/bin/penstock keys new pump1 --topics 'secure/pump1/#'
    .venv/bin/python examples/signed_sensor.py publish pump1.key.json
    .venv/bin/python examples/signed_sensor.py subscribe pump1.key.json

The subscriber needs only the public key; here one file has both.
"""

import argparse
import json
from pathlib import Path

from penstock.client import Message, Publisher, Subscriber

TOPIC = "secure/pump1/bar"


def publish(port: int, key_file: Path) -> None:
    """Publish a signed reading; the broker would refuse it without the signature."""
    with Publisher(port=port, signing_key=key_file) as publisher:
        publisher.publish(TOPIC, b"4.2")
        print("kept: 4.2")


def subscribe(port: int, key_file: Path) -> None:
    """Print one reading; messages not signed by this key are withheld."""
    key = json.loads(key_file.read_text(encoding="utf-8"))
    keyring = {key["key_id"]: bytes.fromhex(key["public_key"])}

    def complain(message: Message) -> None:
        print(f"not signed by the device: {message}")

    with Subscriber(
        "reader-1",
        TOPIC,
        port=port,
        keyring=keyring,
        require_signature=True,
        on_withheld=complain,
    ) as subscriber:
        message = subscriber.receive()
        if message is not None:
            print(f"{message.payload.decode()} verified={message.verified}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["publish", "subscribe"])
    parser.add_argument("key_file", type=Path)
    parser.add_argument("--port", type=int, default=1883)
    arguments = parser.parse_args()
    act = {"publish": publish, "subscribe": subscribe}[arguments.what]
    act(arguments.port, arguments.key_file)
