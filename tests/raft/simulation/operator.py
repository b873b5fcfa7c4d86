"""The operator: changes members, one at a time, transfers leadership, compacts logs.

It keeps the rules that the broker's own commands keep. A node joins as a learner. A node whose disk
is lost never comes back under its id. Nothing is done that would leave too few nodes for a majority.
Nor is anything done that depends on the node that it is about, save in a *bold* world, whose nodes
tell each other what is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.raft.types import Role
from tests.raft.simulation.core import CONF_CHANGES

if TYPE_CHECKING:
    from tests.raft.simulation.member import Member
    from tests.raft.simulation.world import World

MEMBERS_MAX = 6
TIDY_EVERY = 50


class Operator:
    """Acts through a node that believes to lead, which may be wrong."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._kinds = world.core.types.ConfChangeKind
        self._newcomers: list[int] = []
        """Nodes that run and wait to be let in."""
        self._transfer: tuple[int, int] = (0, 0)
        """The target of the last leadership transfer, and the term of the leader."""

    def begin(self) -> None:
        profile = self._world.profile
        self._world.every(profile.change_every, self.act)
        self._world.every(profile.compact_every, self.compact)
        self._world.every(TIDY_EVERY, self.tidy)

    def insist(self) -> None:
        """Go on shutting down who was removed: without pre-vote, they disturb the others."""
        self._world.at(TIDY_EVERY, self.insist)
        self.tidy()

    def act(self) -> None:
        if leaders := self._world.leaders():
            change = self._random.choice(self._world.profile.changes)
            getattr(self, change)(self._random.choice(leaders))

    # ── Changes of the configuration

    def add_learner(self, leader: Member) -> None:
        conf = leader.conf
        known = {*conf.voters, *conf.learners}
        self._newcomers = [n for n in self._newcomers if n not in known and not self._is_gone(n)]
        if len(conf.voters) + len(conf.learners) < MEMBERS_MAX:
            self._propose(leader, self._kinds.ADD_LEARNER, self._newcomer())

    def promote(self, leader: Member) -> None:
        learners = [node for node in leader.conf.learners if not self._is_gone(node)]
        if learners:
            self._propose(leader, self._kinds.ADD_NODE, self._random.choice(learners))

    def remove(self, leader: Member) -> None:
        """Remove a node, first of all one that is gone."""
        nodes = [*leader.conf.voters, *leader.conf.learners]
        gone = [node for node in nodes if self._is_gone(node)]
        self._propose(leader, self._kinds.REMOVE_NODE, self._random.choice(gone or nodes))

    def _newcomer(self) -> int:
        """Return a node that waits to be let in; start one if there is none."""
        if not self._newcomers:
            node = max(self._world.members) + 1
            self._world.add(node).start()
            self._newcomers.append(node)
        return self._newcomers[0]

    def _propose(self, leader: Member, kind: Any, node: int) -> None:
        world = self._world
        is_single = self._random.random() < 0.5
        change = world.core.types.ConfChange(steps=((kind, node),), is_single=is_single)
        after = world.core.configuration_after(leader.conf, change)
        is_first = len(leader.conf.voters) == 1 and kind != self._kinds.REMOVE_NODE
        can_commit = self._is_possible if world.is_bold else self._has_majority
        if not is_first and not all(can_commit(c, node) for c in (leader.conf, after)):
            return
        leader.has_change = True
        world.note(leader.id, "is asked for", change)
        try:
            leader.feed(leader.raw.propose_conf_change, change)
        except world.core.ProposalDropped:
            world.seen["conf changes refused"] += 1

    # ── Leadership

    def transfer(self, leader: Member) -> None:
        target = self._random.choice(leader.conf.voters)
        self._transfer = (target, leader.raw.term)
        self._world.note(leader.id, "is asked to give the lead to", target)
        leader.feed(leader.raw.transfer_leader, target)

    def elected(self, member: Member) -> None:
        if self._transfer == (member.id, member.raw.term - 1):
            self._world.seen["transfers"] += 1

    def forget_leader(self, _: Member) -> None:
        followers = [m for m in self._world.alive() if m.raw.role == Role.FOLLOWER]
        if followers:
            member = self._random.choice(followers)
            member.feed(member.raw.forget_leader)

    # ── Disks and nodes

    def compact(self) -> None:
        """Forget entries that are durably applied; who needs them still gets a snapshot."""
        if alive := self._world.alive():
            member = self._random.choice(alive)
            index = member.applied - self._random.choice((0, 0, 2, 10))
            if index > member.disk.log.base:
                member.disk.compact(index)
                self._world.seen["compactions"] += 1
                self._world.note(member.id, "compacts to", index)

    def tidy(self) -> None:
        """Shut down removed nodes, as soon as no node can need them."""
        conf = self._world.oracle.states[-1].conf
        known = {*conf.voters, *conf.learners, *self._newcomers}
        for member in self._world.members.values():
            if member.id not in known and not member.is_gone and self.can_spare(member.id):
                self.discard(member)
                self._world.seen["removed nodes shut down"] += 1

    def discard(self, member: Member) -> None:
        member.crash()
        member.is_gone = True
        self._world.note(member.id, "is gone")

    def can_spare(self, node: int) -> bool:
        """Whether all goes on without a node, whichever configuration the others believe in.

        While a change is under way nobody can tell what the configuration will be.
        """
        others = [m for m in self._world.members.values() if not m.is_gone and m.id != node]
        confs = [self._world.oracle.states[-1].conf]
        for member in others:
            confs += [member.conf, member.disk.state.conf]
        return all(self._has_majority(c, node) for c in confs if c.voters) and not self._is_busy()

    def _has_majority(self, conf: Any, without: int = 0) -> bool:
        """Whether a configuration has a majority of nodes that will vote and may lead, without one.

        One that was removed and knows it, or was promoted and does not know it yet, never leads; if
        its log is longer than those of the others, it votes for none of them, either. So nothing
        may depend on the node that a change is about, neither before the change nor after it.
        """
        return 2 * len([n for n in conf.voters if n != without and self._votes(n)]) > len(
            conf.voters
        )

    def _is_possible(self, conf: Any, _node: int) -> bool:
        """Whether a configuration has a majority of nodes that are there at all."""
        return 2 * len([n for n in conf.voters if not self._is_gone(n)]) > len(conf.voters)

    def _votes(self, node: int) -> bool:
        member = self._world.members[node]
        return not member.is_gone and node in member.disk.state.conf.voters

    def _is_gone(self, node: int) -> bool:
        return self._world.members[node].is_gone

    def _is_busy(self) -> bool:
        """Whether a change is in some log, or in flight to one, that no node has applied yet."""
        world = self._world
        applied = len(world.oracle.states) - 1
        members = world.members.values()
        if any(member.has_change and not member.is_gone for member in members):
            return True
        logs = [entry for member in members for entry in member.log.after(applied)]
        flying = [
            entry
            for _, _, function, arguments in world.queue
            if function == world.deliver
            for entry in arguments[0].entries
            if entry.index > applied
        ]
        return any(entry.kind in CONF_CHANGES for entry in logs + flying)
