"""Keys of the databases. Big-endian, so that bytes sort like the numbers.

LMDB keys hold at most 511 bytes, while topics may have 1,024. A longer name is cut and completed
with its digest to exactly ``KEY_BYTES_MAX``, and the value has the full name; whole keys are
shorter.
"""

import struct
from hashlib import blake2b

KEY_BYTES_MAX = 511
DIGEST_BYTES = 32
NAME_BYTES_WHOLE = KEY_BYTES_MAX - DIGEST_BYTES - 1  # longest name that is its own key

_JOURNAL = struct.Struct(">QQ")
_INDEX = struct.Struct(">IQ")
_TOPIC = struct.Struct(">I")

journal_key = _JOURNAL.pack  # (base sequence, entry index) → key in ``journal`` and ``live``

unpack_journal_key = _JOURNAL.unpack  # the inverse of ``journal_key``

index_key = _INDEX.pack  # (topic id, first offset) → key in ``index`` and ``deleted``

unpack_index_key = _INDEX.unpack  # the inverse of ``index_key``

topic_key = _TOPIC.pack  # topic id → prefix of its keys in ``index`` and ``deleted``


def name_key(name: bytes) -> bytes:
    if len(name) <= NAME_BYTES_WHOLE:
        return name
    digest = blake2b(name, digest_size=DIGEST_BYTES).digest()
    return name[:NAME_BYTES_WHOLE] + b"\0" + digest


def row_prefix(table: str) -> bytes:
    assert "\0" not in table
    return table.encode() + b"\0"
