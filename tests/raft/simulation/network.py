"""A simulated network: messages are lost, doubled, late, out of order; links are cut, also one way."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.raft.types import MessageKind

if TYPE_CHECKING:
    from random import Random

    from tests.raft.simulation.disk import State
    from tests.raft.simulation.world import World

KEPT = 300
"""How many messages are kept to be sent again long after."""
LATE = (30, 600)
"""How long a late message takes: up to many election timeouts."""


class Network:
    """Decides what becomes of a message when it is sent."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self.cut: set[tuple[int, int]] = set()
        """Links without passage, as (from, to)."""
        self._old: deque[tuple[Any, State | None, int]] = deque(maxlen=KEPT)

    def send(self, message: Any, state: State | None, incarnation: int) -> None:
        """Send a message; that of a snapshot has the state with it."""
        world, random = self._world, self._random
        if world.is_quiet:
            world.at(1, world.deliver, message, state, incarnation)
            return
        profile = world.profile
        if (message.sender, message.to) in self.cut or random.random() < profile.drop:
            self.lose(message, incarnation)
            return
        self._old.append((message, state, incarnation))
        world.at(self._delay(), world.deliver, message, state, incarnation)
        if random.random() < profile.duplicate:
            world.seen["messages doubled"] += 1
            world.at(self._delay(), world.deliver, message, state, incarnation)

    def _delay(self) -> int:
        if self._random.random() < self._world.profile.far:
            return self._random.randint(*LATE)
        return self._random.randint(1, self._world.profile.jitter)

    def lose(self, message: Any, incarnation: int) -> None:
        """The sender finds out that a snapshot did not arrive, and sometimes of other messages."""
        world = self._world
        world.seen["messages lost"] += 1
        world.note(message.sender, "lost", message)
        is_snapshot = message.kind == MessageKind.SNAPSHOT
        if is_snapshot or self._random.random() < 0.1:
            sender = world.members[message.sender]
            world.at(1, sender.hears_of, incarnation, message.to, is_snapshot)

    def replay(self) -> None:
        """Deliver some messages again, from terms that may be long over."""
        for old in self._random.sample(self._old, min(30, len(self._old))):
            self._world.at(self._delay(), self._world.deliver, *old)

    # ── Cuts

    def partition(self, ids: list[int]) -> None:
        """Cut the nodes in two, so that no message passes between the halves."""
        some = set(self._random.sample(ids, self._random.randint(1, max(1, len(ids) - 1))))
        self.cut |= {(a, b) for a in ids for b in ids if (a in some) != (b in some)}

    def cut_off(self, node: int, ids: list[int]) -> None:
        """Cut one node from the others, or with few enough companions to be no majority."""
        others = [other for other in ids if other != node]
        few = self._random.sample(others, self._random.randint(0, max(0, (len(ids) - 1) // 2 - 1)))
        some = {node, *few}
        self.cut |= {(a, b) for a in ids for b in ids if (a in some) != (b in some)}

    def isolate(self, ids: list[int]) -> None:
        """Cut off one node: incoming, outgoing, or both."""
        one = self._random.choice(ids)
        ways = self._random.choice((("in",), ("out",), ("in", "out")))
        if "in" in ways:
            self.cut |= {(other, one) for other in ids if other != one}
        if "out" in ways:
            self.cut |= {(one, other) for other in ids if other != one}

    def cut_one_way(self, ids: list[int]) -> None:
        self.cut.add((self._random.choice(ids), self._random.choice(ids)))

    def heal(self) -> None:
        self.cut.clear()
