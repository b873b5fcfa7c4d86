"""What a broker's state comes to, in a few bytes: for comparing nodes.

The state is the fold of the journal, so two nodes that have applied the same entries have the same
digests, whatever is connected to them. A digest covers the rows that a checkpoint would write,
without what says up to which entry they are: that a start and a running node know differently.

To make rows changes what the state remembers of them. So this is for a copy of the state that is
thrown away afterwards (``node.digests`` makes one).
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from penstock.core.broker import Broker
from penstock.core.group_row import encode_group

DIGEST_BYTES = 16

_Row = tuple[bytes, bytes | None]
"""Key and row; None: it is not recorded."""


def digests_of(broker: Broker) -> dict[str, str]:
    """The digest of each part of the state, by name, hexadecimal."""
    parts: dict[str, Iterable[_Row]] = {
        "sessions": _sessions(broker),
        "retained": [(m.topic, m.encode()) for m in broker.retained.match(b"#")],
        "subscribers": [(n, broker.subscribers.row(n, 0)) for n in broker.subscribers.by_id],
        "groups": _groups(broker),
        "topics": [(t.name, broker.topics.row(t.name, 0)) for t in broker.topics],
        "sinks": [(s.name, broker.sinks.row(s.name, 0)) for s in broker.sinks],
        "keys": [(b"%d" % key.id, key.encode()) for key in broker.keys.all()],
    }
    return {name: _digest(rows) for name, rows in parts.items()}


def _sessions(broker: Broker) -> Iterator[_Row]:
    for client_id, session in broker.sessions.items():
        if session.recorded:
            yield client_id, session.to_row(0)


def _groups(broker: Broker) -> Iterator[_Row]:
    yield b"", b"%d" % broker.groups.next_lease
    for group in broker.groups:
        key = msgspec.msgpack.encode((group.topic, group.name))
        pending = sorted((o, msgspec.msgpack.encode(p)) for o, p in group.pending.items())
        yield key, encode_group(group, 0) + msgspec.msgpack.encode(pending)


def _digest(rows: Iterable[_Row]) -> str:
    """Of rows in the order of their keys: the order in which they came says nothing."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for row in sorted(rows, key=lambda pair: pair[0]):
        digest.update(msgspec.msgpack.encode(row))
    return digest.hexdigest()
