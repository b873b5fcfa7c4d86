"""What may be published: bytes, for both protocols.

Text is refused rather than encoded. Which encoding its readers expect is not ours to guess, and the
length of text is not the length of its bytes, so that a frame made of it would be wrong.
"""

from typing import Final

_BYTES: Final = (bytes, bytearray, memoryview)


def check_payload(payload: object) -> None:
    """Raise TypeError unless it is bytes."""
    if not isinstance(payload, _BYTES):
        kind = type(payload).__name__
        raise TypeError(f'payload must be bytes, not {kind}: b"...", or text.encode()')
