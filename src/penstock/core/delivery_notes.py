"""What few deliveries of a session need beside their sequence and QoS.

A session keeps its messages as numbers (``core.session``). What else must survive a crash is here,
and a session that needs none of it has no such object:

``expiries``   queued messages that expire: sequence → time; once sent, expiry is over
``own``        messages of the client's own, which a subscription with no local also matches:
               their marks are ``Marks.own``
``offer_ids``  retained messages in flight: packet id → identifier of the SUBSCRIBE they answer
"""

import msgspec


class DeliveryNotes(msgspec.Struct, array_like=True):
    """The notes of one session, as its row keeps them."""

    expiries: dict[int, int] = {}
    own: dict[int, bool] = {}  # the keys count; in order, so that all nodes have the same row
    offer_ids: dict[int, int] = {}
    earliest_ms: int = 0  # no queued message expires before

    @property
    def is_empty(self) -> bool:
        return not (self.expiries or self.own or self.offer_ids)

    def expires(self, sequence: int, at_ms: int) -> None:
        self.earliest_ms = min(self.earliest_ms, at_ms) if self.expiries else at_ms
        self.expiries[sequence] = at_ms

    def dequeued(self, sequence: int) -> None:
        self.expiries.pop(sequence, None)

    def dropped(self, sequence: int) -> None:
        """A queued message is gone."""
        self.expiries.pop(sequence, None)
        self.own.pop(sequence, None)

    def finished(self, packet_id: int, sequence: int, *, retain: bool) -> None:
        """A message in flight is done."""
        self.offer_ids.pop(packet_id, None)
        if not retain:
            self.own.pop(sequence, None)

    def take_expired(self, now_ms: int) -> set[int]:
        """Sequences of the queued messages that have expired, which are forgotten here."""
        if now_ms < self.earliest_ms or not self.expiries:
            return set()
        expired = {sequence for sequence, at_ms in self.expiries.items() if at_ms <= now_ms}
        for sequence in expired:
            self.dropped(sequence)
        self.earliest_ms = min(self.expiries.values(), default=0)
        return expired
