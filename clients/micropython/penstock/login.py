"""Logging in: AUTH with a password, secret or token, or with the signature of a nonce."""

from penstock.wire import ClientError, RefusedError, frame

try:
    from micropython import const
except ImportError:
    from penstock._cpython import const

_ACK = const(0x05)
_ERROR = const(0x08)
_AUTH = const(0x14)
_CHALLENGE = const(0x15)


class LoginError(RefusedError):
    """The broker does not accept these credentials."""


async def login(client: object, user: str, secret: str) -> None:
    """Log in; with the user ``key:ID`` the client's signing key proves who it is."""
    name = user.encode()
    key = client._signer if user.startswith("key:") else None
    answer = await _ask(client, name, b"" if key else secret.encode())
    if key and answer.command == _CHALLENGE:
        proof = await key.sign((b"\0penstock-login-1", answer.payload))
        answer = await _ask(client, name, proof)
    if answer.command == _ERROR:
        _refused(str(answer.payload, "utf-8"))
    elif answer.command != _ACK:
        raise ClientError("the answer to the login is none")


async def _ask(client: object, name: bytes, payload: bytes) -> object:
    await client._send(frame(_AUTH, client._sequence(), name, payload))
    return await client._answer()


def _refused(text: str) -> None:
    if text.startswith("Unknown command"):  # an older broker: it has no users
        return
    if "; try a" in text or not text.startswith("Login failed"):  # again, or another node
        raise ClientError(text)
    raise LoginError(text)
