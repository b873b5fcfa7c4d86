"""Frames to bytes; what does not fit its field raises ``LocalProtocolError``.

``acks`` and ``messages`` write many frames as one string. A sequence belongs to the message, not to
the receiver, so a fan-out encodes once and sends the same bytes to all.
"""

import struct
from collections.abc import Sequence
from itertools import chain, repeat
from struct import Struct
from typing import Final

from penstock.errors import LocalProtocolError
from penstock.model.message import Signature
from penstock.wire.binary.fields import WelcomeFields, welcome_bytes
from penstock.wire.binary.frame import ERROR_BYTES_MAX, HEADER, TRAILERS, VERSION, BinaryCommand

_SIGNED_MESSAGES: Final = {1: BinaryCommand.SIGNED_MESSAGE, 2: BinaryCommand.SIGNED_MESSAGE_2}


def ack(sequence: int) -> bytes:
    return frame(BinaryCommand.ACK, sequence)


def acks(sequences: Sequence[int]) -> bytes:
    return frames(BinaryCommand.ACK, b"", [b""] * len(sequences), sequences)


def pongs(count: int) -> bytes:
    return _PONG * count


def error(text: str | bytes) -> bytes:
    """ERROR; a long text is cut between two characters, and is always valid UTF-8."""
    readable = text if isinstance(text, str) else text.decode(errors="replace")
    payload = readable.encode(errors="replace")[:ERROR_BYTES_MAX]
    return frame(BinaryCommand.ERROR, 0, b"", payload.decode(errors="ignore").encode())


def coded_error(code: str, sequence: int, text: str) -> bytes:
    """ERROR for a client that asked for codes: with the sequence of its request, 0 for none."""
    word = code.encode()
    payload = text.encode(errors="replace")[: ERROR_BYTES_MAX - len(word)]
    return frame(BinaryCommand.ERROR, sequence, word, payload.decode(errors="ignore").encode())


def welcome(sequence: int, fields: WelcomeFields) -> bytes:
    return frame(BinaryCommand.WELCOME, sequence, b"", welcome_bytes(fields))


def withheld(topic: bytes, sequence: int, payload_bytes: int, frame_bytes_max: int) -> bytes:
    """WITHHELD, in a frame that the client takes; the topic is cut between two characters."""
    size = payload_bytes.to_bytes(4, "big")
    shown = topic[: frame_bytes_max - HEADER.size - len(size)]
    if len(shown) < len(topic):
        shown = shown.decode(errors="ignore").encode()
    return frame(BinaryCommand.WITHHELD, sequence, shown, size)


def message(topic: bytes, payload: bytes, sequence: int) -> bytes:
    return frame(BinaryCommand.MESSAGE, sequence, topic, payload)


def messages(topic: bytes, payloads: Sequence[bytes], sequences: Sequence[int]) -> bytes:
    return frames(BinaryCommand.MESSAGE, topic, payloads, sequences)


def signed_message(topic: bytes, payload: bytes, sequence: int, signature: Signature) -> bytes:
    return signed_frame(_SIGNED_MESSAGES, topic, payload, sequence, signature)


def challenge(sequence: int, nonce: bytes) -> bytes:
    return frame(BinaryCommand.CHALLENGE, sequence, b"", nonce)


def frame(command: BinaryCommand, sequence: int, topic: bytes = b"", payload: bytes = b"") -> bytes:
    return _pack(HEADER, VERSION, command, sequence, len(topic), len(payload)) + topic + payload


def frames(
    command: BinaryCommand, topic: bytes, payloads: Sequence[bytes], sequences: Sequence[int]
) -> bytes:
    assert len(payloads) == len(sequences)
    sizes = repeat(len(topic)), map(len, payloads)
    headers = map(HEADER.pack, repeat(VERSION), repeat(int(command)), sequences, *sizes)
    try:
        return b"".join(chain.from_iterable(zip(headers, repeat(topic), payloads, strict=False)))
    except struct.error as fault:
        raise _out_of_range(fault) from None


def signed_frame(
    commands: dict[int, BinaryCommand],
    topic: bytes,
    payload: bytes,
    sequence: int,
    signature: Signature,
) -> bytes:
    """One frame with a trailer; ``commands`` are by version of the signature."""
    command = commands.get(signature.version)
    if command is None:
        raise LocalProtocolError(f"a signature of version {signature.version}")
    return frame(command, sequence, topic, payload) + _trailer(command, signature)


def _trailer(command: BinaryCommand, signature: Signature) -> bytes:
    version, layout = TRAILERS[command]
    if len(signature.signature) != 64:
        raise LocalProtocolError(f"a signature of {len(signature.signature)} bytes")
    fields: list[int | bytes] = [signature.signature, signature.key_id]
    if version == 2:
        if len(signature.nonce) != 8:
            raise LocalProtocolError(f"a nonce of {len(signature.nonce)} bytes")
        fields += [signature.signed_ms, signature.nonce]
    return _pack(layout, *fields)


def _pack(layout: Struct, *fields: int | bytes) -> bytes:
    try:
        return layout.pack(*fields)
    except struct.error as fault:
        raise _out_of_range(fault) from None


def _out_of_range(fault: struct.error) -> LocalProtocolError:
    return LocalProtocolError(f"value does not fit its field: {fault}")


_PONG: Final = frame(BinaryCommand.PONG, 0)
