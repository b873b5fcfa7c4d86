"""Asking ``/api/v1`` over real sockets.

``ApiClient`` asks a broker, as ``penstock.testing`` starts it. ``served`` serves resources of a
test's own, without a broker, through the door that brokers have.
"""

import asyncio
import http.client
import json
import threading
import time
from base64 import b64encode
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlencode

from penstock.admin.app import create_app
from penstock.admin.guard import Guard
from penstock.api.app import create_api
from penstock.api.parts import Parts
from penstock.net.http import HttpDoor
from penstock.net.origin import Approach, Origin

BASE = "/api/v1"


class Answer(NamedTuple):
    status: int
    headers: dict
    document: object  # of JSON; else the bytes


class ApiClient:
    """Asks one broker; each request has a connection of its own.

    Who asks too often is told so; a test usually has another question, so it waits its turn.
    """

    def __init__(self, port, user="", secret="", *, is_patient=True, tls=None, **headers):
        """``tls``: an SSL context."""
        self.port = port
        self.tls = tls
        self.is_patient = is_patient
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            basic = b64encode(f"{user}:{secret}".encode()).decode()
            self.headers["authorization"] = f"Basic {basic}"

    def ask(self, method, path, body=None, headers=(), **query):
        while True:
            answer = self._ask(method, path, body, headers, query)
            if not (self.is_patient and is_throttled(answer)):
                return answer
            time.sleep(0.05)

    def _ask(self, method, path, body, headers, query):
        connection = self.connect()
        try:
            connection.request(
                method, url(path, query), encoded(body), self.headers | dict(headers)
            )
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        is_json = "json" in found.get("content-type", "")
        return Answer(response.status, found, json.loads(content) if is_json else content)

    def connect(self):
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.tls)

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def post(self, path, body=None, **query):
        return self.ask("POST", path, {} if body is None else body, **query)

    def delete(self, path, body=None, **query):
        return self.ask("DELETE", path, body, **query)


def is_throttled(answer):
    return answer.status == 429 and answer.document["code"] == "too_many_requests"


def url(path, query):
    """``query``: parameters by name; those that are None are left out, lists are repeated."""
    given = {name: value for name, value in query.items() if value is not None}
    text = urlencode(given, doseq=True)
    full = path if path.startswith("/") else f"{BASE}/{path}"
    return full + (f"?{text}" if text else "")


def encoded(body):
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


class _First(asyncio.Protocol):
    def __init__(self, door):
        self._door = door

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        host, port = self._transport.get_extra_info("peername")[:2]
        origin = Origin(0.0, f"{host}:{port}", Approach(is_local=True))
        self._door.accept(self._transport, data, origin)


class Events:
    """A stream of events: ``next()`` waits for one."""

    def __init__(self, client, headers=(), **query):
        self.connection = client.connect()
        self.connection.request("GET", url("stream", query), headers=client.headers | dict(headers))
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.last_id = ""

    def next(self):
        """The next event; None at the end."""
        name = data = None
        while line := self.response.readline():
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = json.loads(value)
            elif field == "id":
                self.last_id = value
            elif not line.strip() and name is not None:
                return name, data
        return None

    def until(self, name):
        while (event := self.next()) is not None:
            if event[0] == name:
                return event[1]
        raise AssertionError(f"the stream ended without {name}")

    def document(self):
        return json.loads(self.response.read())

    def close(self):
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()


@contextmanager
def served(view, *resources, before=lambda _strike: None, **parts):
    """An API of these resources alone, on a port of its own: yields a client of it.

    ``before`` is given a function that lets streams look for news, as each second does.
    """
    loop = asyncio.new_event_loop()
    started, stop, ports = threading.Event(), asyncio.Event(), []

    async def strike(beat):
        beat.strike()
        for _ in range(5):
            await asyncio.sleep(0)

    async def run():
        made = Parts(view=view, guard=Guard(), **parts)
        before(lambda: asyncio.run_coroutine_threadsafe(strike(made.beat), loop).result())
        api = create_api(made, resources=resources)
        door = HttpDoor(create_app(view, api=api))
        server = await loop.create_server(lambda: _First(door), "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        await stop.wait()
        server.close()
        door.abort_all()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        assert started.wait(30)
        yield ApiClient(ports[0])
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
