"""The handshake: two nodes prove to each other that they know the cluster's secret.

::

    dialer                                              answerer
      │── Hello: who I am, whom I look for, nonce ─────────►│
      │◄── Challenge: who I am, nonce ──────────────────────│
      │── Proof: HMAC(secret, "dialer", transcript) ───────►│  checks, and only now proves itself
      │◄── Accepted: HMAC(secret, "answerer", transcript) ──│  or Refused: why not
    checks

The transcript is the digest of Hello and Challenge as they were sent, so the proofs cover both
nonces and everything that was said: nothing recorded can be replayed, and a proof that is reflected
has the wrong role. The dialer proves itself first, so that a stranger who connects learns nothing
that helps to guess the secret offline. The keys of the frames that follow are derived from secret
and transcript, so whoever relays a handshake cannot add to what comes after it.

Without a secret (mutual TLS, or nodes on one machine) everything is the same with an empty one, and
proves nothing by itself. Which nodes are admitted is up to the owner of the ``Answerer``.

Pure: nonces are parameters, bytes are payloads of frames (:mod:`penstock.cluster.framing`).
"""

import hmac
from collections.abc import Callable
from enum import IntEnum
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.cluster.faults import PeerFault
from penstock.cluster.record import CLUSTER_ID_BYTES, NO_CLUSTER
from penstock.obs.printable import printable
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

VERSION = 1  # of the handshake and of all frames after it
TAKES_BLOCKS = 1  # feature: takes a snapshot of a store with blocks
ANSWERS = 2  # feature: answers questions (``cluster/asking.py``)
FEATURES = TAKES_BLOCKS | ANSWERS  # of this program; one that knows none does not mention them
HANDSHAKE_BYTES_MAX = 1024  # largest frame before authentication
SETTINGS_BYTES_MAX = 256
NONCE_BYTES = 32

REFUSAL_CHARACTERS_MAX = 256  # how much is shown of another node's refusal

Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
ClusterId = Annotated[bytes, Meta(min_length=CLUSTER_ID_BYTES, max_length=CLUSTER_ID_BYTES)]
Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Purpose(IntEnum):
    """What a connection is for. Each purpose has its own, so that none delays another."""

    CONTROL = 0  # heartbeats, votes, answers: small and urgent
    BULK = 1  # entries and batches
    SNAPSHOT = 2  # one copy of a store


class Identity(msgspec.Struct, frozen=True):
    """What a node says of itself."""

    node_id: NodeId
    incarnation: int
    cluster_id: bytes = NO_CLUSTER
    address: str = ""  # where other nodes reach it
    settings: bytes = b""  # what must be equal on all nodes; see :mod:`penstock.config.digest`


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The dialer's first frame."""

    version: Number
    cluster_id: ClusterId
    node_id: Number
    incarnation: Number
    target: Number
    purpose: Purpose
    address: Annotated[str, Meta(max_length=255)]
    nonce: Nonce
    settings: Annotated[bytes, Meta(max_length=SETTINGS_BYTES_MAX)] = b""


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The answerer's first frame."""

    cluster_id: ClusterId
    node_id: Number
    incarnation: Number
    nonce: Nonce
    features: Number = 0


class Proof(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The dialer's proof that it knows the secret."""

    proof: Annotated[bytes, Meta(max_length=32)]


class HandshakeAccepted(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The answerer's proof; it accepts the connection."""

    proof: Annotated[bytes, Meta(max_length=32)]


class HandshakeRefused(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The answerer refuses the connection."""

    reason: Annotated[str, Meta(max_length=64)]
    message: Annotated[str, Meta(max_length=512)]


class PeerSession(msgspec.Struct, frozen=True):
    """The outcome of a handshake. All but the keys describes the other side."""

    node_id: NodeId
    incarnation: int
    cluster_id: bytes
    address: str
    purpose: Purpose
    send_key: bytes
    receive_key: bytes
    features: int = 0  # of the answerer, for the dialer

    def __repr__(self) -> str:
        """Omit the keys: it may be logged."""
        purpose = self.purpose.name.lower()
        return f"PeerSession(node {self.node_id}, incarnation {self.incarnation:x}, {purpose})"


_encode = msgspec.msgpack.Encoder().encode
_to_answerer = msgspec.msgpack.Decoder(Hello | Proof)
_to_dialer = msgspec.msgpack.Decoder(Challenge | HandshakeAccepted | HandshakeRefused)


class Dialer:
    """The side that connects. Send ``hello``, then what ``received`` returns."""

    def __init__(
        self, me: Identity, target: NodeId, purpose: Purpose, secret: bytes, nonce: bytes
    ) -> None:
        self._secret = secret
        self._target = target
        self._purpose = purpose
        self.hello = _encode(
            Hello(
                VERSION,
                me.cluster_id,
                me.node_id,
                me.incarnation,
                target,
                purpose,
                me.address,
                nonce,
                me.settings,
            )
        )
        self._challenge: Challenge | None = None
        self._transcript = b""
        self.session: PeerSession | None = None  # set once the other side is authenticated

    def received(self, payload: bytes) -> bytes | None:
        """Take a payload; return the answer, if any. Raises PeerFault."""
        match _decoded(_to_dialer, payload):
            case HandshakeRefused(reason, message):
                raise _refused(reason, message)
            case Challenge() as challenge if self._challenge is None:
                return self._prove(challenge, payload)
            case HandshakeAccepted(proof) if self._challenge is not None and self.session is None:
                self._check(proof, self._challenge)
                return None
            case unexpected:
                raise _out_of_place(unexpected)

    def _prove(self, challenge: Challenge, payload: bytes) -> bytes:
        if challenge.node_id != self._target:
            raise PeerFault(
                PeerReason.WRONG_NODE,
                f"node {challenge.node_id} answers at the address of node {self._target}",
                "Check node ids, and the addresses that the nodes advertise.",
            )
        self._challenge = challenge
        self._transcript = _transcript(self.hello, payload)
        return _encode(Proof(_hmac(self._secret, b"dialer", self._transcript)))

    def _check(self, proof: bytes, challenge: Challenge) -> None:
        _compare(proof, _hmac(self._secret, b"answerer", self._transcript))
        self.session = PeerSession(
            challenge.node_id,
            challenge.incarnation,
            challenge.cluster_id,
            "",
            self._purpose,
            _hmac(self._secret, b"from dialer", self._transcript),
            _hmac(self._secret, b"from answerer", self._transcript),
            challenge.features,
        )


class Answerer:
    """The side that accepts. ``admit`` may refuse an authenticated node with a PeerFault."""

    def __init__(
        self,
        me: Identity,
        secret: bytes,
        nonce: bytes,
        admit: Callable[[Hello], None],
        other_secrets: tuple[bytes, ...] = (),
    ) -> None:
        """``other_secrets`` are accepted, too, while the cluster's secret is rotated."""
        self._me = me
        self._secret = secret
        self._other_secrets = other_secrets
        self._nonce = nonce
        self._admit = admit
        self._hello: Hello | None = None
        self._transcript = b""
        self.session: PeerSession | None = None  # set once the other side is admitted

    def received(self, payload: bytes) -> bytes:
        """Take a payload; return the answer. Raises PeerFault: see ``refusal``."""
        match _decoded(_to_answerer, payload):
            case Hello() as hello if self._hello is None:
                return self._challenge(hello, payload)
            case Proof(proof) if self._hello is not None and self.session is None:
                return self._accept(proof, self._hello)
            case unexpected:
                raise _out_of_place(unexpected)

    def _challenge(self, hello: Hello, payload: bytes) -> bytes:
        if hello.version != VERSION:
            raise PeerFault(
                PeerReason.WRONG_VERSION,
                f"node {hello.node_id} speaks version {hello.version}, this node {VERSION}",
                "Bring all nodes to the same version of Penstock.",
            )
        self._hello = hello
        me = self._me
        challenge = _encode(
            Challenge(me.cluster_id, me.node_id, me.incarnation, self._nonce, FEATURES)
        )
        self._transcript = _transcript(payload, challenge)
        return challenge

    def _accept(self, proof: bytes, hello: Hello) -> bytes:
        self._find_secret(proof)
        self._check(hello)
        self._admit(hello)
        self.session = PeerSession(
            hello.node_id,
            hello.incarnation,
            hello.cluster_id,
            hello.address,
            hello.purpose,
            _hmac(self._secret, b"from answerer", self._transcript),
            _hmac(self._secret, b"from dialer", self._transcript),
        )
        return _encode(HandshakeAccepted(_hmac(self._secret, b"answerer", self._transcript)))

    def _find_secret(self, proof: bytes) -> None:
        """Go on with the secret that the dialer has."""
        for secret in self._other_secrets:
            if hmac.compare_digest(proof, _hmac(secret, b"dialer", self._transcript)):
                self._secret = secret
        _compare(proof, _hmac(self._secret, b"dialer", self._transcript))

    def _check(self, hello: Hello) -> None:
        me = self._me
        if hello.target != me.node_id:
            raise PeerFault(
                PeerReason.WRONG_NODE,
                f"node {hello.node_id} looks for node {hello.target}, this is node {me.node_id}",
                "Check node ids, and the addresses that the nodes advertise.",
            )
        if hello.node_id in {0, me.node_id}:
            raise PeerFault(
                PeerReason.UNKNOWN_NODE,
                f"another node has the same id, {hello.node_id}",
                "Give each node a node_id of its own.",
            )
        if hello.cluster_id != me.cluster_id and NO_CLUSTER not in {
            hello.cluster_id,
            me.cluster_id,
        }:
            raise PeerFault(
                PeerReason.WRONG_CLUSTER,
                f"node {hello.node_id} is of cluster {hello.cluster_id.hex()}, this node of"
                f" {me.cluster_id.hex()}",
                "A node that is to change clusters needs a new data directory.",
            )

    @staticmethod
    def refusal(fault: PeerFault) -> bytes:
        return _encode(HandshakeRefused(fault.reason.value, fault.message[:512]))


def _decoded(
    decoder: msgspec.msgpack.Decoder[Hello | Proof]
    | msgspec.msgpack.Decoder[Challenge | HandshakeAccepted | HandshakeRefused],
    payload: bytes,
) -> Hello | Proof | Challenge | HandshakeAccepted | HandshakeRefused:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerFault(
            PeerReason.MALFORMED_FRAME, f"not a frame of a handshake: {error}"
        ) from error


def _out_of_place(message: object) -> PeerFault:
    return PeerFault(
        PeerReason.MALFORMED_FRAME, f"unexpected {type(message).__name__} in a handshake"
    )


def _refused(reason: str, message: str) -> PeerFault:
    """The other side's refusal as a fault. Only printable text: the sender is not authenticated."""
    known = {r.value: r for r in PeerReason}.get(reason, PeerReason.CONNECTION_LOST)
    return PeerFault(
        known, f"refused by the other node: {printable(message, REFUSAL_CHARACTERS_MAX)}"
    )


def _transcript(hello: bytes, challenge: bytes) -> bytes:
    """Digest of both, with their lengths, so that no other two texts give the same."""
    digest = sha256(b"penstock peers")
    for part in (hello, challenge):
        digest.update(len(part).to_bytes(4, "little"))
        digest.update(part)
    return digest.digest()


def _hmac(secret: bytes, label: bytes, transcript: bytes) -> bytes:
    return hmac.digest(secret, label + b"\0" + transcript, "sha256")


def _compare(proof: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(proof, expected):
        raise PeerFault(
            PeerReason.WRONG_SECRET,
            "the other side does not know the cluster's secret",
            "Give all nodes the same cluster.secret.",
        )
