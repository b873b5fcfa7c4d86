"""What became of a message: where it is for each receiver, and what happened on the way.

Each receiver has a fate. What is queued, in flight, leased or done follows from the present state;
what was dropped is recorded. A session without the message had it delivered, as far as the broker
can know: nothing is recorded of what goes well.
"""

from collections.abc import Sequence

from penstock.explain.explanation import (
    FACTS_MAX,
    RECEIVERS_MAX,
    Advice,
    Explanation,
    Fact,
    Receiver,
    Subject,
)
from penstock.explain.facts import GroupReceiver, Letter, MessageFacts, Row, SessionReceiver
from penstock.explain.fates import Certainty, Fate
from penstock.explain.wording import (
    DROPPED,
    RETURNED,
    advice_on,
    at,
    clock,
    derived,
    fact_of,
    in_order,
    listed,
    number,
    several,
    span,
)
from penstock.obs.events import Event
from penstock.obs.printable import printable

GRAVITY = (
    Fate.DEAD_LETTERED,
    Fate.DROPPED,
    Fate.NOT_KEPT_OFFLINE,
    Fate.BACKING_OFF,
    Fate.RATE_LIMITED,
    Fate.NOT_DUE,
    Fate.LEASED,
    Fate.IN_FLIGHT,
    Fate.QUEUED,
    Fate.RETAINED_REPLACED,
    Fate.RETAINED,
    Fate.DONE,
    Fate.DELIVERED,
    Fate.NO_MATCH,
)
"""Which fate is told first if receivers differ."""

NOT_KEPT = [
    "publisher",
    "subscribers of QoS 0 that were sent it",
    "subscriptions of sessions that have ended",
]


def explain_message(facts: MessageFacts) -> Explanation:
    subject = Subject("message", topic=facts.topic, offset=facts.offset)
    if facts.row is None:
        return _without_row(facts, subject)
    receivers = _receivers(facts, facts.row)
    fate = main_fate(receivers)
    return Explanation(
        subject=subject,
        fate=fate.value,
        summary=summary_of(facts.topic, fate, receivers, facts.near),
        receivers=receivers[:RECEIVERS_MAX],
        receivers_total=max(len(receivers), facts.sessions_total + len(facts.groups)),
        facts=_lines(facts, facts.row, receivers)[-FACTS_MAX:],
        advice=_advice(facts, fate, receivers),
        not_kept=NOT_KEPT,
        near=list(facts.near) if fate is Fate.NO_MATCH else [],
    )


# ── messages that are not in the journal ──────────────────────────────────────────────────────


def _without_row(facts: MessageFacts, subject: Subject) -> Explanation:
    name, offset = f"{facts.topic}@{facts.offset}", facts.offset
    if not facts.next_offset:
        text = f"No message of {facts.topic} is in the journal: nothing was published, or captured."
        return Explanation(subject, "unknown", text, near=list(facts.near), not_kept=NOT_KEPT)
    if offset >= facts.next_offset:
        text = f"{name} was not published yet: the next offset is {number(facts.next_offset)}."
        return Explanation(subject, "unknown", text, not_kept=NOT_KEPT)
    if facts.letters or _is_finished(facts):
        return _finished(facts, subject)
    if offset < facts.first_offset:
        rule = f" ({facts.retention})" if facts.retention else ""
        text = (
            f"{name} is gone: retention removed all before offset"
            f" {number(facts.first_offset)}{rule}."
        )
        line = derived(0, Fate.REMOVED.value, f"Removed by retention{rule}.")
        advice = [
            Advice(
                "Raise the limits of the rule that matches the topic, if it was needed longer.",
            )
        ]
        lines = [*map(fact_of, reversed(facts.events)), line]
        return Explanation(
            subject, Fate.REMOVED.value, text, facts=lines, advice=advice, not_kept=NOT_KEPT
        )
    text = f"{name} was deleted: its place in the topic is empty, those around it are there."
    line = derived(0, Fate.DELETED.value, "Deleted, alone or as a dead letter that was redriven.")
    return Explanation(subject, Fate.DELETED.value, text, facts=[line], not_kept=[*NOT_KEPT, "who"])


def _is_finished(facts: MessageFacts) -> bool:
    """Whether all groups have passed it, after which a queue's message is removed."""
    workers = [group for group in facts.groups if not group.is_reader]
    return bool(workers) and all(
        group.start <= facts.offset < group.head and not group.state for group in workers
    )


def _finished(facts: MessageFacts, subject: Subject) -> Explanation:
    receivers = [_finished_by(facts, group) for group in facts.groups if not group.is_reader]
    fate = main_fate(receivers)
    lines = [fact_of(event) for event in reversed(facts.events)]
    lines += _letter_lines(facts) + receiver_lines(receivers)
    lines.append(derived(0, "removed", "Its groups have finished it, so the journal let it go."))
    return Explanation(
        subject,
        fate.value,
        summary_of(facts.topic, fate, receivers, facts.near),
        receivers=receivers,
        receivers_total=len(receivers),
        facts=lines,
        advice=_advice(facts, fate, receivers),
        not_kept=[*NOT_KEPT, "the message itself"],
    )


def _finished_by(facts: MessageFacts, one: GroupReceiver) -> Receiver:
    letter = next((a for a in facts.letters if a.group == one.name), None)
    if letter is None:
        text = "A worker has acknowledged it, or it expired before."
        return Receiver("group", one.name, Fate.DONE, text=text)
    return Receiver(
        "group",
        one.name,
        Fate.DEAD_LETTERED,
        reason=letter.reason or None,
        attempts=letter.attempts,
        attempts_max=one.attempts_max or None,
        text=_dead(one, letter),
        certainty=Certainty.RECORDED,
    )


# ── receivers ─────────────────────────────────────────────────────────────────────────────────


def _receivers(facts: MessageFacts, row: Row) -> list[Receiver]:
    found = [_session(facts, row, one) for one in facts.sessions]
    found += [_group(facts, row, one) for one in facts.groups if facts.offset >= one.start]
    return found + _retained(facts, row)


def _session(facts: MessageFacts, row: Row, one: SessionReceiver) -> Receiver:
    def made(fate: Fate, text: str, **more: object) -> Receiver:
        fixed = {"kind": "client", "name": one.client_id, "filter": one.filter}
        return Receiver(**{**fixed, "fate": fate, "text": text, **more})  # type: ignore[arg-type]

    if one.place == "queued":
        away = "" if one.is_connected else f", away since {clock(one.away_since_ms)}"
        text = f"Waits behind {number(one.ahead)} others{away}."
        return made(Fate.QUEUED, text, ahead=one.ahead, limit=one.queue_max)
    if one.place == "in_flight":
        return made(Fate.IN_FLIGHT, "Sent; the client has not acknowledged it yet.")
    dropped = _drop_of(facts, one.client_id, row)
    if dropped is not None:
        event, certainty = dropped
        return made(Fate.DROPPED, fact_of(event).text, reason=event.reason, certainty=certainty)
    is_kept = min(one.qos, row.qos) > 0 and one.is_persistent
    if not is_kept and one.connected_ms > row.time_ms and one.ended_ms:
        return made(Fate.NOT_KEPT_OFFLINE, _away_then(one, row))
    if one.since_sequence and one.since_sequence >= row.sequence:
        return made(Fate.NO_MATCH, "It subscribed after this message.")
    if one.connected_ms > row.time_ms and not one.is_persistent:
        return made(Fate.NO_MATCH, "It connected after this message.")
    if not is_kept and not one.is_connected:
        return made(Fate.NOT_KEPT_OFFLINE, "It is away, and QoS 0 is not kept for it.")
    if min(one.qos, row.qos) == 0:
        return made(Fate.DELIVERED, "Sent at once with QoS 0, which is never confirmed.")
    return made(Fate.DELIVERED, "Sent and acknowledged: it is neither queued nor in flight.")


def _away_then(one: SessionReceiver, row: Row) -> str:
    since = f"{clock(one.ended_ms)} to " if 0 < one.ended_ms <= row.time_ms else "until "
    kept = "a clean session keeps nothing" if not one.is_persistent else "QoS 0 is not kept"
    return f"It was away {since}{clock(one.connected_ms)}, and {kept}."


def _drop_of(facts: MessageFacts, client_id: str, row: Row) -> tuple[Event, Certainty] | None:
    """The recorded drop of the message for a client, and whether it names the message."""
    for event in facts.events:
        if event.kind != DROPPED or printable(event.client) != client_id:
            continue
        if event.sequence <= row.sequence <= event.last_sequence:
            is_exact = event.count >= event.last_sequence - event.sequence + 1
            return event, Certainty.RECORDED if is_exact else Certainty.DERIVED
        is_near = event.ms // 1000 <= row.time_ms // 1000 + 2 and event.ms >= row.time_ms
        if not row.qos and event.reason == "slow_reader" and is_near:
            return event, Certainty.DERIVED
    return None


def _group(facts: MessageFacts, row: Row, one: GroupReceiver) -> Receiver:
    fate, text = _group_fate(facts, row, one)
    letter = next((a for a in facts.letters if a.group == one.name), None)
    reason = one.reason
    if letter is not None and fate is Fate.DEAD_LETTERED:
        reason, attempts = letter.reason, letter.attempts
    else:
        attempts = one.attempts
    if fate is Fate.DROPPED:
        reason = "expired"
    return Receiver(
        kind="group",
        name=one.name,
        fate=fate,
        reason=reason or None,
        holder=one.holder or None,
        until=at(one.until_ms),
        attempts=attempts or None,
        attempts_max=one.attempts_max or None,
        ahead=one.ahead if fate in {Fate.QUEUED, Fate.RATE_LIMITED} else None,
        text=text,
        certainty=Certainty.RECORDED if letter or one.state else Certainty.DERIVED,
    )


def _group_fate(facts: MessageFacts, row: Row, one: GroupReceiver) -> tuple[Fate, str]:
    letter = next((a for a in facts.letters if a.group == one.name), None)
    if one.is_reader:
        if facts.offset < one.head:
            return Fate.DONE, "The reader has committed a position behind it."
        return Fate.QUEUED, "The reader has not come that far."
    if one.state:
        return _pending_fate(facts, one)
    if letter is not None:
        return Fate.DEAD_LETTERED, _dead(one, letter)
    if _expired_in(facts, one.name) or (facts.offset >= one.head and _is_over(facts, row)):
        ahead = f": {number(one.ahead)} were ahead of it" if one.ahead else ""
        ttl = span((row.expires_ms - row.time_ms) / 1000)
        return Fate.DROPPED, f"Its time to live of {ttl} was over before it was handed out{ahead}."
    if facts.offset < one.head:
        maybe = " or expired before, of which nothing is recorded" if _is_over(facts, row) else ""
        return Fate.DONE, f"A worker has acknowledged it{maybe}."
    if row.due_ms > facts.now_ms:
        return Fate.NOT_DUE, f"Scheduled for {clock(row.due_ms)}."
    return _waiting_fate(one)


def _waiting_fate(one: GroupReceiver) -> tuple[Fate, str]:
    workers = several(one.workers, "worker") if one.workers else "no worker"
    if one.rate_per_s:
        pace = f"{one.rate_per_s:g}/s"
        text = f"{number(one.ahead)} ahead of it; the topic is limited to {pace}, {workers}."
        return Fate.RATE_LIMITED, text
    return Fate.QUEUED, f"{number(one.ahead)} ahead of it; {workers} of this group here."


def _pending_fate(facts: MessageFacts, one: GroupReceiver) -> tuple[Fate, str]:
    until = clock(one.until_ms)
    if one.state == "leased":
        who, held = one.holder or "a worker", span((facts.now_ms - one.taken_ms) / 1000)
        ends = f", until {until}" if one.until_ms else ", until it leaves"
        return Fate.LEASED, f"{who} has had it {held}{ends}; attempt {one.attempts}."
    if one.state == "exhausted":
        return Fate.DEAD_LETTERED, f"{one.attempts} attempts failed; it is being moved."
    if one.state == "delayed" and one.attempts:
        why = f': "{one.reason}"' if one.reason else ""
        text = f"Returned after attempt {one.attempts}{why}; next attempt at {until}."
        return Fate.BACKING_OFF, text
    if one.state == "delayed":
        return Fate.NOT_DUE, f"Scheduled for {until}."
    return Fate.QUEUED, f"Returned after attempt {one.attempts}; goes out before newer ones."


def _is_over(facts: MessageFacts, row: Row) -> bool:
    return 0 < row.expires_ms <= facts.now_ms


def _expired_in(facts: MessageFacts, group: str) -> bool:
    return any(
        event.reason == "expired"
        and printable(event.group) == group
        and event.offset <= facts.offset < event.offset + event.count
        for event in facts.events
    )


def _dead(one: GroupReceiver, letter: Letter) -> str:
    why = f': "{letter.reason}"' if letter.reason else ""
    of = f" of {one.attempts_max}" if one.attempts_max else ""
    return f"{letter.attempts}{of} attempts failed{why}; gave up at {clock(letter.time_ms)}."


def _retained(facts: MessageFacts, row: Row) -> list[Receiver]:
    if not row.retain:
        return []
    now = facts.retained
    if now is not None and now.sequence == row.sequence:
        text = "New subscribers get it first."
        return [Receiver("retained", facts.topic, Fate.RETAINED, text=text)]
    since = f"Retained from {clock(row.time_ms)}"
    if facts.replaced_by is not None:
        offset, ms = facts.replaced_by
        text = f"{since} to {clock(ms)}; offset {number(offset)} replaced it."
    elif now is not None:
        text = f"{since} to {clock(now.time_ms)}; a later message replaced it."
    else:
        text = f"{since}; it was cleared, or has expired."
    return [Receiver("retained", facts.topic, Fate.RETAINED_REPLACED, text=text)]


# ── the whole ─────────────────────────────────────────────────────────────────────────────────


def main_fate(receivers: Sequence[Receiver]) -> Fate:
    """The fate that is told first."""
    fates = {receiver.fate for receiver in receivers}
    return next((fate for fate in GRAVITY if fate in fates), Fate.NO_MATCH)


def summary_of(
    topic: str, fate: Fate, receivers: Sequence[Receiver], near: Sequence[str] = ()
) -> str:
    """A sentence about those receivers whose fate matters most."""
    concerned = [receiver for receiver in receivers if receiver.fate is fate]
    if not concerned:
        almost = f" Almost: {listed(near)}." if near else ""
        return f"Nobody subscribes to {topic}.{almost} The journal has the message."
    first = concerned[0]
    if fate is Fate.NO_MATCH:
        return f"No subscription was there in time. {first.name}: {_lower(first.text)}"
    others = len(concerned) - 1
    more = f" So for {several(others, 'other receiver')}." if others else ""
    if first.kind == "retained":
        return f"{first.text}{more}"
    kind = "Group " if first.kind == "group" else ""
    return f"{kind}{first.name}: {_lower(first.text)}{more}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _lines(facts: MessageFacts, row: Row, receivers: list[Receiver]) -> list[Fact]:
    durable = f", {facts.durable}" if facts.durable and row.qos else ""
    key = f", signed with key {row.key_id}" if row.key_id is not None else ""
    taken = f"Taken with QoS {row.qos}, {number(row.payload_bytes)} bytes{key}{durable}."
    lines = [Fact(at(row.time_ms), "taken", Certainty.RECORDED, taken)]
    concerned = [event for event in facts.events if _concerns(facts, row, event)]
    lines += [fact_of(event) for event in sorted(concerned, key=in_order)]
    lines += _letter_lines(facts) + receiver_lines(receivers)
    if not receivers:
        lines.append(derived(0, "no_match", "No subscription and no group matches, as of now."))
    return lines


def _letter_lines(facts: MessageFacts) -> list[Fact]:
    lines = []
    for letter in facts.letters:
        text = f"Moved to {letter.topic}@{letter.offset} after {letter.attempts} attempts"
        why = f': "{letter.reason}".' if letter.reason else "."
        lines.append(
            Fact(at(letter.time_ms), "dead_lettered", Certainty.RECORDED, text + why, True)
        )
    return lines


def receiver_lines(receivers: list[Receiver]) -> list[Fact]:
    """A line for each receiver."""
    lines = []
    for receiver in receivers:
        code = receiver.reason if receiver.fate is Fate.DROPPED else None
        text = f"{receiver.name}: {receiver.text}"
        is_trouble = receiver.fate in GRAVITY[:3]
        lines.append(Fact(None, code or receiver.fate.value, receiver.certainty, text, is_trouble))
    return lines


def _concerns(facts: MessageFacts, row: Row, event: Event) -> bool:
    if event.kind == RETURNED:
        return event.offset == facts.offset
    if event.sequence:
        return event.sequence <= row.sequence <= event.last_sequence
    return event.offset >= 0 and event.offset <= facts.offset < event.offset + event.count


def _advice(facts: MessageFacts, fate: Fate, receivers: list[Receiver]) -> list[Advice]:
    names = [receiver.name for receiver in receivers if receiver.fate is fate]
    match fate:
        case Fate.NO_MATCH:
            if facts.near:
                return [Advice("Compare the topic with the filters that almost match.")]
            return [Advice("Let somebody subscribe, or read it from the journal.", _read(facts))]
        case Fate.NOT_KEPT_OFFLINE:
            text = "Use a persistent session and QoS 1, so that messages wait for the client."
            return [Advice(text)]
        case Fate.DEAD_LETTERED:
            text = "Fix the cause, redrive one letter, then the rest."
            return [Advice(text, f"penstock dlq redrive {facts.topic} {names[0]} --max 1")]
        case Fate.LEASED:
            return [Advice("Wait until the lease ends, or end the worker.")]
        case Fate.QUEUED if any(one.kind == "group" for one in receivers if one.name in names):
            text = "Start workers for the group, or more of them."
            return [Advice(text, f"penstock groups list {facts.topic}")]
        case Fate.QUEUED:
            text = "It goes out when the client comes back and acknowledges."
            return [Advice(text, f"penstock why client {names[0]}")]
        case Fate.RATE_LIMITED:
            return [Advice("Raise the rate limit of the topic, if the workers can take more.")]
        case Fate.DROPPED:
            found = [a for event in facts.events if event.kind == DROPPED for a in advice_on(event)]
            return list({one.text: one for one in found}.values())
        case _:
            return []


def _read(facts: MessageFacts) -> str:
    return f"penstock read {facts.topic}"
