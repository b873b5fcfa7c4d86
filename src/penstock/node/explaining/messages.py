"""Facts about a message and about a topic."""

from collections.abc import Iterable
from functools import partial

from penstock.access.admission import ENVELOPES, SIGNED_ONLY, topic_refusal
from penstock.explain import facts as told
from penstock.explain.explanation import RECEIVERS_MAX
from penstock.explain.facts import MessageFacts, TopicFacts
from penstock.explain.wording import span
from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.model.dead_letters import dead_letter_topic
from penstock.model.message import FLAG_RETAIN, Message
from penstock.node.explaining.parts import ExplainingParts, Reading, text
from penstock.node.explaining.receivers import (
    almost,
    group_receivers,
    names_of,
    session_receivers,
    targets,
)
from penstock.obs.events import DROPPED, RETURNED, Event, Events
from penstock.retention.rules import configured_rules
from penstock.store.store import Store

EVENTS_MAX = 300
LETTERS_LOOKED_AT = 2_000  # the newest, of each group
LETTERS_AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20
REPLACEMENT_LOOKED_AT = 20_000  # later messages of the topic, without their payloads


async def message_facts(
    parts: ExplainingParts, topic: bytes, offset: int, read: Reading
) -> MessageFacts:
    info, store = parts.store.topic(topic), parts.store
    message = await read(partial(_message, store, topic, offset)) if info is not None else None
    base = MessageFacts(
        topic=text(topic),
        offset=offset,
        now_ms=parts.now_ms,
        first_offset=info.first_offset if info else 0,
        next_offset=info.next_offset if info else 0,
        retention=retention_words(parts, topic),
    )
    if message is None:
        events = await read(partial(_removals, parts.events, topic, offset))
        found = await read(partial(almost, parts, topic)) if info is None else []
        groups = tuple(group_receivers(parts, info, topic, offset))
        return _with(
            base,
            events=tuple(events),
            near=tuple(found),
            groups=groups,
            letters=await _all_letters(store, topic, offset, groups, read),
        )
    sessions, total = await session_receivers(parts, topic, message.sequence)
    groups = tuple(group_receivers(parts, info, topic, offset, message.priority))
    retained = parts.broker.retained.get(topic)
    return _with(
        base,
        row=_row(message),
        durable=durable_words(parts),
        sessions=tuple(sessions),
        sessions_total=total,
        groups=groups,
        letters=await _all_letters(store, topic, offset, groups, read),
        retained=told.Retained(retained.sequence, retained.time_ms) if retained else None,
        replaced_by=await read(partial(_replacement, store, message)) if message.retain else None,
        events=tuple(await read(partial(_events_of, parts.events, message))),
        near=() if sessions or groups else tuple(await read(partial(almost, parts, topic))),
    )


def _with(base: MessageFacts, **changes: object) -> MessageFacts:
    values = {name: getattr(base, name) for name in base.__struct_fields__}
    return MessageFacts(**{**values, **changes})


def _message(store: Store, topic: bytes, offset: int) -> Message | None:
    found = next(store.read_topic(topic, offset, 1, 0).messages(), None)
    return found if found is not None and found.offset == offset else None


def _row(message: Message) -> told.Row:
    extras = message.extras
    signature = extras.signature if extras is not None else None
    return told.Row(
        sequence=message.sequence,
        time_ms=message.time_ms,
        qos=message.qos,
        retain=message.retain,
        payload_bytes=len(message.payload),
        priority=message.priority,
        due_ms=extras.due_ms if extras is not None else 0,
        expires_ms=extras.expires_ms if extras is not None else 0,
        key_id=signature.key_id if signature is not None else None,
    )


def _events_of(events: Events, message: Message) -> list[Event]:
    """Drops and returns that may be about a message: recorded since it came."""
    found: list[Event] = []
    for event in events.newest():
        if event.ms < message.time_ms - 1_000 or len(found) == EVENTS_MAX:
            break
        if event.kind not in {DROPPED, RETURNED}:
            continue
        is_named = event.sequence <= message.sequence <= event.last_sequence
        is_slow = event.reason == "slow_reader" and not message.qos
        if is_named or event.topic == message.topic or is_slow:
            found.append(event)
    return found


def _removals(events: Events, topic: bytes, offset: int) -> list[Event]:
    """What is recorded of a message that is gone: removals of its topic, returns by workers."""
    found = events.find(EVENTS_MAX, topic=topic)
    return [
        event
        for event in found
        if event.reason in {"retention", "topic_deleted"}
        or (event.kind == RETURNED and event.offset == offset)
    ]


def _replacement(store: Store, message: Message) -> tuple[int, int] | None:
    """Offset and time of the next message of the topic that was to be retained."""
    flags = store.read_flags(message.topic, message.offset + 1, REPLACEMENT_LOOKED_AT)
    first = next((first for first, _, bits in flags.runs if bits & FLAG_RETAIN), None)
    later = _message(store, message.topic, first) if first is not None else None
    return (later.offset, later.time_ms) if later is not None else None


async def _all_letters(
    store: Store,
    topic: bytes,
    offset: int,
    groups: Iterable[told.GroupReceiver],
    read: Reading,
) -> tuple[told.Letter, ...]:
    found: list[told.Letter] = []
    for group in groups:
        found += await read(partial(_letters, store, topic, offset, group.name))
    return tuple(found)


def _letters(store: Store, topic: bytes, offset: int, group: str) -> list[told.Letter]:
    letters = dead_letter_topic(topic, group.encode())
    info = store.topic(letters)
    if info is None or topic.startswith(DEAD_PREFIX):
        return []
    at, wanted = max(info.first_offset, info.next_offset - LETTERS_LOOKED_AT), b"%d" % offset
    found: list[told.Letter] = []
    while at < info.next_offset:
        part = store.read_topic(letters, at, LETTERS_AT_ONCE, BYTES_AT_ONCE)
        for message in part.messages():
            headers = dict(message.extras.headers) if message.extras else {}
            if headers.get(b"dlq-offset") == wanted:
                found.append(_letter(group, message, headers))
        if part.next_offset <= at:
            break
        at = part.next_offset
    return found[-1:]


def _letter(group: str, message: Message, headers: dict[bytes, bytes]) -> told.Letter:
    attempts, ms = headers.get(b"dlq-attempts", b"0"), headers.get(b"dlq-time", b"")
    return told.Letter(
        group=group,
        attempts=int(attempts) if attempts.isdigit() else 0,
        reason=text(headers.get(b"dlq-reason", b"")),
        time_ms=int(ms) if ms.isdigit() else message.time_ms,
        topic=text(message.topic),
        offset=message.offset,
    )


def durable_words(parts: ExplainingParts) -> str:
    """What an acknowledgement means here, now."""
    if parts.config.durability == "interval":
        return "acknowledged before it was on disk (durability = interval)"
    voters = len(parts.cluster.status().voters)
    if voters < 2:
        return "on disk before it was acknowledged"
    return f"on disk of {voters // 2 + 1} of {voters} nodes before it was acknowledged"


def retention_words(parts: ExplainingParts, topic: bytes) -> str:
    limits = configured_rules(parts.config).limits(topic)
    own = parts.broker.topics.get(topic)
    messages = (own.max_messages if own else 0) or limits.messages_max
    age_ms = (own.max_age_ms if own else 0) or limits.age_ms_max
    size = (own.max_bytes if own else 0) or limits.bytes_max
    told_limits = [
        f"at most {messages:,} messages" if messages else "",
        f"for {span(age_ms / 1000)}" if age_ms else "",
        f"at most {size:,} bytes" if size else "",
    ]
    return ", ".join(filter(None, told_limits))


# ── topics ────────────────────────────────────────────────────────────────────────────────────


async def topic_facts(parts: ExplainingParts, topic: bytes, read: Reading) -> TopicFacts:
    info, store = parts.store.topic(topic), parts.store
    last = None
    if info is not None and info.count:
        last = await read(partial(_last, store, topic, info.next_offset))
    refusal = topic_refusal(topic, parts.config.limits)
    policy = parts.admission.policy(topic)
    retained = parts.broker.retained.get(topic)
    receivers, groups = targets(parts, topic), tuple(group_receivers(parts, info, topic, 0))
    is_captured = parts.admission.is_captured(topic)
    return TopicFacts(
        topic=text(topic),
        now_ms=parts.now_ms,
        first_offset=info.first_offset if info else 0,
        next_offset=info.next_offset if info else 0,
        count=info.count if info else 0,
        bytes=info.bytes if info else 0,
        last=_row(last) if last is not None else None,
        is_captured=is_captured,
        excluded_by="" if is_captured else _excluded_by(parts, topic),
        is_signed_only=bool(policy & (SIGNED_ONLY | ENVELOPES)),
        reserved=refusal.text if refusal is not None else "",
        receivers=tuple(names_of(parts, topic, RECEIVERS_MAX)),
        receivers_total=len(receivers),
        groups=groups,
        retained=told.Retained(retained.sequence, retained.time_ms) if retained else None,
        events=tuple(await read(partial(_topic_events, parts.events, topic))),
        near=() if receivers or groups else tuple(await read(partial(almost, parts, topic))),
        retention=retention_words(parts, topic),
    )


def _last(store: Store, topic: bytes, end: int) -> Message | None:
    return next(store.read_topic(topic, max(0, end - 1), 1, 0).messages(), None)


def _excluded_by(parts: ExplainingParts, topic: bytes) -> str:
    if not parts.config.journal.capture:
        return "journal.capture is off"
    return "topics that begin with $" if topic.startswith(b"$") else "journal.capture_exclude"


def _topic_events(events: Events, topic: bytes) -> list[Event]:
    """What was dropped of a topic, and captures that failed for any."""
    found = events.find(EVENTS_MAX, topic=topic)
    captures = {"capture_overflow", "capture_failed"}
    unnamed = events.find(20, topic=b"", kind=DROPPED)
    found += [event for event in unnamed if event.reason in captures]
    return sorted(found, key=lambda event: -event.ms)[:100]
