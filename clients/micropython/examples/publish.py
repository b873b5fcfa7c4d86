"""A sensor: connect once, publish for ever. Lost connections are the client's business."""

import asyncio

from penstock import Client


def read_sensor():
    return b"4.2"  # yours


async def main():
    client = Client("192.168.1.10", client_id="pump7")
    client.on_lost = lambda text, count: print("lost:", text, count)
    await client.connect(wait=False)  # the network may come later
    while True:
        try:
            await client.publish("plant/pump7", read_sensor())
            print("the broker has it on disk")
        except Exception as error:
            print("not stored:", error)
        await asyncio.sleep(10)


asyncio.run(main())
