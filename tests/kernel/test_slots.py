"""What the kernel reads from slots is what anybody reads, whatever the types of the objects."""

from types import SimpleNamespace

import pytest
from tests.kernel.output_world import output_world
from tests.kernel.test_output_queue import Transport

from penstock.kernel.output_queue import OutputQueue
from penstock.net.budget import Budget
from penstock.obs.counters import Counters

ROUNDS = 200  # types take turns more often than the kernel learns them anew


class Slotted:
    __slots__ = ("budget", "counters", "flusher")

    def __init__(self):
        self.budget = Budget(1_000, lambda _call: None)
        self.counters = Counters()
        self.flusher = SimpleNamespace(flush_soon=lambda _queue: None)


class Inherited(Slotted):
    __slots__ = ("another",)


class Computed:
    def __init__(self):
        self.inner = output_world()

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Watched(Counters):
    __slots__ = ("changes",)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "bytes_out_total" and hasattr(self, "changes"):
            self.changes.append(value)


class Shifted(Counters):
    __slots__ = ()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return found + 1_000 if name == "bytes_out_total" else found


def test_who_sees_to_attributes_itself_is_asked():
    world = output_world()
    queue = OutputQueue(world, Transport())
    world.counters = watched = Watched()
    watched.changes = []
    for _ in range(3):
        queue.send_live(1, b"four")
        queue.flush()
    assert watched.changes == [4, 8, 12]
    world.counters = shifted = Shifted()
    for _ in range(2):
        queue.send_live(1, b"four")
        queue.flush()
    assert shifted.bytes_out_total == 3_008


def test_each_world_counts_its_own_however_they_take_turns():
    worlds = [output_world(), Slotted(), Inherited(), Computed()]
    queues = [OutputQueue(world, Transport()) for world in worlds]
    for number in range(ROUNDS):
        for place, queue in enumerate(queues):
            queue.send_live(place + 1, b"x" * (number + place))
            queue.flush()
    for place, world in enumerate(worlds):
        sent = sum(number + place for number in range(ROUNDS))
        assert world.counters.bytes_out_total == sent
        assert world.counters.messages_out_total == [(place + 1) * ROUNDS, 0, 0]


def test_an_attribute_that_was_deleted_is_missed():
    world = Slotted()
    queue = OutputQueue(world, Transport())
    queue.send_live(1, b"first")
    queue.flush()
    del world.counters
    queue.send_live(1, b"second")
    with pytest.raises(AttributeError, match="counters"):
        queue.flush()
