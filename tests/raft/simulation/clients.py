"""Clients: they propose numbered values through whom they believe to lead, and ask for reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.raft.simulation.member import Member
    from tests.raft.simulation.world import World

INSIST_EVERY = 20
COUNT = 3
PATIENCE = 60
"""How long a client keeps trying a node that does not answer."""


class Clients:
    """Values are never proposed twice, so that each is at most at one place, whatever happens.

    Each client has a leader of its own in mind. So a leader that was cut off goes on taking what it
    can not commit, while others are acknowledged elsewhere.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = 0
        self._believed = [(1, 0)] * COUNT
        """Whom each client takes for the leader, and until when."""
        self._quiet_from = 0
        self.last_quiet = 0
        """The last index acknowledged of those proposed since all is quiet."""

    def begin(self) -> None:
        self._world.every(self._world.profile.propose_every, self.propose)
        self._world.every(self._world.profile.read_every, self.read)

    def insist(self) -> None:
        """Continue without faults: propose now and then until it is accepted."""
        self._quiet_from = self._quiet_from or self._numbers + 1
        self._world.at(INSIST_EVERY, self.insist)
        self.propose()

    def propose(self) -> None:
        client = self._world.random.randrange(COUNT)
        member = self._whom(client)
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
            self._believe(client, member.raw.lead)
        else:
            self._world.note(member.id, "takes", values)

    def _whom(self, client: int) -> Member | None:
        """Return the node to ask: the presumed leader, or after a while any node."""
        world = self._world
        node, until = self._believed[client]
        believed = world.members.get(node)
        if believed is not None and believed.raw is not None and world.now < until:
            return believed
        if alive := world.alive():
            member = world.random.choice(alive)
            self._believe(client, member.id)
            return member
        return None

    def _believe(self, client: int, node: int) -> None:
        self._believed[client] = (node, self._world.now + self._world.random.randint(1, PATIENCE))

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
            # Who leads in an old term may not know that others have committed more.
            leaders = sorted(world.leaders(), key=lambda member: member.raw.term)
            member = leaders[0] if leaders else world.random.choice(alive)
            self._numbers += 1
            context = b"read %d" % self._numbers
            member.reads[context] = world.oracle.acknowledged
            world.note(member.id, "is asked for a read", context)
            member.feed(member.raw.read_index, context)
