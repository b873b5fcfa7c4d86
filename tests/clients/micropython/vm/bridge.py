"""The world outside of the VM, as ``host.mjs`` gives it: streams for ``open=``, lines, chance."""

from asyncio import sleep_ms

import host
from uctypes import addressof


class Stream:
    """A reader and a writer as those of ``asyncio.open_connection``."""

    out_buf = b""

    def __init__(self, connection):
        self._connection = connection

    async def readinto(self, view):
        if not self._connection.has():
            await self._connection.ready()
        return self._connection.read(addressof(view), len(view))

    def write(self, data):
        if not self._connection.write(addressof(data), len(data)):
            self.out_buf = b"-"

    async def drain(self):
        await self._connection.drained()
        self.out_buf = b""

    def close(self):
        pass  # as in MicroPython

    async def wait_closed(self):
        self._connection.close()


class Host:
    name = "micropython-wasm"

    async def line(self):
        await host.lineReady()
        return host.line()

    def write(self, line):
        print(line)

    def random(self, count):
        data = bytearray(count)
        host.random(addressof(data), count)
        return bytes(data)

    async def collect(self):
        """Let JavaScript free the objects that it has finished with, which needs --expose-gc."""
        await host.collect()

    async def open(self, name, port, ca=None):
        connection = await host.dial(name, port, ca)
        if connection is None:
            raise OSError(111)
        await sleep_ms(0)
        stream = Stream(connection)
        return stream, stream
