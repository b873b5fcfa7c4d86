"""A worker with a persistent session: messages published in its absence wait for it.

With a broker running (``make serve``) and ``.venv/bin/pip install paho-mqtt aiomqtt``::

    .venv/bin/python examples/worker.py              # the first run subscribes
    .venv/bin/python examples/sensor.py              # published while the worker is away
    .venv/bin/python examples/worker.py              # the second run gets it all

It leaves after a second without messages; a real worker would stay.
"""

import argparse
import asyncio

import aiomqtt


async def main(port: int) -> None:
    """Receive what waits, then leave; the broker keeps the session for the next run."""
    async with aiomqtt.Client(
        "127.0.0.1", port, identifier="worker-1", clean_session=False
    ) as client:
        await client.subscribe("plant/#", qos=1)
        try:
            while True:
                message = await asyncio.wait_for(anext(client.messages), timeout=1)
                assert isinstance(message.payload, bytes)
                print(f"{message.topic} {message.payload.decode()}")
        except TimeoutError:
            print("nothing more")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=1883)
    asyncio.run(main(parser.parse_args().port))
