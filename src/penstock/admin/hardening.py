"""What every HTTP response says to browsers, and which requests are never read.

* **Headers**: nothing may be loaded, framed or sniffed; payloads of messages are text or JSON, and
  a browser must not take them for anything else.
* **Compressed bodies** are refused with 415: a small request could become a large one.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from penstock.net.http_refusals import refusal_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'; report-uri /api/v1/csp-reports"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class Hardened:
    """An application with these headers, and without compressed requests."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_hardened(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        encodings = [value for name, value in scope["headers"] if name == b"content-encoding"]
        if any(value.strip().lower() != b"identity" for value in encodings):
            await _refuse_encoding(scope, send_hardened)
            return
        await self._app(scope, receive, send_hardened)


async def _refuse_encoding(scope: Scope, send: Send) -> None:
    error, advice = "compressed bodies are not read", "send it without Content-Encoding"
    media_type, body = refusal_body(scope["path"], 415, error, advice)
    headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 415, "headers": headers})
    await send({"type": "http.response.body", "body": body})
