"""The clients of the binary protocol, blocking and asynchronous, behind one interface.

A scenario is written once, for the blocking clients. ``Looped`` runs the asynchronous ones in the
event loop of a thread, and has the interface of the blocking ones.
"""

import asyncio
import contextlib
import inspect
import threading

from penstock import client
from penstock.client import Backoff

__all__ = ["FAST", "Blocking", "Looped"]

FAST = Backoff(first_s=0.01, longest_s=0.05, give_up_s=20)


class Blocking:
    """Creates blocking clients of a broker; all are abandoned in the end."""

    prefix = ""

    def __init__(self, broker):
        self._broker = broker
        self._stack = contextlib.ExitStack()

    def make(self, kind, *arguments, **options):
        """A client that is not open yet."""
        options = {"port": self._broker.port, "backoff": FAST, **options}
        made = self.wrapped(getattr(client, self.prefix + kind), *arguments, **options)
        self._stack.callback(made.abandon)
        return made

    def wrapped(self, kind, *arguments, **options):
        return kind(*arguments, **options)

    def publisher(self, **options):
        return self.make("Publisher", **options).open()

    def subscriber(self, *arguments, **options):
        return self.make("Subscriber", *arguments, **options).open()

    def producer(self, *arguments, **options):
        return self.make("QueueProducer", *arguments, **options).open()

    def worker(self, *arguments, **options):
        return self.make("Worker", *arguments, **options).open()

    def ack(self, *messages):
        for message in messages:
            message.ack()

    def close(self):
        self._stack.close()


class Looped(Blocking):
    """Creates asynchronous clients that can be used from any thread."""

    prefix = "Async"

    def __init__(self, broker):
        super().__init__(broker)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def wrapped(self, kind, *arguments, **options):
        async def make():
            return kind(*arguments, **options)

        return _Proxy(self.run, self.run(make()))

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=50)

    def ack(self, *messages):
        async def ack():
            for message in messages:
                message.ack()

        self.run(ack())

    def close(self):
        super().close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Proxy:
    """An asynchronous client as a blocking one."""

    def __init__(self, run, inner):
        self._run = run
        self._inner = inner

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(value):
            return value
        return lambda *arguments: self._run(value(*arguments))

    def open(self):
        self._run(self._inner.open())
        return self

    def __enter__(self):
        self._run(self._inner.__aenter__())
        return self

    def __exit__(self, *error):
        self._run(self._inner.__aexit__(*error))

    def messages(self, idle_s):
        while (message := self.receive(idle_s)) is not None:
            yield message

    def run(self, handler, *more):
        async def handle(message):
            handler(message)

        self._run(self._inner.run(handle, *more))
