"""What a request touches: some names stand for others, and the other one is judged.

Dead letters (``$dlq/TOPIC/GROUP``) are management of their topic, an envelope (``$signed/TOPIC``)
is its topic, the audit log is for administrators, what happened to clients (``$events``) for those
who may monitor. ``$SYS`` is also open to those.
Doors (``access.admission``) and the fold (``core.owners``) ask here, so that a subscription that
was granted and a message that is routed are judged alike.
"""

from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.model.dead_letters import origin
from penstock.model.topic import has_wildcard
from penstock.trust.rights import Rights
from penstock.trust.rules import Action

ENVELOPE_PREFIX = b"$signed/"
"""Topic prefix of envelopes: the signature travels within the payload, as MQTT has no field."""

AUDIT_PREFIX = b"$audit/"

EVENTS_PREFIX = b"$events/"


def touched(topic: bytes, action: Action) -> tuple[bytes, Action]:
    """The topic or filter that is judged in place of this one, and the action."""
    if not topic.startswith(b"$"):
        return topic, action
    if topic.startswith(ENVELOPE_PREFIX):
        return touched(topic.removeprefix(ENVELOPE_PREFIX), action)
    if topic.startswith(DEAD_PREFIX) and not has_wildcard(topic):
        return origin(topic)[0], Action.MANAGE
    if topic.startswith(AUDIT_PREFIX) or topic == b"$audit":
        return b"", Action.ADMIN
    if topic.startswith(EVENTS_PREFIX) or topic == b"$events":
        is_reading = action in {Action.READ, Action.SUBSCRIBE}
        return b"", Action.MONITOR if is_reading else Action.ADMIN
    return topic, action


def is_statistics(topic: bytes) -> bool:
    return topic == b"$SYS" or topic.startswith(b"$SYS/")


def may_receive(rights: Rights, topic: bytes) -> bool:
    """Whether messages of a topic may be delivered to a subscriber with these rights."""
    judged, action = touched(topic, Action.SUBSCRIBE)
    if rights.may(action, judged):
        return True
    return is_statistics(judged) and rights.may(Action.MONITOR, b"")
