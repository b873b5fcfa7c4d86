"""TLS with an authority of one's own: ``penstock certs`` made the file."""

import asyncio
import ssl

from penstock import Client

context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.verify_mode = ssl.CERT_REQUIRED
context.load_verify_locations(cafile="ca.crt")


async def dial(host, port):
    return await asyncio.open_connection(host, port, ssl=context, server_hostname=host)


async def main():
    async with Client("broker.plant", open=dial, user="pump7", password="secret") as client:
        await client.publish("plant/pump7", b"4.2")


asyncio.run(main())
