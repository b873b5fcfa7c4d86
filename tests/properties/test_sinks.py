"""The fold of sinks: deterministic, the same after any checkpoint, and each epoch once."""

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.commands import (
    SinkAdvanced,
    SinkBegan,
    SinkEnded,
    SinkForgotten,
    from_event,
    to_event,
)
from penstock.core.sinks import Sinks

names = st.sampled_from([b"a", b"a/b"])
epochs = st.integers(0, 2)
counts = st.integers(0, 3)
commands = st.one_of(
    st.builds(SinkBegan, names, epochs, st.just([(b"p", 2)]), st.sampled_from([b"", b"n"])),
    st.builds(SinkAdvanced, names, epochs, counts, st.tuples(counts, counts, counts)),
    st.builds(SinkEnded, names, epochs, counts, st.integers(1, 9)),
    st.builds(SinkForgotten, names),
)
histories = st.lists(commands, max_size=40)
late = [SinkBegan(b"a", 0, [], b""), SinkEnded(b"a", 0, 1, 2)]
"""An epoch that arrives after a greater one, from a driver that was presumed dead."""


def folded(history):
    sinks = Sinks()
    for index, command in enumerate(history, start=1):
        sinks.apply(command, index, recovering=False)
    return sinks


def shown(sinks):
    """Return the state, except for which entries the rows contain."""
    rows = {}
    for sink in sinks:
        sinks.row(sink.name, 0)
        rows[sink.name] = repr(sink)
    return rows


@given(commands)
def test_a_command_comes_back_from_the_journal_as_it_was(command):
    assert from_event(to_event(command)) == command


def recovered(history, mark, writes):
    """What a start finds: rows of the mark and of some moments after it, then the entries since."""
    sinks, rows = Sinks(), {}
    for index, command in enumerate([None, *history]):
        if command is not None:
            sinks.apply(command, index, recovering=False)
        if index == mark or (index > mark and index in writes):
            dirty, sinks.dirty = sinks.dirty, {}
            rows |= {name: sinks.row(name, index, mark) for name in dirty}
    again = Sinks()
    for row in filter(None, rows.values()):
        again.load(row)
    for index, command in enumerate(history[mark:], start=mark + 1):
        again.apply(command, index, recovering=True)
    return again


refused = [
    SinkBegan(b"a", 0, [], b""), SinkBegan(b"a", 1, [], b""), SinkEnded(b"a", 0, 1, 1),
    SinkForgotten(b"a"),
]  # fmt: skip
"""An epoch begins while another one is under way, which is void; then the sink is forgotten."""


@given(histories, st.integers(0, 40), st.sets(st.integers(1, 40)))
@example(refused, 1, {4})
@example([*refused, SinkBegan(b"a", 0, [], b"")], 1, {4})
@example([*refused, SinkBegan(b"a", 0, [], b"")], 1, {5})
def test_rows_of_any_moment_and_the_entries_after_an_earlier_mark_give_the_same_state(
    history, mark, writes
):
    """A row is the truth of the moment it is taken; replay begins before any of them."""
    mark = min(mark, len(history))
    assert shown(recovered(history, mark, writes)) == shown(folded(history))


@given(histories)
@example([SinkBegan(b"a", 1, [], b""), SinkEnded(b"a", 1, 1, 1), *late])
def test_epochs_rise_and_count_what_they_published(history):
    sinks, last, published = Sinks(), {}, {}
    for index, command in enumerate(history, start=1):
        before = sinks.get(command.sink)
        under_way = before.committing if before else None
        so_far = under_way.messages if under_way else 0
        is_changed = sinks.apply(command, index, recovering=False)
        sink = sinks.get(command.sink)
        if isinstance(command, SinkForgotten) and is_changed:
            last.pop(command.sink, None)
            published.pop(command.sink, None)
        if isinstance(command, SinkEnded) and is_changed:
            assert command.epoch > last.get(command.sink, -1)
            assert sink.epoch_messages == so_far + command.count
            last[command.sink] = sink.epoch
            published[command.sink] = published.get(command.sink, 0) + sink.epoch_messages
        if sink is not None:
            assert sink.epoch == last.get(command.sink, -1)
            assert sink.messages == published.get(command.sink, 0)


@given(histories)
def test_a_decision_is_followed_by_nothing_but_its_end(history):
    sinks = Sinks()
    for index, command in enumerate(history, start=1):
        before = sinks.get(command.sink)
        decided = before.committing.epoch if before and before.committing else None
        sinks.apply(command, index, recovering=False)
        after = sinks.get(command.sink)
        if decided is not None:
            is_end = isinstance(command, SinkEnded) and command.epoch == decided
            assert after is not None
            assert (after.epoch if is_end else after.committing.epoch) == decided
