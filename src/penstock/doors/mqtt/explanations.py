"""Packets of MQTT 5 that say what went wrong: a reason code, and a sentence for people.

The sentence (reason string) is left out if the client's maximum packet size has no room for it.
Where a client wants no problem information, only CONNACK and DISCONNECT may have one
[MQTT5-3.1.2-29].
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from penstock.doors.mqtt.terms import Terms
from penstock.obs.printable import on_one_line
from penstock.obs.reasons import DisconnectReason as Why
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.properties import NONE, Properties
from penstock.wire.mqtt.reason_codes import ReasonCode

SENTENCE_CHARACTERS_MAX = 256

SENTENCES: Final[Mapping[Why, str]] = MappingProxyType(
    {
        Why.KEEP_ALIVE_TIMEOUT: "no packet came within one and a half times the keep-alive",
        Why.SESSION_TAKEN_OVER: "another connection uses this client id; give each client its own",
        Why.CREDENTIALS_REVOKED: "the user was disabled, deleted or changed, or its login expired",
        Why.BANNED: "the user, client id or address is banned",
        Why.TOO_MANY_CLIENTS: "the broker has as many connections as it may; try again later",
        Why.SLOW_READER: "the client reads too slowly; too much is waiting for it",
        Why.STORAGE_FULL: "the broker's disk is full; try again later",
        Why.STORAGE_FAILED: "the broker's disk failed",
        Why.NO_QUORUM: "too few nodes of the cluster answered; try again, or another node",
        Why.LEADERSHIP_LOST: "another node leads the cluster now; connect again",
        Why.CLIENT_KILLED: "an operator ended this connection",
        Why.KICKED: "an administrator ended this connection",
        Why.SERVER_SHUTDOWN: "the broker is stopping",
        Why.INTERNAL_ERROR: "the broker failed while it served this connection; see its log",
    }
)
"""What is said of an end whose cause has no details of its own."""


def end_words(reason: Why, detail: str, silent_s: float, terms: Terms, will: object) -> str:
    """What the record of an end says besides its reason."""
    if reason is Why.KEEP_ALIVE_TIMEOUT:
        detail = f"nothing for {silent_s:.0f} s, keep-alive {terms.keep_alive_s} s"
    if will is None or reason is Why.CLIENT_DISCONNECT:
        return detail
    return f"{detail}; its will is due" if detail else "its will is due"


def refused_connect(terms: Terms, code: int, text: str) -> bytes:
    """CONNACK; empty if even its code is too large for the client."""

    def packet(properties: Properties) -> bytes:
        return encode.connack(session_present=False, return_code=code, properties=properties)

    return _fitting(terms, text, packet)


def goodbye(terms: Terms, code: int, text: str, server_reference: str = "") -> bytes:
    """DISCONNECT; empty if even its code is too large for the client.

    With ``server_reference`` it says where else to go, in place of ``code``, if that fits.
    """
    reference = Properties(server_reference=server_reference.encode())

    def elsewhere(properties: Properties) -> bytes:
        told = replace(reference, reason_string=properties.reason_string)
        return encode.disconnect(ReasonCode.USE_ANOTHER_SERVER, told)

    def packet(properties: Properties) -> bytes:
        return encode.disconnect(code, None if properties is NONE else properties)

    return (server_reference and _fitting(terms, text, elsewhere)) or _fitting(terms, text, packet)


def refused_publish(terms: Terms, kind: int, packet_id: int, code: int, text: str) -> bytes:
    """PUBACK or PUBREC (``kind``)."""

    def packet(properties: Properties) -> bytes:
        return encode.ack(kind, packet_id, code, None if properties is NONE else properties)

    return _fitting(terms, text if terms.wants_reasons else "", packet)


def answered_filters(terms: Terms, packet: Callable[[Properties], bytes], text: str) -> bytes:
    """SUBACK or UNSUBACK, as ``packet`` makes it; ``text``: why filters were refused, if any."""
    return _fitting(terms, text if terms.wants_reasons else "", packet)


def _fitting(terms: Terms, text: str, packet: Callable[[Properties], bytes]) -> bytes:
    if text:
        whole = packet(Properties(reason_string=_sentence(text)))
        if len(whole) <= terms.packet_bytes_max:
            return whole
    short = packet(NONE)
    return short if len(short) <= terms.packet_bytes_max else b""


def _sentence(text: str) -> bytes:
    """A reason string. What it quotes of the client is escaped already: backslashes stay."""
    return on_one_line(text, SENTENCE_CHARACTERS_MAX).encode()
