"""Digests of the broker's state, to compare nodes.

The state follows from the journal, so two nodes that have applied the same entries have the same
digests, whatever is connected to them. A digest covers the rows that a checkpoint would write,
without the entry index of each row, which differs between a started and a running node.

Making rows changes what the state remembers of them. So use a copy of the state that is thrown away
afterwards (``node.digests`` makes one).
"""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from penstock.core.broker import Broker
from penstock.core.tables import tables_of

DIGEST_BYTES = 16

_Row = tuple[bytes, bytes | None]  # key and row; None: it is not recorded

_NAMES = {"settings": "topics"}  # digests that are named unlike their table

_LEFT_OUT = {"producers"}  # nodes forget numbers of producers at different times


def digests_of(broker: Broker) -> dict[str, str]:
    """The hexadecimal digest of each part of the state, by name."""
    return {
        _NAMES.get(table.name, table.name): _digest(table.state())
        for table in tables_of(broker)
        if table.name not in _LEFT_OUT
    }


def _digest(rows: Iterable[_Row]) -> str:
    """Rows are sorted by key: their order says nothing."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for row in sorted(rows, key=lambda pair: pair[0]):
        digest.update(msgspec.msgpack.encode(row))
    return digest.hexdigest()
