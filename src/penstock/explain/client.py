"""What became of a client: connected, away, thrown out, never seen."""

from penstock.explain.explanation import FACTS_MAX, Advice, Explanation, Fact, Subject
from penstock.explain.facts import ClientFacts, SessionState
from penstock.explain.fates import Certainty
from penstock.explain.wording import (
    CONNECTED,
    DROPPED,
    ENDED,
    ORDINARY,
    REFUSED,
    advice_on,
    clock,
    derived,
    end_in_words,
    fact_of,
    in_order,
    listed,
    number,
    several,
    span,
)
from penstock.obs.events import Event

HOUR_MS = 3_600_000
SHARED_FROM = 3  # take-overs in an hour that are no quick reconnects any more
TAKER_MS = 2_000  # who connects within this time of a take-over is who took over

NOT_KEPT = [
    "messages that it received",
    "what a session without persistence had subscribed to before it ended",
]


def explain_client(facts: ClientFacts) -> Explanation:
    end = _last_end(facts)
    return Explanation(
        subject=Subject("client", client_id=facts.client_id),
        fate=_fate(facts, end),
        summary=_summary(facts, end),
        facts=_lines(facts),
        advice=_advice(facts, end),
        not_kept=NOT_KEPT,
        rank=int(facts.connection is not None),
    )


def takeovers(facts: ClientFacts) -> int:
    """How often the client id was taken over in the last hour."""
    since_ms = facts.now_ms - HOUR_MS
    return sum(
        event.count
        for event in facts.events
        if event.kind == ENDED and event.reason == "session_taken_over" and event.ms >= since_ms
    )


def takers(facts: ClientFacts) -> list[str]:
    """The addresses from which the client id came in the last hour, newest first."""
    since_ms = facts.now_ms - HOUR_MS
    hosts = (
        event.peer.rpartition(":")[0]
        for event in facts.events
        if event.kind == CONNECTED and event.ms >= since_ms and event.peer
    )
    return list(dict.fromkeys(hosts))


def _last_end(facts: ClientFacts) -> Event | None:
    ends = (event for event in facts.events if event.kind in {ENDED, REFUSED})
    newest = next(ends, None)
    last = facts.last_end
    if newest is None or (last is not None and last.ms > newest.ms):
        return last
    return newest


def _is_connected(facts: ClientFacts) -> bool:
    return facts.connection is not None or (
        facts.session is not None and facts.session.is_connected
    )


def _fate(facts: ClientFacts, end: Event | None) -> str:
    if takeovers(facts) >= SHARED_FROM:
        return "session_taken_over"
    if _is_connected(facts):
        return "connected"
    if end is not None:
        return end.reason
    return "away" if facts.session is not None else "unknown"


def _summary(facts: ClientFacts, end: Event | None) -> str:
    taken = takeovers(facts)
    if taken >= SHARED_FROM:
        hosts = takers(facts)
        return (
            f"Two or more devices share the id {facts.client_id}: it was taken over"
            f" {several(taken, 'time')} in the last hour, from {listed(hosts)}."
        )
    parts = [_state(facts, end)]
    if facts.session is not None and not facts.session.is_connected:
        parts.append(_waiting(facts, facts.session))
    dropped = _dropped(facts)
    if dropped:
        parts.append(dropped)
    return " ".join(part for part in parts if part)


def _state(facts: ClientFacts, end: Event | None) -> str:
    name, connection, session = facts.client_id, facts.connection, facts.session
    if connection is not None:
        user = f" as user {connection.user}" if connection.user else ""
        heard = f"last heard {span(connection.silent_s)} ago"
        return f"{name} is connected from {connection.peer} ({connection.protocol}){user}, {heard}."
    if session is not None and session.is_connected:
        return f"{name} is connected to node {session.node}."
    if end is not None and end.kind == REFUSED:
        return f"{name} was refused at {clock(end.ms)}: {end_in_words(end)}."
    if end is not None:
        return f"{name} is away since {clock(end.ms)}: {end_in_words(end)}."
    if session is not None:
        ago = span((facts.now_ms - session.away_since_ms) / 1000)
        return f"{name} is away since {clock(session.away_since_ms)}, {ago}; why is not kept."
    return f"Nothing is known of {name}: it has no session, and no record of it is kept."


def _waiting(facts: ClientFacts, session: SessionState) -> str:
    if not session.queued:
        return "Its session waits for it; no messages do." if session.is_persistent else ""
    limit = f" (limit {number(session.queue_max)})" if session.queue_max else ""
    ends = ""
    if session.ends_ms > facts.now_ms:
        ends = f" The session expires in {span((session.ends_ms - facts.now_ms) / 1000)}."
    verb = "waits" if session.queued == 1 else "wait"
    return f"{several(session.queued, 'message')} {verb} for it{limit}.{ends}"


def _dropped(facts: ClientFacts) -> str:
    sums: dict[str, int] = {}
    for event in facts.events:
        if event.kind == DROPPED:
            sums[event.reason] = sums.get(event.reason, 0) + event.count
    told = [f"{number(count)} {reason}" for reason, count in sums.items()]
    return f"Messages dropped: {', '.join(told)}." if told else ""


def _lines(facts: ClientFacts) -> list[Fact]:
    events = list(facts.events[: FACTS_MAX - 5])
    last = facts.last_end
    if last is not None and all(event.number != last.number for event in events):
        events.append(last)
    lines = [fact_of(event) for event in sorted(events, key=in_order)]
    session = facts.session
    if session is not None and session.filters_total:
        shown = listed(session.filters)
        text = f"{several(session.filters_total, 'subscription')}: {shown}."
        lines.append(derived(0, "subscriptions", text))
    if session is not None and (session.queued or session.in_flight):
        text = f"{number(session.in_flight)} in flight, {number(session.queued)} queued behind."
        lines.append(derived(0, "queued", text))
    if facts.ban:
        lines.append(derived(0, "banned", facts.ban, trouble=True))
    if not facts.events and last is None:
        text = "No event of it is recorded; the topic $events/clients may have older ones."
        lines.append(Fact(None, "events", Certainty.NOT_KEPT, text))
    return lines


def _advice(facts: ClientFacts, end: Event | None) -> list[Advice]:
    if takeovers(facts) >= SHARED_FROM:
        return [Advice("Give each device a client id of its own.", None)]
    found: list[Advice] = []
    if end is not None and not _is_connected(facts) and end.reason not in ORDINARY:
        command = None
        if end.reason == "not_authorized" and end.user:
            command = f"penstock acl log {end.user}"
        found += advice_on(end, command)
    seen = {end.reason} if end is not None else set()
    for event in facts.events:
        if event.kind == DROPPED and event.reason not in seen:
            seen.add(event.reason)
            found += advice_on(event)
    if facts.ban:
        found.append(Advice("A ban is in force; look at it, or end it.", "penstock bans list"))
    return found
