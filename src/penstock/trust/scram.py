"""SCRAM-SHA-256 (RFC 5802, RFC 7677): both ends of a login that never sends the password.

::

    client                                               server
    n,,n=ann,r=CLIENT                 client-first  ->
                                      <-  server-first   r=CLIENTSERVER,s=SALT,i=600000
    c=biws,r=CLIENTSERVER,p=PROOF     client-final  ->
                                      <-  server-final   v=SIGNATURE

The proof shows that the client knows the password, the signature that the server knows its
verifier (``scram_verifier``). Both cover all messages and both nonces, so none can be played again
or changed on the way. Nonces are passed in: printable characters without a comma.

The server has no channel binding: it takes ``n`` and ``y`` and refuses ``p``. Nobody acts for
somebody else: an authorization identity other than the user is refused. Mandatory extensions are
refused, others are ignored.

Everything that is read is bounded first. ``RemoteProtocolError`` is what the peer must not send.
"""

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from hmac import compare_digest, digest
from typing import NamedTuple

from penstock.errors import LocalProtocolError, Refused, RemoteProtocolError
from penstock.trust.scram_verifier import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    METHOD,
    Keys,
    Verifier,
    keys_of,
)

__all__ = ["METHOD", "ClientFirst", "ScramClient", "ScramServer", "read_client_first"]

MESSAGE_BYTES_MAX = 2_048
NAME_BYTES_MAX = 256  # longer than any user's; those are looked up, and are not there
NONCE_BYTES_MAX = 256
NONCE_BYTES_MIN = 8  # of our own, and of what a server adds; a client's nonce protects itself
SALT_BYTES_MAX = 256
ERROR_BYTES_MAX = 64  # of a server's words that are shown

_NONCE = rb"[\x21-\x2b\x2d-\x7e]+"
_NAME = rb"(?:[^\x00,=]|=2C|=3D)+"
_EXTENSIONS = rb"(?:,[A-Za-ln-z]=[^\x00,]+)*"  # m is the mandatory one
_BASE64 = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"

_CLIENT_FIRST = re.compile(
    rb"((n|y|p=[A-Za-z0-9.-]+),(?:a=(%b))?,)(n=(%b),r=(%b)%b)" % (_NAME, _NAME, _NONCE, _EXTENSIONS)
)
_SERVER_FIRST = re.compile(rb"r=(%b),s=(%b),i=([1-9][0-9]{0,9})%b" % (_NONCE, _BASE64, _EXTENSIONS))
_CLIENT_FINAL = re.compile(
    rb"(c=(%b),r=(%b)%b),p=([A-Za-z0-9+/]{43}=)" % (_BASE64, _NONCE, _EXTENSIONS)
)
_SERVER_FINAL = re.compile(rb"(?:v=([A-Za-z0-9+/]{43}=)|e=([^\x00,]+))%b" % _EXTENSIONS)


class ClientFirst(NamedTuple):
    """What a client begins with."""

    user: str
    nonce: bytes
    header: bytes  # of GS2; its final message repeats it
    bare: bytes  # the rest, which proofs cover


def read_client_first(message: bytes) -> ClientFirst:
    """Raises RemoteProtocolError."""
    found = _matched(_CLIENT_FIRST, message, "first message of a client")
    header, flag, authorized, bare, name, nonce = found.groups()
    if flag.startswith(b"p"):
        raise RemoteProtocolError("SCRAM: there is no channel binding here")
    if authorized is not None and authorized != name:
        raise RemoteProtocolError("SCRAM: nobody can act for another user here")
    if len(name) > NAME_BYTES_MAX:
        raise RemoteProtocolError(f"SCRAM: a name of {len(name)} bytes")
    if len(nonce) > NONCE_BYTES_MAX:
        raise RemoteProtocolError(f"SCRAM: a nonce of {len(nonce)} bytes")
    return ClientFirst(_unescaped(name), nonce, header, bare)


class ScramServer:
    """The broker's end of one login: ``first`` to be sent, then ``finish`` once."""

    __slots__ = ("_client", "_is_finished", "_nonce", "_verifier", "first")

    def __init__(self, client: ClientFirst, verifier: Verifier, nonce: bytes) -> None:
        _check_own_nonce(nonce)
        self._client = client
        self._verifier = verifier
        self._nonce = client.nonce + nonce
        self._is_finished = False
        salt = b64encode(verifier.salt)
        self.first = b"r=%b,s=%b,i=%d" % (self._nonce, salt, verifier.iterations)

    def finish(self, message: bytes) -> bytes | None:
        """The server's last message; None if the proof is wrong.

        Raises RemoteProtocolError.
        """
        if self._is_finished:
            raise LocalProtocolError("SCRAM: this login is over")
        self._is_finished = True
        found = _matched(_CLIENT_FINAL, message, "last message of a client")
        without_proof, header, nonce, proof = found.groups()
        if not compare_digest(nonce, self._nonce):
            raise RemoteProtocolError("SCRAM: the nonce is not of this login")
        if not compare_digest(b64decode(header), self._client.header):
            raise RemoteProtocolError("SCRAM: the header is not that of the first message")
        covered = b"%b,%b,%b" % (self._client.bare, self.first, without_proof)
        _, _, stored_key, server_key = self._verifier
        client_key = _xor(b64decode(proof), digest(stored_key, covered, "sha256"))
        if not compare_digest(sha256(client_key).digest(), stored_key):
            return None
        return b"v=" + b64encode(digest(server_key, covered, "sha256"))


class ScramClient:
    """A client's end of one login: send ``first``, then ``final``, then ``check`` the last answer.

    ``final`` derives the keys from the password, which takes a fraction of a second: run it in a
    thread where that matters. ``check`` must be called: without it anybody could be the broker.
    """

    __slots__ = ("_bare", "_nonce", "_password", "_signature", "first")

    def __init__(self, user: str, password: str, nonce: bytes) -> None:
        _check_own_nonce(nonce)
        name = user.replace("=", "=3D").replace(",", "=2C").encode()
        if not name or b"\x00" in name or len(name) > NAME_BYTES_MAX:
            raise LocalProtocolError(f"SCRAM: a user name has 1 to {NAME_BYTES_MAX} bytes")
        self._nonce = nonce
        self._password = password
        self._bare = b"n=%b,r=%b" % (name, nonce)
        self._signature = b""
        self.first = b"n,," + self._bare

    def __repr__(self) -> str:
        return "ScramClient(…)"

    def final(self, server_first: bytes) -> bytes:
        """Raises RemoteProtocolError."""
        found = _matched(_SERVER_FIRST, server_first, "first message of a server")
        nonce, salt, iterations = found[1], b64decode(found[2]), int(found[3])
        if not nonce.startswith(self._nonce) or len(nonce) < len(self._nonce) + NONCE_BYTES_MIN:
            raise RemoteProtocolError("SCRAM: the server's nonce is not of this login")
        if not 1 <= len(salt) <= SALT_BYTES_MAX:
            raise RemoteProtocolError(f"SCRAM: a salt of {len(salt)} bytes")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            # few would make a stolen message a way to guess the password, many keep the client busy
            raise RemoteProtocolError(f"SCRAM: {iterations} iterations")
        without_proof = b"c=%b,r=%b" % (b64encode(b"n,,"), nonce)
        covered = b"%b,%b,%b" % (self._bare, server_first, without_proof)
        return self._proved(without_proof, covered, keys_of(self._password, salt, iterations))

    def _proved(self, without_proof: bytes, covered: bytes, keys: Keys) -> bytes:
        self._signature = digest(keys.server_key, covered, "sha256")
        proof = _xor(keys.client_key, digest(keys.stored_key, covered, "sha256"))
        return b"%b,p=%b" % (without_proof, b64encode(proof))

    def check(self, server_final: bytes) -> None:
        """Raises Refused if the login failed, RemoteProtocolError if the server is another one."""
        found = _matched(_SERVER_FINAL, server_final, "last message of a server")
        if found[2] is not None:
            words = ascii(found[2][:ERROR_BYTES_MAX].decode())
            raise Refused(f"SCRAM: the login failed: {words}")
        if not self._signature or not compare_digest(b64decode(found[1]), self._signature):
            raise RemoteProtocolError(
                "SCRAM: the server does not know the user's verifier", "is it the right broker?"
            )


def _matched(pattern: re.Pattern[bytes], message: bytes, what: str) -> re.Match[bytes]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise RemoteProtocolError(f"SCRAM: a message of {len(message)} bytes")
    found = pattern.fullmatch(message)
    if found is None or not _is_text(message):
        raise RemoteProtocolError(f"SCRAM: not the {what}")
    return found


def _is_text(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_own_nonce(nonce: bytes) -> None:
    is_printable = re.fullmatch(_NONCE, nonce) is not None
    if not is_printable or not NONCE_BYTES_MIN <= len(nonce) <= NONCE_BYTES_MAX:
        raise LocalProtocolError("SCRAM: a nonce has 8 to 256 printable characters and no comma")


def _unescaped(name: bytes) -> str:
    return name.replace(b"=2C", b",").replace(b"=3D", b"=").decode()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
