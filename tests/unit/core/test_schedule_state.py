"""The state of schedules: what commands do, bounds, rows, replay."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from penstock.core import schedules as module
from penstock.core.broker import Broker
from penstock.core.commands import (
    Command,
    ScheduleCancelled,
    ScheduleFired,
    ScheduleMade,
    from_event,
    to_event,
)
from penstock.core.effects import Effects, ScheduleChanged
from penstock.core.schedules import DONE, EXISTS, OWNERLESS, UNKNOWN, Schedules
from penstock.core.stale_publishes import is_stale, makes_stale, may_be_stale
from penstock.core.tables import Moment, tables_of
from penstock.model.schedule import EVERY, ScheduledMessage, Timing
from penstock.obs.counters import Counters

TIMING = Timing(EVERY, interval_ms=1_000)


def made(name: bytes = b"a", payload: bytes = b"x", user: str = "") -> ScheduleMade:
    message = ScheduledMessage(b"t", payload)
    return ScheduleMade(name, TIMING, message, "once", user, (), "", 500, 1_000)


def fired(due_ms: int, next_ms: int, revision: int = 1, name: bytes = b"a") -> ScheduleFired:
    now_ms = due_ms + 1
    return ScheduleFired(
        name, revision, due_ms, due_ms, now_ms, next_ms, published=1, refused=0, skipped=0
    )


def applied(*commands: Command) -> Schedules:
    schedules = Schedules()
    for index, command in enumerate(commands, 1):
        schedules.apply(command, index, recovering=False)  # type: ignore[arg-type]
    return schedules


def test_a_firing_moves_the_schedule_on_and_is_made_once():
    schedules = applied(made(), fired(1_000, 2_000), fired(1_000, 2_000), fired(2_000, 3_000))
    schedule = schedules.by_name[b"a"]
    assert (schedule.next_ms, schedule.published) == (3_000, 2)


def test_a_firing_of_a_former_schedule_of_that_name_is_void():
    schedules = applied(made(), ScheduleCancelled(b"a"), made(), fired(1_000, 2_000, revision=1))
    assert schedules.by_name[b"a"].published == 0


def test_an_active_schedule_is_not_replaced_and_one_that_is_done_is():
    schedules = applied(made())
    assert schedules.apply(made(payload=b"y"), 2, recovering=False) == EXISTS
    schedules.apply(fired(1_000, 0), 3, recovering=False)
    assert schedules.by_name[b"a"].state == DONE
    assert not schedules.apply(made(payload=b"z"), 4, recovering=False)
    assert schedules.by_name[b"a"].message.payload == b"z"


def test_what_does_not_exist_cannot_be_cancelled():
    assert applied().apply(ScheduleCancelled(b"a"), 1, recovering=False) == UNKNOWN


def test_number_and_bytes_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "SCHEDULES_MAX", 2)
    schedules = applied(made(b"a"), made(b"b"))
    assert schedules.apply(made(b"c"), 3, recovering=False) == module.TOO_MANY
    schedules.apply(ScheduleCancelled(b"b"), 4, recovering=False)
    monkeypatch.setattr(module, "SCHEDULES_BYTES_MAX", 10)
    assert schedules.apply(made(b"c", b"x" * 9), 5, recovering=False) == module.TOO_LARGE
    assert not schedules.apply(made(b"c", b"x" * 7), 6, recovering=False)


def test_of_those_that_fire_no_more_the_last_ones_stay_listed(monkeypatch):
    monkeypatch.setattr(module, "FINISHED_MAX", 1)
    schedules = applied(made(b"a"), made(b"b"), fired(1_000, 0), fired(1_000, 0, 2, b"b"))
    assert list(schedules.by_name) == [b"b"]
    assert b"a" in schedules.dirty


def test_schedules_of_a_deleted_user_end():
    schedules = applied(made(b"a", user="ann"), made(b"b", user="bob"))
    schedules.forget_user("ann", 3, recovering=False)
    assert (schedules.by_name[b"a"].state, schedules.by_name[b"a"].next_ms) == (OWNERLESS, 0)
    assert schedules.by_name[b"b"].next_ms == 1_000


def test_commands_are_read_from_the_journal_as_they_were_written():
    for command in (made(), fired(1_000, 2_000), ScheduleCancelled(b"a")):
        assert from_event(to_event(command)) == command


def test_whoever_waits_for_the_next_firing_hears_of_each_change():
    broker, effects = Broker(Counters()), Effects()
    broker.apply(made(), None, effects)
    assert effects.controls == [ScheduleChanged(b"a")]


# ── rows and replay ───────────────────────────────────────────────────────────────────────────


def rows_of(broker: Broker) -> list[tuple[bytes, bytes]]:
    table = next(one for one in tables_of(broker) if one.name == "schedules")
    table.begin_round()
    return [(key, row) for _, key, row in table.take(1_000, Moment(0, 0)) if row is not None]


def broker_after(commands: Iterable[Command]) -> Broker:
    broker = Broker(Counters())
    for index, command in enumerate(commands, 1):
        broker.begin(index, 0)
        broker.apply(command, None, Effects())
    return broker


HISTORY: list[Command] = [
    made(b"a"),
    made(b"b"),
    fired(1_000, 2_000),
    made(b"a", b"void"),
    ScheduleCancelled(b"a"),
    made(b"a", b"new"),
    fired(1_000, 0, 2, b"b"),
    made(b"b", b"again"),
    fired(1_000, 3_000, 6),
]


@pytest.mark.parametrize("until", range(len(HISTORY) + 1))
@pytest.mark.parametrize("back", range(3))
def test_rows_and_the_entries_after_them_give_the_same_state(until, back):
    """Also if replay begins before the rows, as with ``durability = "interval"``."""
    broker = Broker(Counters())
    for table in tables_of(broker):
        if table.name == "schedules":
            rows = rows_of(broker_after(HISTORY[:until]))
            table.load(lambda _name, rows=rows: rows)
    broker.begin_recovery()
    begin = max(until - back, 0)
    for index, command in enumerate(HISTORY[begin:], begin + 1):
        broker.begin(index, 0)
        broker.apply(command, None, Effects())
    assert broker.schedules.by_name == broker_after(HISTORY).schedules.by_name


# ── twice in the log ──────────────────────────────────────────────────────────────────────────


def events(*commands: Command) -> list[tuple[int, tuple[object, ...]]]:
    return [(0, to_event(command)) for command in commands]  # type: ignore[arg-type]


def test_a_firing_that_was_made_is_stale():
    schedules = applied(made(), fired(1_000, 2_000))
    assert is_stale(events(fired(1_000, 2_000)), {}, schedules)
    assert not is_stale(events(fired(2_000, 3_000)), {}, schedules)
    assert is_stale(events(replace(fired(2_000, 3_000), revision=9)), {}, schedules)
    assert is_stale(events(fired(2_000, 3_000, name=b"gone")), {}, schedules)


def test_a_firing_waits_for_what_may_have_made_it():
    for command in (made(), fired(1_000, 2_000), ScheduleCancelled(b"a")):
        assert makes_stale(events(command))
    assert may_be_stale(events(fired(1_000, 2_000)))
    assert not may_be_stale(events(made()))
