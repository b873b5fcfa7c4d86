"""Ids that consumers were given lately, so that XACK need not read the journal to know them.

An entry is acknowledged by its whole id: its time must be right. The broker's state has the offsets
of pending entries and not their times. Nearly every XACK names an entry that XREADGROUP has just
handed out, and that is remembered here; any other is looked up (``stream_groups``).
"""

from collections.abc import Iterable
from itertools import islice
from weakref import WeakKeyDictionary

from penstock.net.hub import Hub
from penstock.net.resp.stream_reading import id_of

__all__ = ["KnownIds"]

KNOWN_MAX = 32_768
"""Ids that are remembered, of all groups together: some 4 MB."""

FORGOTTEN_AT_ONCE = 1_024
"""Ids that are forgotten together, those that were given first."""


class KnownIds:
    """The ids that one broker's consumers were given."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], None] = {}

    @staticmethod
    def of(hub: Hub) -> "KnownIds":
        """Those of a broker."""
        found = _of_hubs.get(hub)
        if found is None:
            found = _of_hubs[hub] = KnownIds()
        return found

    def note(self, topic: bytes, entries: Iterable[bytes]) -> None:
        """A consumer was given these entries of a topic."""
        known = self._known
        for entry in entries:
            known[topic, id_of(entry)] = None
        while len(known) > KNOWN_MAX:
            for oldest in list(islice(known, FORGOTTEN_AT_ONCE)):
                del known[oldest]

    def covers(self, topic: bytes, texts: Iterable[bytes]) -> bool:
        """Whether all of these ids were given out lately."""
        known = self._known
        return all((topic, text) in known for text in texts)


_of_hubs: WeakKeyDictionary[Hub, KnownIds] = WeakKeyDictionary()
