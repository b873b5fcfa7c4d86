"""Payloads are bytes. Text is refused rather than encoded: its encoding is not ours to guess."""

from typing import Final

_BYTES: Final = (bytes, bytearray, memoryview)


def check_payload(payload: object) -> None:
    if not isinstance(payload, _BYTES):
        kind = type(payload).__name__
        raise TypeError(f'payload must be bytes, not {kind}: b"...", or text.encode()')
