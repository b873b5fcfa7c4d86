"""Ids that clients were given lately, so that they are known without reading the journal.

An XACK or XREAD names a whole id, and only the journal has the time in it. Nearly every XACK names
an entry that XREADGROUP has just handed out, and nearly every XREAD the last one that it got; these
are remembered by the incarnation of their topic, with their offsets. Any other id is looked up.
"""

from collections.abc import Iterable
from itertools import islice

from penstock.doors.resp.streams.ids import id_of
from penstock.store.store import Store

KNOWN_MAX = 32_768  # ids that are remembered, of all groups together: some 4 MB
FORGOTTEN_AT_ONCE = 1_024  # ids that are forgotten together, the oldest of a topic


class KnownIds:
    """The ids that one broker's clients were given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # offsets by id, by incarnation; the topic that was noted longest ago is first
        self._known: dict[int, dict[bytes, int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(self, topic: bytes, entries: Iterable[bytes]) -> None:
        info = self._store.topic(topic)
        if info is not None:
            ids = [id_of(entry) for entry in entries]
            self.note_ids(info.id, ids, [int(text[text.index(b"-") + 1 :]) for text in ids])

    def note_ids(self, incarnation: int, ids: Iterable[bytes], offsets: Iterable[int]) -> None:
        known = self._known.pop(incarnation, {})
        self._known[incarnation] = known  # now the last
        before = len(known)
        known.update(zip(ids, offsets, strict=True))
        self._count += len(known) - before
        while self._count > KNOWN_MAX:
            self._forget()

    def _forget(self) -> None:
        incarnation, oldest = next(iter(self._known.items()))
        forgotten = list(islice(oldest, FORGOTTEN_AT_ONCE))
        for text in forgotten:
            del oldest[text]
        self._count -= len(forgotten)
        if not oldest:
            del self._known[incarnation]

    def covers(self, topic: bytes, texts: Iterable[bytes]) -> bool:
        return self.offsets(topic, texts) is not None

    def offsets(self, topic: bytes, texts: Iterable[bytes]) -> list[int] | None:
        """The offsets of these ids; None if one of them is not known."""
        info = self._store.topic(topic)
        known = self._known.get(info.id) if info is not None else None
        if known is None:
            return None
        try:
            return [known[text] for text in texts]
        except KeyError:
            return None
