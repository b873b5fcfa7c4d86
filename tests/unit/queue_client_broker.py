"""Scripted brokers of the queue protocol on real sockets, and both clients to be used alike.

A conversation is a function of a ``Peer``. Each connection that is made gets the next one; scenes
are written in terms of the blocking client, and ``Looped`` plays them with the asynchronous one.
"""

import asyncio
import contextlib
import inspect
import itertools
import socket
import threading

from penstock.client import connect, connect_async
from penstock.wire.queue._generated import queue_pb2 as wire

__all__ = [
    "Blocking",
    "Looped",
    "Peer",
    "be_there",
    "broker",
    "ok",
    "polled",
    "refused",
    "unused_address",
]


class Peer:
    """The broker's end of one connection."""

    def __init__(self, connection):
        self._connection = connection
        self._bytes = connection.makefile("rb")

    def read(self):
        """The next request; None when the client has nothing more to say. Pings are answered."""
        while (request := self._read()) is not None and request.HasField("ping"):
            self.say(request, ok=wire.Ok())
        return request

    def _read(self):
        length = self._bytes.read(4)
        if len(length) < 4:
            return None
        return wire.Request.FromString(self._bytes.read(int.from_bytes(length, "big")))

    def say(self, request=None, **kind):
        """Answer a request, or just say something."""
        response = wire.Response(request_id=request.request_id if request else 0, **kind)
        body = response.SerializeToString()
        self.send(len(body).to_bytes(4, "big") + body)

    def send(self, data):
        self._connection.sendall(data)

    def requests(self):
        while (request := self.read()) is not None:
            yield request

    def close(self):
        self._bytes.close()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


@contextlib.contextmanager
def broker(*conversations, again=None):
    """Listen; each connection gets its own conversation, in the order in which they are made.

    After these all further connections get the conversation ``again``, if there is one. Each is held
    in a thread of its own.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)
    failures = []
    script = itertools.chain(conversations, itertools.repeat(again) if again else ())

    def serve():
        playing = []
        with listening, contextlib.suppress(OSError):
            for converse in script:
                connection, _ = listening.accept()
                connection.settimeout(20)
                playing.append(threading.Thread(target=play, args=(converse, Peer(connection))))
                playing[-1].start()
        for thread in playing:
            thread.join(20)

    def play(converse, peer):
        try:
            converse(peer)
        except OSError:
            pass  # the client may hang up when it has what it wants
        except Exception as error:  # noqa: BLE001 - shown by the test, not by the thread
            failures.append(error)
        finally:
            peer.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        if again:
            listening.shutdown(socket.SHUT_RDWR)
        thread.join(20)
    assert not failures, failures[0]


def be_there(peer):
    """A connection on which nothing is said."""
    assert peer.read() is None


def unused_address():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


def ok():
    return {"ok": wire.Ok()}


def refused(code, **fields):
    return {"error": wire.Error(code=code, message="said the broker", **fields)}


def polled(*items):
    """Items are pairs of lease and payload; the offset is that of the lease, from 100 on."""
    delivered = [
        wire.Delivered(lease_id=lease, offset=100 + lease, payload=payload, ts_ms=5)
        for lease, payload in items
    ]
    return {"polled": wire.Polled(items=delivered)}


# ── Both clients, to be used alike ────────────────────────────────────────────────────────────


class Blocking:
    """The blocking client as it is."""

    @contextlib.contextmanager
    def connect(self, *nodes, **options):
        with connect(list(nodes), **options) as client:
            yield client

    def close(self):
        pass


class Looped:
    """The asynchronous client in the event loop of a thread."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    @contextlib.contextmanager
    def connect(self, *nodes, **options):
        client = connect_async(list(nodes), **options)
        self.run(client.__aenter__())
        try:
            yield _Proxy(self.run, client)
        finally:
            self.run(client.__aexit__(None, None, None))

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Proxy:
    """Something asynchronous as if it were blocking."""

    def __init__(self, run, inner):
        self._run = run
        self._inner = inner

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if inspect.iscoroutinefunction(value):
            return lambda *arguments, **keywords: self._run(value(*arguments, **keywords))
        if callable(value):
            return lambda *arguments, **keywords: self._iterate(value(*arguments, **keywords))
        return value

    def _iterate(self, iterator):
        while True:
            try:
                yield self._run(anext(iterator))
            except StopAsyncIteration:
                return

    def begin_fetch(self, *arguments, **keywords):
        """Not awaited, but asked in the loop of the client."""

        async def begin():
            return self._inner.begin_fetch(*arguments, **keywords)

        return self._run(begin())

    def begin_fetch_many(self, *arguments, **keywords):
        async def begin():
            return self._inner.begin_fetch_many(*arguments, **keywords)

        return self._run(begin())

    def subscribe(self, topic, group, handler, **keywords):
        """The handler may block: it runs in its own thread, as with the blocking client."""

        async def handle(job):
            await asyncio.to_thread(handler, job)

        async def subscribe():
            return self._inner.subscribe(topic, group, handle, **keywords)

        return _Proxy(self._run, self._run(subscribe()))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
