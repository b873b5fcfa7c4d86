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
# published by the client itself, to which a subscription with no local also matches:
# ``Marks.own`` says what else belongs to it
DELIVER_OWN = 0b1_0000_0000
# of a replay: QoS 0 is sent as the client reads, and not dropped
DELIVER_HISTORY = 0b10_0000_0000
# bits above: identifier of the SUBSCRIBE that a retained message answers; 0: it had none
DELIVER_ID_SHIFT = 16

Delivery = tuple[bytes, bytes | None, int, int, int, Extras | None]
"""``(topic, payload, flags, packet_id, sequence, extras)``.

With payload None, everything but packet id and flags is read from the journal, and of the flags the
content type and how it was published. Without RETAIN, ``Route.marked`` has the identifiers. A
message that has expired is still sent if its payload is here, for it was published a moment ago
(expiry 0 is for whoever is connected), or if it is repeated (DUP).
"""
