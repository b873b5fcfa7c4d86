"""A publish that is only tried: each condition that a real one would meet, looked up."""

from collections.abc import Iterator
from functools import partial

from penstock.access.admission import ENVELOPES, SIGNED_ONLY, topic_refusal
from penstock.api.documents.why import PublishQuestion
from penstock.cluster.status import unreadiness
from penstock.explain.facts import PublishFacts, Question
from penstock.node.explaining.parts import ExplainingParts, Reading, text
from penstock.node.explaining.receivers import almost, names_of, targets
from penstock.trust.rules import Action
from penstock.trust.touched import touched


async def publish_facts(
    parts: ExplainingParts, asked: PublishQuestion, read: Reading
) -> PublishFacts:
    topic = asked.topic.encode()
    receivers = targets(parts, topic)
    groups = parts.broker.groups.by_topic.get(topic, {})
    return PublishFacts(
        topic=asked.topic,
        user=asked.user,
        now_ms=parts.now_ms,
        questions=tuple(_questions(parts, asked, topic)),
        receivers=tuple(names_of(parts, topic)),
        receivers_total=len(receivers),
        groups=tuple(text(name) for name in list(groups)[:20]),
        near=() if receivers or groups else tuple(await read(partial(almost, parts, topic))),
        is_captured=parts.admission.is_captured(topic),
        qos=asked.qos,
    )


def _questions(parts: ExplainingParts, asked: PublishQuestion, topic: bytes) -> Iterator[Question]:
    refusal = topic_refusal(topic, parts.config.limits)
    if refusal is not None:
        yield Question("topic", False, f"{refusal.text}.", refusal.reason.value)
    else:
        yield Question("topic", True, f"{asked.topic} is a name that may be published to.")
    yield _access(parts, asked.user, topic)
    yield _signature(parts, topic)
    yield _size(parts, asked)
    yield _quota(parts, asked.user)
    yield _disk(parts)
    yield _quorum(parts)


def _access(parts: ExplainingParts, user: str, topic: bytes) -> Question:
    book, code = parts.broker.access, "access"
    if book.is_open:
        return Question(code, True, "There are no users: whoever can connect may publish.")
    found = book.users.get(user)
    if user and found is None:
        advice, add = "Name a user that there is, or add this one.", f"penstock users add {user}"
        return Question(code, False, f"There is no user {user}.", "bad_credentials", advice, add)
    if found is not None and found.is_disabled:
        advice, enable = "Enable the user, if that is over.", f"penstock users enable {user}"
        what = f"User {user} is disabled."
        return Question(code, False, what, "credentials_revoked", advice, enable)
    judged, action = touched(topic, Action.PUBLISH)
    verdict = book.rights_of(user, "").explain(action, judged)
    who = user or "a client that has not logged in"
    may = "may" if verdict.is_allowed else "may not"
    why = str(verdict.decided_by) if verdict.decided_by else "no rule allows it"
    text_ = f"{who} {may} publish {text(topic)}: {why}."
    if verdict.is_allowed:
        return Question(code, True, text_)
    advice = "Add a rule that allows it to a role of the user."
    if verdict.decided_by:
        advice = "A deny wins wherever it stands: narrow that rule, or remove it."
    check = f"penstock acl check {user} publish {text(topic)}" if user else None
    return Question(code, False, text_, "not_authorized", advice, check)


def _signature(parts: ExplainingParts, topic: bytes) -> Question:
    policy, code = parts.admission.policy(topic), "signature"
    if policy & ENVELOPES:
        text_ = "Topics below $signed/ take envelopes with signed messages only."
        return Question(code, False, text_, "signature_refused")
    if policy & SIGNED_ONLY:
        text_ = f"{text(topic)} takes signed messages only; this one would have no signature."
        return Question(code, False, text_, "signature_refused")
    return Question(code, True, "No signature is needed.")


def _size(parts: ExplainingParts, asked: PublishQuestion) -> Question:
    most, settings = parts.config.limits.packet_bytes_max, parts.config.mqtt
    size = asked.payload_bytes + len(asked.topic.encode()) + 4
    if size > most:
        text_ = f"{asked.payload_bytes:,} bytes make a packet larger than {most:,}, the limit."
        return Question("size", False, text_, "packet_too_large")
    if asked.qos > settings.maximum_qos:
        text_ = f"QoS {asked.qos} is more than mqtt.maximum_qos, {settings.maximum_qos}."
        return Question("size", False, text_, "qos_unsupported")
    if asked.retain and not settings.retain_available:
        return Question("size", False, "Nothing is retained here.", "retain_unsupported")
    text_ = f"{asked.payload_bytes:,} bytes fit: a packet may have {most:,}."
    return Question("size", True, text_)


def _quota(parts: ExplainingParts, user: str) -> Question:
    limits = parts.quotas.limits_of(user)
    told = [
        f"{limits.messages_per_s:,} messages/s" if limits.messages_per_s else "",
        f"{limits.bytes_per_s:,} bytes/s" if limits.bytes_per_s else "",
    ]
    rates = " and ".join(filter(None, told))
    if not rates:
        return Question("quota", True, "The user has no quota of messages.")
    return Question("quota", True, f"The quota is {rates}; what is more waits, and is not refused.")


def _disk(parts: ExplainingParts) -> Question:
    failure = parts.pipeline.failure
    if failure is not None:
        return Question(
            "disk", False, f"The last commit failed: {failure.message}.", _code(failure)
        )
    return Question("disk", True, "The last commit succeeded.")


def _code(failure: Exception) -> str:
    return "storage_full" if type(failure).__name__ == "StorageFull" else "storage_failed"


def _quorum(parts: ExplainingParts) -> Question:
    why_not = unreadiness(parts.cluster.status())
    if why_not or not parts.cluster.is_writable:
        return Question("quorum", False, f"{why_not or 'no leader'}.".capitalize(), "no_quorum")
    if not parts.cluster.is_clustered:
        return Question("quorum", True, "A single node: nobody else is asked.")
    return Question("quorum", True, f"Node {parts.cluster.leader} leads, and a quorum answers.")
