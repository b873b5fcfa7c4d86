"""Asking pages without a socket."""

import asyncio
import json
from typing import NamedTuple
from urllib.parse import unquote

from penstock.admin.app import create_app


class Answer(NamedTuple):
    status: int
    headers: dict
    document: dict


class Current:
    """Confirms whether a read is current, or raises the error."""

    unconfirmed = None

    async def confirmed(self):
        await asyncio.sleep(0)
        if self.unconfirmed is not None:
            raise self.unconfirmed


class Api:
    """The application of a broker's books, asked without a socket."""

    def __init__(self, view, key_admin=None, token="", queue_admin=None, cluster_admin=None):
        self.app = create_app(view, key_admin, token, queue_admin, cluster_admin)

    async def ask_soon(self, method, path, body=None, client="127.0.0.1", **headers):
        sent = []
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        pieces = [raw[i : i + 4096] for i in range(0, len(raw), 4096)] or [b""]

        async def receive():
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message):
            sent.append(message)

        given = {"host": "localhost:1883"} | headers
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "server": ("127.0.0.1", 1883),
            "client": client and (client, 50_000),
        }
        await self.app(scope, receive, send)
        start, *bodies = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        content = b"".join(piece.get("body", b"") for piece in bodies)
        return Answer(start["status"], found, json.loads(content))

    def ask(self, *arguments, **options):
        return asyncio.run(self.ask_soon(*arguments, **options))
