"""The handshake: an HTTP request that asks for an upgrade, and its answer.

A server judges a request by ``judge_request``; a client sends ``handshake_request`` and checks what
comes back, up to the empty line, by ``check_handshake_response``. Frames may follow directly.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from hashlib import sha1
from typing import Final, NamedTuple

SUBPROTOCOL: Final = "mqtt"
VERSION: Final = "13"
KEY_BYTES: Final = 16  # of the random number that a client sends, in base64
HEAD_BYTES_MAX: Final = 16 * 1024  # of an answer; a proxy may add headers
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # fixed by RFC 6455


class HandshakeFault(ValueError):  # noqa: N818 - a fault of the server
    """The answer is not one to a handshake of ours, or refuses it."""


class Unacceptable(NamedTuple):
    """Why a request cannot become a WebSocket: a status of HTTP, and a sentence."""

    status: int
    detail: str


def accept_key(key: str) -> str:
    """What a server answers to a client's key, which proves that it speaks WebSocket."""
    digest = sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def tokens(values: Iterable[str]) -> list[str]:
    """The elements of a list that may be spread over several headers of the same name."""
    parts = [part.strip(" \t") for value in values for part in value.split(",")]
    return [part for part in parts if part]


def asks_for_upgrade(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a request, whose header names are in lower case, wants to become a WebSocket."""
    found = _by_name(headers)
    return "websocket" in _lower(found, "upgrade") and "upgrade" in _lower(found, "connection")


def judge_request(
    method: str, http_version: str, headers: Iterable[tuple[str, str]]
) -> Unacceptable | str:
    """The client's key, or why there is no WebSocket for it. Path and origin are not judged."""
    found = _by_name(headers)
    if method != "GET":
        return Unacceptable(405, "A WebSocket begins with GET")
    if http_version != "1.1":
        return Unacceptable(400, "A WebSocket begins with HTTP/1.1")
    if tokens(found.get("sec-websocket-version", [])) != [VERSION]:
        return Unacceptable(426, f"Only version {VERSION} of WebSocket is spoken")
    keys = found.get("sec-websocket-key", [])
    if len(keys) != 1 or not _is_key(keys[0]):
        return Unacceptable(400, f"Sec-WebSocket-Key must be {KEY_BYTES} bytes in base64")
    if SUBPROTOCOL not in tokens(found.get("sec-websocket-protocol", [])):
        return Unacceptable(400, f"Only the sub-protocol {SUBPROTOCOL} is spoken; ask for it")
    return keys[0]


def handshake_response(key: str) -> bytes:
    return (
        "HTTP/1.1 101 Switching Protocols\r\n"
        "Upgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\n"
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
    ).encode("ascii")


def handshake_request(
    host: str, path: str, nonce: bytes, headers: Mapping[str, str] | None = None
) -> tuple[bytes, str]:
    """A client's request, and the key that its answer is checked by.

    ``host`` is as in a URL, with the port unless it is the default. ``nonce`` is 16 random bytes.
    """
    key = base64.b64encode(nonce).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        f"Sec-WebSocket-Version: {VERSION}",
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in the address or a header")
    return "\r\n".join([*lines, "", ""]).encode("ascii"), key


def check_handshake_response(data: bytes, key: str) -> bytes | None:
    """Read a server's answer; return the bytes after it, None if it is incomplete.

    Raises HandshakeFault, with the status and the first line of the body if there is one.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > HEAD_BYTES_MAX:
            raise HandshakeFault(f"no end of the answer within {HEAD_BYTES_MAX} bytes")
        return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if version != "HTTP/1.1" or status[:3] != "101":
        body = data[end + 4 :].decode("utf-8", "replace").partition("\n")[0]
        raise HandshakeFault(f"answered {first[:80]!r} {body[:200]}".rstrip())
    pairs = [(name.strip().lower(), value) for name, _, value in (s.partition(":") for s in lines)]
    _check_agreed(pairs, key)
    return data[end + 4 :]


def _check_agreed(pairs: list[tuple[str, str]], key: str) -> None:
    found = _by_name(pairs)
    if not asks_for_upgrade(pairs):
        raise HandshakeFault("the answer upgrades to something else than a WebSocket")
    if tokens(found.get("sec-websocket-accept", [])) != [accept_key(key)]:
        raise HandshakeFault("the answer is not one to this request: Sec-WebSocket-Accept")
    if tokens(found.get("sec-websocket-protocol", [])) != [SUBPROTOCOL]:
        raise HandshakeFault(f"the server did not agree to the sub-protocol {SUBPROTOCOL}")
    if tokens(found.get("sec-websocket-extensions", [])):
        raise HandshakeFault("the server chose an extension that was not offered")


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _by_name(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value)
    return found


def _lower(found: Mapping[str, list[str]], name: str) -> list[str]:
    return [token.lower() for token in tokens(found.get(name, []))]
