"""Read a topic from the journal over HTTP, from its first message on.

::

    .venv/bin/python examples/read_journal.py plant/pump1/bar

Needs only the standard library. To continue later, remember the last offset printed.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen


def messages(port: int, topic: str, offset: int) -> Iterator[dict[str, Any]]:
    """Yield all messages of a topic from ``offset`` on, a hundred per request."""
    while True:
        url = f"http://127.0.0.1:{port}/topics/{quote(topic)}?offset={offset}&limit=100"
        with urlopen(url, timeout=10) as answer:
            found = json.load(answer)["messages"]
        if not found:
            return
        yield from found
        offset = found[-1]["offset"] + 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topic")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--offset", type=int, default=0)
    arguments = parser.parse_args()
    try:
        for message in messages(arguments.port, arguments.topic, arguments.offset):
            payload = message.get("payload", "(not text)")
            print(message["offset"], message["time"], payload)
    except URLError as error:  # no broker there, or 404: no such topic
        sys.exit(f"{arguments.topic} on port {arguments.port}: {error.reason}")
