"""A message on its way to one client, as the broker's effects carry it."""

from penstock.model.message import Extras

DELIVER_QOS = 0b0000_0011
DELIVER_RETAIN = 0b0000_0100
DELIVER_DUP = 0b0000_1000
DELIVER_PUBREL = 0b0001_0000  # past its PUBREC: a PUBREL is sent, not the message
# published with RETAIN, which subscriptions that want it as published are told
DELIVER_PUBLISHED_RETAIN = 0b0010_0000
DELIVER_CONTENT_TYPE = 0b1100_0000  # type of the payload, as in the flags of the journal
DELIVER_CONTENT_TYPE_SHIFT = 6

Delivery = tuple[bytes, bytes | None, int, int, int, Extras | None]
"""``(topic, payload, flags, packet_id, sequence, extras)``.

With payload None, everything but flags and packet id is read from the journal.
"""
