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


class AgedExtras(Extras, frozen=True, gc=False):
    """Extras of a message that was published a while ago, and the expiry that it had then.

    A clock may have gone back since: no more is left than there was.
    """

    expiry_s: int = 0


def aged(extras: Extras | None, time_ms: int) -> Extras | None:
    """The extras of a message that was published at ``time_ms``."""
    if extras is None or not extras.expires_ms:
        return extras
    expiry_s = max(0, -((time_ms - extras.expires_ms) // 1000))
    return AgedExtras(
        extras.headers, extras.signature, extras.due_ms, extras.expires_ms, expiry_s=expiry_s
    )


def original_expiry(extras: Extras) -> int | None:
    """The expiry that a message had when it was published; None: it was a moment ago."""
    return extras.expiry_s if isinstance(extras, AgedExtras) else None
