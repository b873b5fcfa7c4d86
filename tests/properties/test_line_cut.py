"""A batch that is cut in two: each part is as if only its own steps had been taken."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.commit.pending_batch import PendingBatch
from penstock.commit.replay import commands_of
from penstock.commit.withdrawal import cut
from penstock.core.commands import Command, Published, Received, TopicGone, to_event
from penstock.model.message import Extras
from penstock.store.batch import Batch
from penstock.store.segments import pack_batch, unpack_batch

Made = tuple[str, bytes, int, bool]
"""Kind of step, topic, how many messages, and whether they have extras (or are recorded)."""

kinds = st.sampled_from(["publish", "numbered", "capture", "receive", "drop", "ask"])
made = st.tuples(kinds, st.sampled_from([b"a", b"b"]), st.integers(1, 3), st.booleans())


def build(steps: list[tuple[int, Made]]) -> PendingBatch:
    """The line with these steps, each with its number, which its content is made of."""
    group = PendingBatch()
    for number, (kind, topic, count, flag) in steps:
        _add(group, number, kind, topic, count, flag=flag)
    return group


def _add(
    group: PendingBatch, number: int, kind: str, topic: bytes, count: int, *, flag: bool
) -> None:
    batch = group.batch
    payloads = [b"%d.%d" % (number, n) for n in range(count)]
    extras = [Extras(headers=((b"h", b"%d" % number),))] * count if flag else None
    first = len(group.steps)
    if kind == "capture":
        batch.append(topic, payloads, 1, 0)
    elif kind in {"publish", "numbered"}:
        position = batch.append(topic, payloads, 1, 1, extras)
        command: Command = Published(topic, payloads, 1, False, position, 1, [])
        group.steps.append((command, number, True))
        place = len(batch.groups[topic].payloads) - count
        group.offset_waiters.append((topic, place, count, number, 1))
        if kind == "numbered":
            batch.add_producer_run(topic, place, count, b"p%d" % number, 1)
            group.bound.append(range(first, first + 1))
            batch.term = 3
    elif kind == "ask":
        group.steps.append((None, number, False))
    else:
        command = Received(b"c", [number]) if kind == "receive" else TopicGone(topic)
        if kind == "drop":
            batch.drop(topic)
        if kind == "drop" or flag:
            batch.add_event(to_event(command))
        group.steps.append((command, number, True))


def content(batch: Batch) -> tuple[object, ...]:
    """All that a batch has for the journal."""
    stored = unpack_batch(pack_batch(batch)) if batch.has_content else batch
    messages = {topic: group.payloads for topic, group in batch.groups.items()}
    beside = (batch.extras, batch.producers, set(batch.drops), batch.events)
    commands = [c for c in commands_of(batch) if not isinstance(c, Published)]
    payloads = [p for c in commands_of(stored) if isinstance(c, Published) for p in c.payloads]
    sizes = (batch.count, batch.payload_bytes, batch.term)
    return messages, beside, commands, payloads, sizes


@given(st.lists(made, max_size=12), st.data())
def test_each_part_is_as_if_the_other_had_not_come(steps: list[Made], data: st.DataObject) -> None:
    numbered = list(enumerate(steps))
    places = [number for number, step in numbered if step[0] != "capture"]
    void = data.draw(st.sets(st.sampled_from(places))) if places else set()
    parts = cut(build(numbered), {places.index(number) for number in void})
    kept = [step for step in numbered if step[0] not in void]
    gone = [step for step in numbered if step[0] in void]
    for part, expected in zip(parts, (build(kept), build(gone)), strict=True):
        assert part.steps == expected.steps
        assert part.offset_waiters == expected.offset_waiters
        assert part.bound_steps == expected.bound_steps
        assert content(part.batch) == content(expected.batch)
