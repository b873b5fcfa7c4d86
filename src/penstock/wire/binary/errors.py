"""Every ERROR of the protocol: its code word, its kind, its text, and what a client does then.

An ERROR of version 1 says what happened in its text alone: its sequence is 0 and its topic empty.
So the texts are part of the protocol, and there is one list of them, which both ends use: the
broker can send no other (``encode.error`` takes a ``Fault``), and a client knows from it which of
them answer its oldest request and which answer none. A client that asked for coded errors (HELLO)
gets the code word in the topic field and the sequence of the request, and reads no text.
"""

import re
from enum import Enum, StrEnum
from typing import NamedTuple


class ErrorKind(StrEnum):
    """Which request an ERROR answers, and whether the connection goes on."""

    ANSWER = "answer"  # the oldest request that has no reply; the connection goes on
    LAST_ANSWER = "last answer"  # the same, and the connection ends
    NOTICE = "notice"  # no request; the connection goes on
    FAREWELL = "farewell"  # no request; the connection ends, the outcome of open ones is unknown


class Remedy(StrEnum):
    """What a client does about an ERROR."""

    GIVE_UP = "give up"  # the request fails; the same one will fail again
    SIGN_AGAIN = "sign again"  # with the present time and a new nonce, then send it again
    GO_ON = "go on"  # note it
    RECONNECT = "reconnect"  # and repeat what has no answer
    STOP = "stop"  # do not come back with this client id: both would take it from each other


class ErrorInfo(NamedTuple):
    """What a code word stands for; ``{…}`` in a text is any text."""

    code: str
    kind: ErrorKind
    remedy: Remedy
    text: str


class ErrorCode(Enum):
    """All errors, by what they are about."""

    UNKNOWN_COMMAND = ErrorInfo(
        "unknown_command", ErrorKind.ANSWER, Remedy.GIVE_UP, "Unknown command"
    )
    MALFORMED = ErrorInfo(
        "malformed", ErrorKind.ANSWER, Remedy.GIVE_UP, "Malformed {command}: {why}"
    )
    LOGIN_FAILED = ErrorInfo(
        "login_failed",
        ErrorKind.LAST_ANSWER,
        Remedy.GIVE_UP,
        "Login failed: {why} — connection closed",
    )
    LOGIN_REQUIRED = ErrorInfo(
        "login_required",
        ErrorKind.LAST_ANSWER,
        Remedy.GIVE_UP,
        "Login required — connection closed",
    )
    CLIENT_ID_REFUSED = ErrorInfo(
        "client_id_refused", ErrorKind.ANSWER, Remedy.GIVE_UP, "Client id refused: {why}"
    )
    NOT_AUTHORIZED = ErrorInfo(
        "not_authorized",
        ErrorKind.ANSWER,
        Remedy.GIVE_UP,
        "Not authorized for topic '{topic}'{why}",
    )
    SIGNATURE_REQUIRED = ErrorInfo(
        "signature_required",
        ErrorKind.ANSWER,
        Remedy.GIVE_UP,
        "Topic '{topic}' requires signed publish (CMD_SIGNED_PUBLISH)",
    )
    SIGNATURE_VERSION = ErrorInfo(
        "signature_version",
        ErrorKind.ANSWER,
        Remedy.GIVE_UP,
        "Topic '{topic}' does not accept this version of signature",
    )
    SIGNATURE_INVALID = ErrorInfo(
        "signature_invalid", ErrorKind.ANSWER, Remedy.GIVE_UP, "Invalid signature or unknown key"
    )
    KEY_NOT_AUTHORIZED = ErrorInfo(
        "key_not_authorized",
        ErrorKind.ANSWER,
        Remedy.GIVE_UP,
        "Key not authorized for topic '{topic}'",
    )
    SIGNATURE_STALE = ErrorInfo(
        "signature_stale", ErrorKind.ANSWER, Remedy.SIGN_AGAIN, "Signature {why}"
    )
    SIGNATURES_BUSY = ErrorInfo(
        "signatures_busy",
        ErrorKind.ANSWER,
        Remedy.SIGN_AGAIN,
        "Too many signed publishes at once: try again later",
    )
    ENVELOPE_REQUIRED = ErrorInfo(
        "envelope_required",
        ErrorKind.ANSWER,
        Remedy.GIVE_UP,
        "Topics below $signed/ take envelopes with signed messages only",
    )
    TOPIC_INVALID = ErrorInfo(
        "topic_invalid", ErrorKind.ANSWER, Remedy.GIVE_UP, "Not a topic to publish to: {why}"
    )
    SUBSCRIBE_REFUSED = ErrorInfo(
        "subscribe_refused",
        ErrorKind.ANSWER,
        Remedy.GIVE_UP,
        "Cannot subscribe to '{topic}': {why}",
    )
    TOPIC_TOO_LONG = ErrorInfo(
        "topic_too_long",
        ErrorKind.LAST_ANSWER,
        Remedy.GIVE_UP,
        "Topic too long — connection closed",
    )
    TOO_LARGE = ErrorInfo(
        "too_large",
        ErrorKind.LAST_ANSWER,
        Remedy.GIVE_UP,
        "Message too large — connection closed",
    )
    VERSION = ErrorInfo(
        "version",
        ErrorKind.LAST_ANSWER,
        Remedy.GIVE_UP,
        "Unsupported protocol version — connection closed",
    )
    RETENTION = ErrorInfo(
        "retention",
        ErrorKind.NOTICE,
        Remedy.GO_ON,
        "{count} messages of '{topic}' were removed by retention unread",
    )
    WITHDRAWN = ErrorInfo(
        "withdrawn",
        ErrorKind.NOTICE,
        Remedy.GO_ON,
        "The right to '{topic}' was withdrawn: unsubscribed",
    )
    TAKEN_OVER = ErrorInfo(
        "taken_over", ErrorKind.FAREWELL, Remedy.STOP, "Another connection uses this client id"
    )
    FOREIGN_CLIENT_ID = ErrorInfo(
        "foreign_client_id",
        ErrorKind.FAREWELL,
        Remedy.STOP,
        "Not authorized: this client id belongs to another user",
    )
    DISK_FULL = ErrorInfo(
        "disk_full",
        ErrorKind.FAREWELL,
        Remedy.RECONNECT,
        "The broker's disk is full: not stored, send again later",
    )
    DISK_FAILED = ErrorInfo(
        "disk_failed",
        ErrorKind.FAREWELL,
        Remedy.RECONNECT,
        "The broker's disk failed: not stored, send again later",
    )
    NO_QUORUM = ErrorInfo(
        "no_quorum",
        ErrorKind.FAREWELL,
        Remedy.RECONNECT,
        "No quorum of the cluster: what was sent may be stored or not",
    )
    LEADERSHIP_LOST = ErrorInfo(
        "leadership_lost",
        ErrorKind.FAREWELL,
        Remedy.RECONNECT,
        "Another node is the leader now: not stored, send again",
    )
    STOPPING = ErrorInfo("stopping", ErrorKind.FAREWELL, Remedy.RECONNECT, "The broker is stopping")
    INTERNAL = ErrorInfo(
        "internal",
        ErrorKind.FAREWELL,
        Remedy.RECONNECT,
        "The broker failed to serve this connection",
    )

    @property
    def word(self) -> str:
        """The code word, as it is on the wire."""
        return self.value.code

    @property
    def kind(self) -> ErrorKind:
        return self.value.kind

    @property
    def remedy(self) -> Remedy:
        return self.value.remedy

    @property
    def text(self) -> str:
        return self.value.text

    @property
    def is_answer(self) -> bool:
        return self.kind in {ErrorKind.ANSWER, ErrorKind.LAST_ANSWER}


class Fault(NamedTuple):
    """One ERROR that the broker sends: what it is, in full, and for which request."""

    code: ErrorCode
    text: str


def fault(code: ErrorCode, **values: object) -> Fault:
    """An error with its text; ``values`` fill the places of the text."""
    return Fault(code, code.text.format(**values))


def _pattern(text: str) -> re.Pattern[str]:
    places = [".*" if place else re.escape(part) for part, place in _parts(text)]
    return re.compile("".join(places), re.DOTALL)


def _parts(text: str) -> list[tuple[str, bool]]:
    """A text cut at its places: each part, and whether it is a place."""
    return [(part, number % 2 == 1) for number, part in enumerate(re.split(r"(\{\w+\})", text))]


_PATTERNS = [(code, _pattern(code.text)) for code in ErrorCode]
_BY_WORD = {code.word: code for code in ErrorCode}


def code_of_text(text: str) -> ErrorCode | None:
    """Which error a text is; None for one that is not in the list (of a newer broker)."""
    return next((code for code, pattern in _PATTERNS if pattern.fullmatch(text)), None)


def code_of_word(word: str) -> ErrorCode | None:
    return _BY_WORD.get(word)
