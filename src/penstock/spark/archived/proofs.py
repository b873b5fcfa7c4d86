"""Signatures of archived rows, verified where the rows are read."""

from collections.abc import Mapping
from typing import Any

from penstock.model.message import Signature
from penstock.trust.signatures import is_valid


def verdict_of(
    keys: Mapping[int, bytes], topic: str, payload: bytes | None, proof: Mapping[str, Any]
) -> str:
    """Tell whether a row's signature holds: ``valid``, ``invalid`` or ``unknown_key``."""
    public_key = keys.get(proof["key_id"])
    if public_key is None:
        return "unknown_key"
    signature = Signature(
        proof["version"],
        proof["key_id"],
        proof["signature"] or b"",
        proof["signed_ms"] or 0,
        proof["nonce"] or b"",
    )
    return "valid" if is_valid(public_key, topic.encode(), payload or b"", signature) else "invalid"
