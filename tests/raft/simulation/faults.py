"""Bad luck: crashes, stalls, cuts and failing disks, as often and of such kinds as the seed says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.raft.simulation.profile import TICK

if TYPE_CHECKING:
    from tests.raft.simulation.member import Member
    from tests.raft.simulation.world import World

LONGEST_TIMEOUTS = 3
"""How many election timeouts a fault lasts at most: with longer ones, hardly anything happens."""


class Faults:
    """Each method but the first is a fault; its name is what a profile calls it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._longest = LONGEST_TIMEOUTS * world.profile.election_ticks * TICK

    def begin(self) -> None:
        self._world.every(self._world.profile.fault_every, self.strike)

    def strike(self) -> None:
        alive = self._world.alive()
        if alive:
            fault = self._random.choice(self._world.profile.faults)
            getattr(self, fault)(self._random.choice(alive))
            self._world.seen[fault] += 1

    # ── Processes

    def crash(self, member: Member) -> None:
        member.crash()
        self._later(self._world.revive, member.id)

    def crash_all(self, _: Member) -> None:
        for member in self._world.alive():
            self.crash(member)

    def crash_leader(self, member: Member) -> None:
        self.crash(self._random.choice(self._world.leaders() or [member]))

    def stall(self, member: Member) -> None:
        """Stop a process for some time; what arrives waits for it."""
        member.stalled_until = self._world.now + self._while()
        self._world.note(member.id, "stalls until", member.stalled_until)

    def campaign(self, member: Member) -> None:
        member.feed(member.raw.campaign)

    # ── Links

    def partition(self, _: Member) -> None:
        self._world.network.partition(self._ids())
        self._cut()

    def cut_leader(self, member: Member) -> None:
        leader = self._random.choice(self._world.leaders() or [member])
        self._world.network.cut_off(leader.id, self._ids())
        self._cut(longer=2)

    def isolate(self, _: Member) -> None:
        self._world.network.isolate(self._ids())
        self._cut()

    def replay(self, _: Member) -> None:
        self._world.network.replay()

    def cut_one_way(self, _: Member) -> None:
        self._world.network.cut_one_way(self._ids())
        self._cut()

    def _ids(self) -> list[int]:
        return [node for node, member in self._world.members.items() if not member.is_gone]

    def _cut(self, longer: int = 1) -> None:
        self._world.note(0, "cut", sorted(self._world.network.cut))
        self._world.at(longer * self._while(), self._world.network.heal)

    # ── Disks

    def disk_full(self, member: Member) -> None:
        member.next_sync = "full"

    def sync_error(self, member: Member) -> None:
        member.next_sync = "error"

    def slow_disk(self, member: Member) -> None:
        member.disk_delay = self._random.choice((10, 40))
        self._later(setattr, member, "disk_delay", 0)

    def lose_disk(self, member: Member) -> None:
        """Lose a disk, if a majority of whatever may be the configuration is left."""
        if self._world.operator.can_spare(member.id):
            self._world.operator.discard(member)
            self._world.seen["disks lost"] += 1

    def _later(self, function: object, *arguments: object) -> None:
        self._world.at(self._while(), function, *arguments)

    def _while(self) -> int:
        """Return how long something lasts: less than a tick, or several election timeouts."""
        return self._random.randint(1, self._longest)
