"""The scans that clients have under way: bulk reads of many topics, in several answers.

A scan that is not kept any more is no loss: the client knows its positions, and begins another. So
they are simply forgotten: with the connection, when its rights change, and if there are too many.
"""

from collections import OrderedDict
from typing import TypeAlias

from penstock.limits import SCANNED_TOPICS_MAX, SCANS_MAX
from penstock.store.scan import Scan

_Key: TypeAlias = tuple[int, int]  # owner, and the number that the client has chosen


class KeptScan:
    """A scan; ``is_forgotten`` stops what waits to be read. Set on the loop, read by any thread."""

    __slots__ = ("is_forgotten", "scan")

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.is_forgotten = False


class ScanBook:
    """The scans of all connections of the queue protocol, the one used longest ago first."""

    def __init__(self) -> None:
        self._scans: OrderedDict[_Key, KeptScan] = OrderedDict()
        self._owned: dict[int, list[int]] = {}
        self._topics = 0
        self._owners = 0

    def owner(self) -> int:
        """A number for a connection."""
        self._owners += 1
        return self._owners

    def put(self, owner: int, number: int, scan: Scan) -> KeptScan:
        self.forget(owner, number)
        owned = self._owned.setdefault(owner, [])
        if len(owned) >= SCANS_MAX:
            self.forget(owner, owned[0])
        kept = self._scans[owner, number] = KeptScan(scan)
        self._owned.setdefault(owner, []).append(number)
        self._topics += len(scan.topics)
        while self._topics > SCANNED_TOPICS_MAX and len(self._scans) > 1:
            self.forget(*next(iter(self._scans)))
        return kept

    def get(self, owner: int, number: int) -> KeptScan | None:
        kept = self._scans.get((owner, number))
        if kept is not None:
            self._scans.move_to_end((owner, number))
            owned = self._owned[owner]
            owned.remove(number)
            owned.append(number)
        return kept

    def forget(self, owner: int, number: int) -> None:
        kept = self._scans.pop((owner, number), None)
        if kept is None:
            return
        kept.is_forgotten = True
        self._topics -= len(kept.scan.topics)
        owned = self._owned[owner]
        owned.remove(number)
        if not owned:
            del self._owned[owner]

    def finish(self, owner: int, number: int, kept: KeptScan) -> None:
        """Forget a scan, unless the client has begun another under its number."""
        if self._scans.get((owner, number)) is kept:
            self.forget(owner, number)

    def forget_all(self, owner: int) -> None:
        for number in self._owned.get(owner, [])[:]:
            self.forget(owner, number)
