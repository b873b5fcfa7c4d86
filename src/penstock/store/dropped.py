"""Topics that were dropped and whose space is not freed yet.

Dropping a topic is one small write, however much it holds: its row leaves ``topics`` and becomes a
*record* here, in the same transaction as the entry that says so. From then on the name is free. All
that is left is filed under the topic's id, which is never given again: references, ranges of
deleted offsets, groups in entries that others share. Retention frees it in slices; the record's
first offset says how far it has come, and with the last of it the record goes.

A record stays at least until the index contains the entry that dropped the topic. So a start, which
applies the entries after that, finds a record for each topic in them that was dropped, and does not
take its groups for those of a new topic.
"""

import struct
from typing import NamedTuple

from penstock.store.environment import Environment, Transaction
from penstock.store.keys import topic_key
from penstock.store.topics import StoredTopic, pack_topic, unpack_topic

_PREFIX = b"dropped"
_INDEX = struct.Struct("<Q")


class Dropped(NamedTuple):
    """The entry that dropped a topic, and what is left of the topic."""

    entry_index: int
    state: StoredTopic


def put_dropped(environment: Environment, transaction: Transaction, dropped: Dropped) -> None:
    """Write a record."""
    value = _INDEX.pack(dropped.entry_index) + pack_topic(dropped.state)
    transaction.put(_PREFIX + topic_key(dropped.state.id), value, db=environment["meta"])


def delete_dropped(environment: Environment, transaction: Transaction, topic_id: int) -> None:
    """Delete a record: nothing is left."""
    transaction.delete(_PREFIX + topic_key(topic_id), db=environment["meta"])


def load_dropped(environment: Environment, transaction: Transaction) -> dict[int, Dropped]:
    """All records, by topic id."""
    found = {}
    cursor = transaction.cursor(environment["meta"])
    more = cursor.set_range(_PREFIX)
    while more and bytes(cursor.key()).startswith(_PREFIX):
        value = cursor.value()
        (entry_index,) = _INDEX.unpack_from(value)
        state = unpack_topic(value[_INDEX.size :])
        found[state.id] = Dropped(entry_index, state)
        more = cursor.next()
    return found
