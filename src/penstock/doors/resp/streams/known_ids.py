"""Ids that clients were given lately, so that they are known without reading the journal.

An XACK or XREAD names a whole id, and only the journal has the time in it. Nearly every XACK names
an entry that XREADGROUP has just handed out, and nearly every XREAD the last one that it got; these
are remembered by the incarnation of their topic. Any other id is looked up.
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
