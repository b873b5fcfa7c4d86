"""A signature within an MQTT payload: the envelope.

A signed message is published to ``$signed/`` followed by its topic, with this payload (big-endian;
fields in brackets exist in version 2 only)::

    version   key id   [time of signing   nonce]   signature   payload
    1 byte    u32      [u64 ms            8]       64          the rest

The signature covers the topic without the prefix and the payload alone.
"""

from struct import Struct

from penstock.model.message import Signature

_HEADS = {1: Struct(">BI"), 2: Struct(">BIQ8s")}
_SIGNATURE_BYTES = 64


def sealed(signature: Signature, payload: bytes) -> bytes:
    values: tuple[object, ...] = (signature.version, signature.key_id)
    if signature.version == 2:
        values += (signature.signed_ms, signature.nonce)
    return _HEADS[signature.version].pack(*values) + signature.signature + payload


def opened(envelope: bytes) -> tuple[Signature, bytes] | None:
    """The signature and payload of an envelope; None if it is not one."""
    head = _HEADS.get(envelope[0]) if envelope else None
    if head is None or len(envelope) < head.size + _SIGNATURE_BYTES:
        return None
    version, key_id, *more = head.unpack_from(envelope)
    end = head.size + _SIGNATURE_BYTES
    return Signature(version, key_id, envelope[head.size : end], *more), envelope[end:]
