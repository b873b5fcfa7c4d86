"""A message on its way to one client, as the broker's effects carry it."""

DELIVER_QOS = 0b0_0011
DELIVER_RETAIN = 0b0_0100
DELIVER_DUP = 0b0_1000
DELIVER_PUBREL = 0b1_0000  # past its PUBREC: a PUBREL is sent, not the message

Delivery = tuple[bytes, bytes | None, int, int, int]
"""``(topic, payload, flags, packet_id, sequence)``; payload None: read it from the journal."""
