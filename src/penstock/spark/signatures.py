"""Verifies signatures where rows are read, for readers that do not trust the broker's check."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.client.queue.blocking import QueueClient
from penstock.model.message import Signature
from penstock.spark.columns import FetchedColumns, fixed
from penstock.trust.signatures import is_valid

VERDICTS: Final = ("valid", "invalid", "unknown_key")


def verdict_of(
    keys: Mapping[int, bytes], topic: str, payload: bytes | None, proof: Mapping[str, Any]
) -> str:
    signature = Signature(
        proof["version"],
        proof["key_id"],
        proof["signature"] or b"",
        proof["signed_ms"] or 0,
        proof["nonce"] or b"",
    )
    return _verdict(keys, topic.encode(), payload or b"", signature)


def _verdict(keys: Mapping[int, bytes], topic: bytes, payload: bytes, signature: Signature) -> str:
    key = keys.get(signature.key_id)
    if key is None:
        return "unknown_key"
    return "valid" if is_valid(key, topic, payload, signature) else "invalid"


class Verifier:
    """Verifies fetched rows; asks the broker for keys that it lacks."""

    def __init__(self, client: QueueClient) -> None:
        self._client = client
        self._keys: dict[int, bytes] = {}
        self._missing: set[int] = set()

    def verdicts(self, answers: FetchedColumns) -> pa.Array:
        rows, records = answers.signed
        if not len(rows):
            return FetchedColumns.verdicts(answers)
        self._have_keys(set(records["key_id"].tolist()))
        places = fixed(pa.int64(), rows)
        payloads = answers.payloads().take(places).to_pylist()
        topics = answers.topics().take(places).to_pylist()
        verdicts = [
            VERDICTS.index(_verdict(self._keys, topic.encode(), payload, _signature(record)))
            for topic, payload, record in zip(topics, payloads, records, strict=True)
        ]
        return answers.verdicts_from(VERDICTS, np.array(verdicts, np.int8))

    def _have_keys(self, key_ids: set[int]) -> None:
        """Fetch keys; a key that the broker does not know either is asked for only once."""
        missing = key_ids - self._keys.keys() - self._missing
        if missing:
            listed = self._client.keys()
            self._keys = {key.id: key.public_key for key in listed}
            self._missing |= missing - self._keys.keys()


def _signature(record: np.void) -> Signature:
    return Signature(
        int(record["version"]),
        int(record["key_id"]),
        record["signature"].tobytes(),
        int(record["signed_ms"]) & 0xFFFF_FFFF_FFFF_FFFF,
        record["nonce"].tobytes()[: int(record["nonce_bytes"])],
    )
