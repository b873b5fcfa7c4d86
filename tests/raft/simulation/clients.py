"""Clients: they propose numbered values through whom they believe to lead, and ask for reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.raft.simulation.member import Member
    from tests.raft.simulation.world import World

INSIST_EVERY = 20


class Clients:
    """Values are never proposed twice, so that each is at most at one place, whatever happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = 0
        self._believed = 1
        self._quiet_from = 0
        self.last_quiet = 0
        """The last index acknowledged of those proposed since all is quiet."""

    def begin(self) -> None:
        self._world.every(self._world.profile.propose_every, self.propose)
        self._world.every(self._world.profile.read_every, self.read)

    def insist(self) -> None:
        """Go on without faults: propose now and then until somebody takes it."""
        self._quiet_from = self._quiet_from or self._numbers + 1
        self._world.at(INSIST_EVERY, self.insist)
        self.propose()

    def propose(self) -> None:
        member = self._whom()
        if member is None:
            return
        values = self._values()
        member.asked.update(dict.fromkeys(values, member.raw.term))
        try:
            member.feed(member.raw.propose, values if len(values) > 1 else values[0])
        except self._world.core.ProposalDropped:
            self._world.seen["proposals refused"] += 1
            for value in values:
                del member.asked[value]
            self._believed = member.raw.lead or 0
        else:
            self._world.note(member.id, "takes", values)

    def acknowledged(self, index: int, value: bytes) -> None:
        self._world.seen["proposals acknowledged"] += 1
        if self._quiet_from and int(value.split()[0]) >= self._quiet_from:
            self.last_quiet = index

    def _values(self) -> list[bytes]:
        """Return one value or several, some of them large for this world's limits."""
        random = self._world.random
        values = []
        for _ in range(random.choice((1, 1, 1, 3))):
            self._numbers += 1
            values.append(b"%d %b" % (self._numbers, b"." * random.choice((0, 10, 60))))
        return values

    def read(self) -> None:
        world = self._world
        if alive := world.alive():
            member = world.random.choice(world.leaders() or alive)
            self._numbers += 1
            context = b"read %d" % self._numbers
            member.reads[context] = world.oracle.acknowledged
            world.note(member.id, "is asked for a read", context)
            member.feed(member.raw.read_index, context)

    def _whom(self) -> Member | None:
        world = self._world
        believed = world.members.get(self._believed)
        is_followed = believed is not None and believed.raw is not None
        if is_followed and world.random.random() < 0.9:
            return believed
        alive = world.alive()
        return world.random.choice(alive) if alive else None
