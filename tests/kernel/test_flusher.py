"""Both forms of the flusher write the same outboxes, in the same order, at the same moments."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted

from penstock.kernel import flusher as compiled
from penstock.net import flusher as net

(python,) = interpreted("penstock.net.flusher")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["begin_turn", "end_turn", "hold", "loop"])),
        st.tuples(st.just("flush_soon"), st.sampled_from(["well", "faulty", "again"])),
        st.tuples(st.just("restore"), st.booleans()),
        st.tuples(st.just("release")),
        st.tuples(st.just("pass"), st.sampled_from([0.00001, 0.00004, 0.0002])),
        st.tuples(st.just("receive"), st.sampled_from([1, 20_000])),
    ),
    max_size=60,
)


class World:
    """A clock, a loop and outboxes, and what happened to them."""

    def __init__(self, module, logging, monkeypatch):
        self.now = 1.0
        self.happened = []
        self.due = []
        self.counters = SimpleNamespace(bytes_in_total=0)
        loop = SimpleNamespace(call_soon=self.due.append)
        self.flusher = module.Flusher(loop, lambda: self.now, self.counters)
        monkeypatch.setattr(module, "sleep", lambda s: self.happened.append(("nap", round(s, 9))))
        monkeypatch.setattr(logging, "_log", SimpleNamespace(exception=self.happened.append))

    def take(self, number, step):
        kind, *about = step
        if kind == "flush_soon":
            self.flusher.flush_soon(Outbox(self, number, *about))
        elif kind == "pass":
            self.now += about[0]
        elif kind == "receive":
            self.counters.bytes_in_total += about[0]
        elif kind == "loop":
            due, self.due[:] = self.due[:], []
            for call in due:
                call()
        elif kind == "release":
            self.flusher.release(self.now)
        else:
            self.happened.append(getattr(self.flusher, kind)(*about))

    @property
    def state(self):
        return self.happened, len(self.due), self.flusher.is_in_turn


class Outbox:
    def __init__(self, world, number, kind):
        self.world = world
        self.number = number
        self.kind = kind

    def flush(self):
        self.world.happened.append(("flushed", self.number, self.kind))
        if self.kind == "faulty":
            raise RuntimeError("a bug")
        if self.kind == "again":  # somebody is answered because this one has room
            self.world.flusher.flush_soon(Outbox(self.world, -self.number, "well"))


@given(STEPS)
def test_both_forms_flush_the_same_at_the_same_moments(steps):
    with pytest.MonkeyPatch.context() as monkeypatch:
        first, second = World(python, python, monkeypatch), World(compiled, net, monkeypatch)
        for number, step in enumerate(steps, 1):
            first.take(number, step)
            second.take(number, step)
            assert first.state == second.state


def test_the_bounds_are_the_same():
    for name in ("QUIET_S", "NAP_S", "NAP_BYTES_MAX"):
        assert getattr(python, name) == getattr(compiled, name)
