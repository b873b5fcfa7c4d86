"""What must hold after a round. Pure: histories and journals in, complaints out.

A journal is what one node has of one topic: offsets and payloads, in order. It decides the outcome
of a request that was never answered: it was done if its message is there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import TypeAlias

import msgspec

from tests.chaos.history import Delivery, Grant, Op
from tests.chaos.linear import log_fault

__all__ = [
    "Journal",
    "check_deliveries",
    "check_delivery_order",
    "check_grants",
    "check_journals",
    "check_linearizable",
    "check_order",
    "check_publishes",
    "check_settled",
]

Journal: TypeAlias = Mapping[str, Sequence[tuple[int, bytes]]]
"""The journal of a node: topic → offsets and payloads."""

EXACT = {"numbered", "qos2", "once"}
"""Kinds of messages that are in the journal at most once."""

SLACK_S = 0.25
"""Tolerated clock difference when a node takes over another's leases."""


def check_journals(journals: Mapping[int, Journal]) -> list[str]:
    """All nodes have the same messages at the same offsets, and no offset is missing."""
    found = []
    (first, expected), *others = journals.items()
    for node, journal in others:
        for topic in sorted({*expected, *journal}):
            ours, theirs = expected.get(topic, ()), journal.get(topic, ())
            if list(ours) != list(theirs):
                found.append(f"{topic}: {_difference(first, ours, node, theirs)}")
    for topic, messages in expected.items():
        if [offset for offset, _ in messages] != list(range(len(messages))):
            found.append(f"{topic}: offsets are not 0, 1, 2 … at node {first}")
    return found


def _difference(
    first: int,
    ours: Sequence[tuple[int, bytes]],
    node: int,
    theirs: Sequence[tuple[int, bytes]],
) -> str:
    place = next(
        (i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None
    )
    if place is None:
        return f"node {first} has {len(ours)} messages, node {node} {len(theirs)}"
    return f"node {first} has {ours[place]}, node {node} {theirs[place]}"


def check_publishes(ops: Iterable[Op], journal: Journal) -> list[str]:
    """What was acknowledged is stored, once where guaranteed, at the offset of the answer."""
    found, asked = [], defaultdict(set)
    places = {topic: _places(messages) for topic, messages in journal.items()}
    for op in ops:
        if op.kind == "end":
            continue
        asked[op.topic].add(op.payload)
        offsets = places.get(op.topic, {}).get(op.payload, [])
        name = f"{op.topic}: {op.payload.decode()} ({op.kind})"
        if op.is_ok and not offsets:
            found.append(f"{name} was acknowledged and is lost")
        if op.kind in EXACT and len(offsets) > 1:
            found.append(f"{name} is there {len(offsets)} times, at {offsets}")
        if op.value >= 0 and op.value not in offsets:
            found.append(f"{name} was told to be at {op.value} and is at {offsets}")
    for topic, payloads in places.items():
        found += [f"{topic}: {p!r} was never published" for p in payloads.keys() - asked[topic]]
    return found


def _places(messages: Sequence[tuple[int, bytes]]) -> dict[bytes, list[int]]:
    places: dict[bytes, list[int]] = defaultdict(list)
    for offset, payload in messages:
        places[payload].append(offset)
    return places


def check_order(ops: Iterable[Op], journal: Journal) -> list[str]:
    """Sequential publishes of one client are stored in that order (the first copy counts)."""
    found = []
    places = {topic: _places(messages) for topic, messages in journal.items()}
    lines: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for op in ops:
        offsets = places.get(op.topic, {}).get(op.payload)
        if op.kind != "end" and offsets:
            lines[op.who, op.topic].append((op.number, offsets[0]))
    for (who, topic), line in lines.items():
        for (number, offset), (later, earlier) in pairwise(sorted(line)):
            if earlier < offset:
                found.append(f"{topic}: {who} published {number} before {later}, not so in it")
    return found


def check_grants(grants: Iterable[Grant]) -> list[str]:
    """A message is with one worker at a time, and with none once it is done."""
    found = []
    held: dict[tuple[str, str, int], list[Grant]] = defaultdict(list)
    for grant in grants:
        held[grant.topic, grant.group, grant.offset].append(grant)
    for (topic, group, offset), line in held.items():
        for first, second in pairwise(sorted(line, key=lambda grant: grant.got)):
            fault = _overlap(first, second)
            if fault:
                found.append(f"{topic}/{offset} in {group}: {fault}")
    return found


def _overlap(first: Grant, second: Grant) -> str:
    """Return why a second grant is a violation; empty if it is allowed."""
    pair = f"{second.worker} got it {second.got - first.got:.3f} s after {first.worker}"
    ends = first.asked + first.lease_s - SLACK_S
    if first.acked < min(second.got, ends):
        return f"{pair}, whose acknowledgement was confirmed before"
    if second.got < min(ends, first.returned):
        return f"{pair}, whose lease of {first.lease_s:g} s was not over"
    return ""


def check_deliveries(
    subscriber: str, ops: Iterable[Op], deliveries: Iterable[Delivery], journal: Journal
) -> list[str]:
    """A subscriber gets everything in the journal: QoS 2 once, all else at least once."""
    came = Counter((d.topic, d.payload) for d in deliveries)
    kinds = {(op.topic, op.payload): op.kind for op in ops}
    found = []
    for topic, messages in journal.items():
        for payload in {payload for _, payload in messages}:
            times = came[topic, payload]
            name = f"{topic}: {payload.decode()} ({kinds.get((topic, payload), '?')})"
            if not times:
                found.append(f"{name} never came to {subscriber}")
            elif times > 1 and kinds.get((topic, payload)) == "qos2":
                found.append(f"{name} came to {subscriber} {times} times")
    stored = {(topic, payload) for topic, messages in journal.items() for _, payload in messages}
    found += [
        f"{t}: {p!r} came to {subscriber}, and is not stored" for t, p in came.keys() - stored
    ]
    return found


def check_delivery_order(
    subscriber: str, ops: Iterable[Op], deliveries: Iterable[Delivery]
) -> list[str]:
    """A subscriber gets the messages of one publisher in order; the first copy counts."""
    published = {(op.topic, op.payload): op for op in ops if op.kind != "end"}
    latest: dict[tuple[str, str], int] = {}
    came: set[tuple[str, bytes]] = set()
    found = []
    for delivery in deliveries:
        key = (delivery.topic, delivery.payload)
        op = published.get(key)
        if op is None or key in came:
            continue
        came.add(key)
        line = (op.who, op.topic)
        if op.number < latest.get(line, op.number):
            text = f"{op.who} published {op.number} before {latest[line]}"
            found.append(f"{op.topic}: {text}, it came to {subscriber} behind it")
        latest[line] = max(latest.get(line, op.number), op.number)
    return found


def check_settled(deliveries: Iterable[Delivery]) -> list[str]:
    """A message whose acknowledgement was confirmed is not delivered again."""
    settled: dict[tuple[str, int], float] = {}
    found = []
    for delivery in sorted(deliveries, key=lambda delivery: delivery.at):
        key = (delivery.subscriber, delivery.sequence)
        if settled.get(key, inf) < delivery.at:
            name = f"{delivery.topic}: {delivery.payload.decode()}"
            found.append(f"{name} came to {delivery.subscriber} again after it was done")
        settled[key] = min(settled.get(key, inf), delivery.settled)
    return found


def check_linearizable(ops: Iterable[Op], journal: Journal) -> list[str]:
    """Topics that only numbered producers write to are linearizable logs.

    Unanswered produces count if their message is stored, with an open end.
    """
    topics: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        if op.kind in {"numbered", "end"}:
            topics[op.topic].append(op)
    found = []
    for topic, line in topics.items():
        places = _places(journal.get(topic, ()))
        known = [op for op in line if op.is_ok or (op.kind == "numbered" and op.payload in places)]
        found.append(log_fault([_with_place(op, places) for op in known]))
    return [fault for fault in found if fault]


def _with_place(op: Op, places: Mapping[bytes, Sequence[int]]) -> Op:
    if op.kind == "end" or op.value >= 0:
        return op
    return msgspec.structs.replace(op, value=places[op.payload][0])
