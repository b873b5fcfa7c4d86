"""Why a publish was refused for its signature, and the text for the client.

An unknown, a revoked and an expired key and a wrong signature all get the same text; the operator
learns more from counters by fault. Clients of the binary protocol read a reply with one call of 256
bytes, so a text stays within ``TEXT_BYTES_MAX``.
"""

from enum import Enum

import msgspec

TEXT_BYTES_MAX = 240  # longest text for a client: 256 bytes less the 16 of a frame's header

_ELLIPSIS = "…"


class SignatureFault(Enum):
    """Why a signature was refused. The value is the label in metrics and logs."""

    UNSIGNED = "unsigned"
    """The topic requires a signature, and there is none."""
    VERSION_REFUSED = "version_refused"
    """The topic does not accept this signature version."""
    UNKNOWN_KEY = "unknown_key"
    """No key with that id is registered."""
    REVOKED_KEY = "revoked_key"
    """The key was revoked."""
    EXPIRED_KEY = "expired_key"
    """The key has expired."""
    BAD_SIGNATURE = "bad_signature"
    """The signature was not made with this key, or not for this topic and payload."""
    NOT_AUTHORIZED = "not_authorized"
    """The signature is valid, but the key may not publish to this topic."""
    STALE = "stale"
    """Version 2: signed before the replay window."""
    AHEAD = "ahead"
    """Version 2: signed in the future, by more than clocks may differ."""
    BEFORE_START = "before_start"
    """Version 2: signed before this broker began to remember nonces."""
    REPLAYED = "replayed"
    """Version 2: accepted before."""
    WINDOW_FULL = "window_full"
    """Version 2: the replay window holds as many nonces as it may."""
    PROTECTED = "protected"
    """Not a publish: a client tried to remove signed messages or to change their retention."""


_INVALID = "Invalid signature or unknown key"

_TEXTS = {
    SignatureFault.UNSIGNED: "Topic '{topic}' requires signed publish (CMD_SIGNED_PUBLISH)",
    SignatureFault.VERSION_REFUSED: "Topic '{topic}' does not accept this version of signature",
    SignatureFault.UNKNOWN_KEY: _INVALID,
    SignatureFault.REVOKED_KEY: _INVALID,
    SignatureFault.EXPIRED_KEY: _INVALID,
    SignatureFault.BAD_SIGNATURE: _INVALID,
    SignatureFault.NOT_AUTHORIZED: "Key not authorized for topic '{topic}'",
    SignatureFault.STALE: "Signature too old: check the clock and sign again",
    SignatureFault.AHEAD: "Signature from the future: check the clock and sign again",
    SignatureFault.BEFORE_START: "Signature made before the broker started: sign again",
    SignatureFault.REPLAYED: "Signature used before: sign each publish with a new nonce",
    SignatureFault.WINDOW_FULL: "Too many signed publishes at once: try again later",
    SignatureFault.PROTECTED: (
        "Topic '{topic}' holds signed messages: only administrators may remove them or change"
        " their retention (penstock queue delete, penstock queue set)"
    ),
}  # the texts of UNSIGNED, NOT_AUTHORIZED and ``_INVALID`` are part of the binary protocol


class SignatureRefusal(msgspec.Struct, frozen=True, gc=False):
    """A refused publish: the reason for the operator, the text for the client."""

    reason: SignatureFault
    text: str
    detail: str = ""  # for the operator: which key, how old

    @classmethod
    def of(cls, fault: SignatureFault, topic: bytes, detail: str = "") -> "SignatureRefusal":
        template = _TEXTS[fault]
        room = TEXT_BYTES_MAX - len(template.replace("{topic}", ""))
        return cls(fault, template.replace("{topic}", _cut(topic, room)), detail)


def _cut(topic: bytes, room: int) -> str:
    shown = topic.decode("utf-8", "replace")
    encoded = shown.encode()
    if len(encoded) <= room:
        return shown
    return encoded[: room - len(_ELLIPSIS.encode())].decode("utf-8", "ignore") + _ELLIPSIS
