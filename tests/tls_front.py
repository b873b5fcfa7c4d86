"""TLS in front of any server, by Python's own implementation: a witness for that of our clients."""

import asyncio
import ssl
import threading
from contextlib import suppress

CHUNK = 64 * 1024


class TlsFront:
    """Accepts TLS on a port of its own and passes the plain bytes on, both ways."""

    def __init__(self, certificates, port, *, demands_certificate=False):
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
        self._context.load_verify_locations(certificates / "ca.crt")
        if demands_certificate:
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._to = port
        self._loop = asyncio.new_event_loop()
        self._tasks = set()
        self.port = 0
        self.names = []  # of the certificates that clients presented

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,))
        self._thread.start()
        assert ready.wait(60)
        return self

    def __exit__(self, *_error):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self, ready):
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda *_: None)  # of handshakes that fail on purpose
        self._loop.run_until_complete(self._serve(ready))
        self._loop.close()

    async def _serve(self, ready):
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._end.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        certificate = writer.get_extra_info("peercert")
        if certificate:
            self.names.append(certificate["subject"][0][0][1])
        try:
            await self._relay(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(asyncio.current_task())

    async def _relay(self, reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        finally:
            inner_writer.transport.abort()


async def _copy(reader, writer):
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, NotImplementedError):  # the side with TLS closes by itself
        writer.write_eof()
