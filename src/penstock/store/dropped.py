"""Dropped topics whose space is not freed yet.

Dropping a topic is one small write: its row leaves ``topics`` and becomes a *record* here, in the
transaction of the entry that drops it, and the name is free. What is left is stored under the
topic's id, which is never reused. A record exists until blocks contain the entry that dropped the
topic, so a start does not take its messages for those of a new topic; then retention frees them
(dropped_freeing.py). Below the record's first offset they are counted as dead already.
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
    value = _INDEX.pack(dropped.entry_index) + pack_topic(dropped.state)
    transaction.put(_PREFIX + topic_key(dropped.state.id), value, db=environment["meta"])


def delete_dropped(environment: Environment, transaction: Transaction, topic_id: int) -> None:
    transaction.delete(_PREFIX + topic_key(topic_id), db=environment["meta"])


def load_dropped(environment: Environment, transaction: Transaction) -> dict[int, Dropped]:
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
