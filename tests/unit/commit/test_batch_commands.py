"""A batch out of the log says the same as the commands that made it."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from penstock.commit.replay import commands_of, live_of
from penstock.core.commands import Closed, Published, to_event
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.segments import batch_of, spans


def closed(number):
    return Closed(b"c", number, 0)


def taken_apart(commands):
    """Each message by itself: runs may be cut or joined, the order may not change."""
    for command in commands:
        if isinstance(command, Published):
            for place, payload in enumerate(command.payloads):
                yield (command.topic, payload, command.qos, command.position + place)
        else:
            yield command


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from([0, 1, 2, 4])),
        st.just("event"),
    ),
    max_size=12,
)


@given(steps)
def test_commands_come_out_in_the_order_in_which_they_went_in(given_steps):
    batch, expected, live = Batch(), [], []
    for number, step in enumerate(given_steps):
        if step == "event":
            command = closed(number)
            batch.add_event(to_event(command))
            expected.append(command)
            continue
        (topic, flags), payload = step, b"%d" % number
        position = batch.append(topic, [payload], 1_000, flags)
        if flags:
            expected.append((topic, payload, flags & 3, position))
        if not flags & 3:
            live.append((topic, payload))
    store = MemoryStore()
    store.commit(batch)
    for entry in store.replay():
        (span,) = spans(entry)
        found = batch_of(entry, span)
        assert list(taken_apart(commands_of(found))) == expected
        passed = [
            (topic, payload) for topic, payloads, _, _ in live_of(found) for payload in payloads
        ]
        assert passed == live


def test_messages_that_came_together_are_one_command():
    batch = Batch()
    batch.append(b"a", [b"1", b"2", b"3"], 1_000, 1)
    (command,) = commands_of(batch)
    assert command == Published(b"a", [b"1", b"2", b"3"], 1, False, 0, 1_000, [])


def test_what_is_staged_is_passed_on_to_nobody():
    batch = Batch()
    batch.append(b"$stage/s/1/p", [b"1"], 1_000, 0)
    batch.append(b"a", [b"2"], 1_000, 0)
    assert [topic for topic, _ in groupby(live_of(batch), key=lambda run: run[0])] == [b"a"]
