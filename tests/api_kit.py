"""Asking ``/api/v1`` over real sockets.

``ApiClient`` asks a broker, as ``penstock.testing`` starts it. ``served`` serves resources of a
test's own, without a broker, through the door that brokers have.
"""

import asyncio
import http.client
import json
import threading
from base64 import b64encode
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlencode

from penstock.admin.app import create_app
from penstock.admin.guard import Guard
from penstock.api.app import create_api
from penstock.api.parts import Parts
from penstock.net.http import HttpDoor
from penstock.net.origin import Origin

BASE = "/api/v1"


class Answer(NamedTuple):
    status: int
    headers: dict
    document: object  # of JSON; else the bytes


class ApiClient:
    """Asks one broker; each request has a connection of its own."""

    def __init__(self, port, user="", secret="", **headers):
        self.port = port
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            basic = b64encode(f"{user}:{secret}".encode()).decode()
            self.headers["authorization"] = f"Basic {basic}"

    def ask(self, method, path, body=None, headers=(), **query):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
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

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def post(self, path, body=None, **query):
        return self.ask("POST", path, {} if body is None else body, **query)

    def delete(self, path, body=None, **query):
        return self.ask("DELETE", path, body, **query)


def url(path, query):
    """``query``: parameters by name; those that are None are left out, lists are repeated."""
    given = {name: value for name, value in query.items() if value is not None}
    text = urlencode(given, doseq=True)
    return f"{BASE}/{path}" + (f"?{text}" if text else "")


def encoded(body):
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


class _First(asyncio.Protocol):
    def __init__(self, door):
        self._door = door

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        host, port = self._transport.get_extra_info("peername")[:2]
        origin = Origin(0.0, f"{host}:{port}", is_local=True)
        self._door.accept(self._transport, data, origin)


@contextmanager
def served(view, *resources, **parts):
    """An API of these resources alone, on a port of its own: yields a client of it."""
    loop = asyncio.new_event_loop()
    started, stop, ports = threading.Event(), asyncio.Event(), []

    async def run():
        api = create_api(Parts(view=view, guard=Guard(), **parts), resources=resources)
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
