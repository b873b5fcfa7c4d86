"""What became of a topic: who gets it, what is kept of it, what was refused or dropped."""

from collections.abc import Sequence

import msgspec

from penstock.explain.explanation import FACTS_MAX, Advice, Explanation, Fact, Subject
from penstock.explain.facts import TopicFacts
from penstock.explain.fates import Certainty, Fate
from penstock.explain.wording import (
    DROPPED,
    advice_on,
    clock,
    derived,
    fact_of,
    listed,
    number,
    several,
    span,
)

NOTHING_PUBLISHED = "nothing_published"
SHOWN = 5  # clients in the summary
NOT_KEPT = ["publishers", "what was published before retention removed it"]


def explain_topic(facts: TopicFacts) -> Explanation:
    return Explanation(
        subject=Subject("topic", topic=facts.topic),
        fate=_fate(facts),
        summary=" ".join([_published(facts), _receivers(facts)]),
        receivers_total=facts.receivers_total + len(facts.groups),
        facts=_lines(facts)[-FACTS_MAX:],
        advice=_advice(facts),
        not_kept=NOT_KEPT,
        near=list(facts.near) if not facts.receivers_total and not facts.groups else [],
        subscribers=list(facts.receivers),
        subscribers_total=facts.receivers_total,
    )


def with_subscribers(found: Explanation, names: list[str], total: int) -> Explanation:
    """The same, with clients of other nodes; at least one was known."""
    known, every = _clients(found.subscribers, found.subscribers_total), _clients(names, total)
    before, _, after = found.summary.rpartition(known)
    return msgspec.structs.replace(
        found,
        summary=f"{before}{every}{after}",
        receivers_total=found.receivers_total - found.subscribers_total + total,
        subscribers=names,
        subscribers_total=total,
    )


def _clients(names: Sequence[str], total: int) -> str:
    rest = f" and {number(total - SHOWN)} more" if total > SHOWN else ""
    return f"{several(total, 'client')} ({', '.join(names[:SHOWN])}{rest})"


def _fate(facts: TopicFacts) -> str:
    if facts.reserved:
        return "topic_reserved"
    if not facts.receivers_total and not facts.groups:
        return Fate.NO_MATCH.value
    if not facts.next_offset and facts.is_captured:
        return NOTHING_PUBLISHED
    return Fate.DELIVERED.value


def _published(facts: TopicFacts) -> str:
    if not facts.next_offset:
        if facts.is_captured:
            return f"Nothing was published to {facts.topic}."
        return f"The journal has nothing of {facts.topic}: QoS 0 is not captured there."
    gone = f" of {number(facts.next_offset)} ever" if facts.first_offset else ""
    last = ""
    if facts.last is not None:
        ago = span((facts.now_ms - facts.last.time_ms) / 1000)
        last = f", the last one {ago} ago at {clock(facts.last.time_ms)}"
    return f"{several(facts.count, 'message')} of {facts.topic} in the journal{gone}{last}."


def _receivers(facts: TopicFacts) -> str:
    if not facts.receivers_total and not facts.groups:
        near = f" Almost: {listed(facts.near)}." if facts.near else ""
        return f"Nobody subscribes to it.{near}"
    told = []
    if facts.receivers_total:
        told.append(_clients(facts.receivers, facts.receivers_total))
    if facts.groups:
        groups = listed(group.name for group in facts.groups)
        told.append(f"{several(len(facts.groups), 'group')} ({groups})")
    verb = "goes" if facts.next_offset else "would go"
    return f"It {verb} to {' and '.join(told)}."


def _lines(facts: TopicFacts) -> list[Fact]:
    lines = [fact_of(event) for event in reversed(facts.events)]
    if facts.reserved:
        lines.append(derived(0, "topic_reserved", facts.reserved, trouble=True))
    if facts.is_signed_only:
        text = "Only signed messages are taken."
        lines.append(derived(0, "signed_only", text))
    if facts.is_captured:
        lines.append(derived(0, "captured", "Messages of every QoS are journaled."))
    else:
        why = f" ({facts.excluded_by})" if facts.excluded_by else ""
        lines.append(derived(0, "not_captured", f"QoS 0 is delivered but not journaled{why}."))
    if facts.retention:
        lines.append(derived(0, "retention", f"Kept by this rule: {facts.retention}."))
    if facts.retained is not None:
        text = f"The retained message is of {clock(facts.retained.time_ms)}."
        lines.append(derived(facts.retained.time_ms, Fate.RETAINED.value, text))
    for group in facts.groups:
        behind = number(max(0, facts.next_offset - group.head))
        workers = several(group.workers, "worker") if group.workers else "no worker"
        text = f"Group {group.name}: {behind} not handed out, {workers} here."
        lines.append(derived(0, Fate.QUEUED.value, text))
    if not facts.events:
        text = "No refusal and no drop of it is recorded."
        lines.append(Fact(None, "events", Certainty.DERIVED, text))
    return lines


def _advice(facts: TopicFacts) -> list[Advice]:
    found = [one for event in facts.events if event.kind == DROPPED for one in advice_on(event)]
    if not facts.receivers_total and not facts.groups and facts.near:
        found.append(Advice("Compare the topic with the filters that almost match."))
    if not facts.next_offset and not facts.is_captured:
        text = "Publish with QoS 1, or let the topic be captured (journal.capture_exclude)."
        found.append(Advice(text))
    return list({one.text: one for one in found}.values())
