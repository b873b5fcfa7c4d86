"""Signatures checked again, where the rows are read: ``verifySignatures``.

The broker verified each when it took it, and by default we believe it. Who does not want to trust
the broker, or its disk, has every signature checked here, with the public keys that the broker
lists. That is one verification by libsodium per signed row, some 10,000 rows a second and core.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.client.queue.blocking import QueueClient
from penstock.model.message import Signature
from penstock.spark.columns import FetchedColumns, fixed
from penstock.trust.signatures import is_valid

VERDICTS: Final = ("valid", "invalid", "unknown_key")
_VALID, _INVALID, _UNKNOWN = 0, 1, 2


class Verifier:
    """Checks the signatures of answers; asks for the keys when it meets one that it lacks."""

    def __init__(self, client: QueueClient) -> None:
        self._client = client
        self._keys: dict[int, bytes] = {}
        self._missing: set[int] = set()

    def verdicts(self, answers: FetchedColumns) -> pa.Array:
        """A verdict for each row."""
        rows, records = answers.signed
        if not len(rows):
            return FetchedColumns.verdicts(answers)
        self._have_keys(set(records["key_id"].tolist()))
        places = fixed(pa.int64(), rows)
        payloads = answers.payloads().take(places).to_pylist()
        topics = answers.topics().take(places).to_pylist()
        verdicts = [
            self._verdict(topic.encode(), payload, _signature(record))
            for topic, payload, record in zip(topics, payloads, records, strict=True)
        ]
        return answers.verdicts_from(VERDICTS, np.array(verdicts, np.int8))

    def _verdict(self, topic: bytes, payload: bytes, signature: Signature) -> int:
        key = self._keys.get(signature.key_id)
        if key is None:
            return _UNKNOWN
        return _VALID if is_valid(key, topic, payload, signature) else _INVALID

    def _have_keys(self, key_ids: set[int]) -> None:
        """Ask for the keys, but once only for one that the broker does not know either."""
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
