"""Ids that clients were given lately, so that they are known without reading the journal.

An entry is acknowledged by its whole id, and XREAD goes on behind one: its time must be right. The
broker's state has offsets and not times, the journal has both. Nearly every XACK names an entry
that XREADGROUP has just handed out, and nearly every XREAD the last one that it got before; these
are remembered here. Any other id is looked up.

A topic that is deleted and created again has another incarnation, so that nothing is mistaken for
an entry of its predecessor.
"""

from collections.abc import Iterable
from itertools import islice

from penstock.doors.resp.streams.ids import id_of
from penstock.store.store import Store

KNOWN_MAX = 32_768  # ids that are remembered, of all groups together: some 4 MB
FORGOTTEN_AT_ONCE = 1_024  # ids that are forgotten together, the oldest


class KnownIds:
    """The ids that one broker's clients were given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[int, bytes], None] = {}  # (incarnation, id), the oldest first

    def note(self, topic: bytes, entries: Iterable[bytes]) -> None:
        info, known = self._store.topic(topic), self._known
        if info is None:
            return
        for entry in entries:
            known[info.id, id_of(entry)] = None
        while len(known) > KNOWN_MAX:
            for oldest in list(islice(known, FORGOTTEN_AT_ONCE)):
                del known[oldest]

    def covers(self, topic: bytes, texts: Iterable[bytes]) -> bool:
        info, known = self._store.topic(topic), self._known
        return info is not None and all((info.id, text) in known for text in texts)
