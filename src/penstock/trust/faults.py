"""Why a publish was refused by its signature or the lack of one, and what the client is told.

A client that has no business here learns little: an unknown, a revoked and an expired key and a
wrong signature all get the same text. The operator learns everything, from counters by fault.

Shipped clients of the binary protocol read a reply with one call of 256 bytes. A text therefore
stays within ``TEXT_BYTES_MAX``, whatever the topic: a topic that does not fit is cut.
"""

from enum import Enum

import msgspec

TEXT_BYTES_MAX = 240  # longest text for a client: 256 bytes less the 16 of a frame's header

_ELLIPSIS = "…"


class SignatureFault(Enum):
    """What is wrong with a signature. The value is the label in metrics and logs."""

    UNSIGNED = "unsigned"  # no signature, where the topic demands one
    VERSION_REFUSED = "version_refused"  # a version of signature that the topic does not accept
    UNKNOWN_KEY = "unknown_key"  # no key of that id is registered
    REVOKED_KEY = "revoked_key"  # the key was revoked
    EXPIRED_KEY = "expired_key"  # the key's time is over
    BAD_SIGNATURE = "bad_signature"
    """The signature is not this key's, or not for this topic and payload."""
    NOT_AUTHORIZED = "not_authorized"
    """The signature is right, but the key may not publish to this topic."""
    STALE = "stale"  # version 2: signed longer ago than the replay window reaches
    AHEAD = "ahead"  # version 2: signed in the future, by more than clocks may differ
    BEFORE_START = "before_start"
    """Version 2: signed before the time from which this broker remembers nonces."""
    REPLAYED = "replayed"  # version 2: accepted once already
    WINDOW_FULL = "window_full"  # version 2: the window holds as many nonces as it may
    PROTECTED = "protected"
    """No publish: a client asked to remove signed messages, or to change how long they stay."""


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
}  # those of UNSIGNED and NOT_AUTHORIZED, and ``_INVALID``, are the seed's, letter by letter


class SignatureRefusal(msgspec.Struct, frozen=True, gc=False):
    """A publish that is not taken: the reason for the operator, the text for the client."""

    reason: SignatureFault
    text: str

    @classmethod
    def of(cls, fault: SignatureFault, topic: bytes) -> "SignatureRefusal":
        """Make the refusal of a publish to ``topic``; a topic that is no UTF-8 is shown so."""
        template = _TEXTS[fault]
        room = TEXT_BYTES_MAX - len(template.replace("{topic}", ""))
        return cls(fault, template.replace("{topic}", _cut(topic, room)))


def _cut(topic: bytes, room: int) -> str:
    shown = topic.decode("utf-8", "replace")
    encoded = shown.encode()
    if len(encoded) <= room:
        return shown
    return encoded[: room - len(_ELLIPSIS.encode())].decode("utf-8", "ignore") + _ELLIPSIS
