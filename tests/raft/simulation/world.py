"""One process, one seed: a queue of events in simulated time, and everything that they happen to.

Nothing here knows a clock, and every choice is drawn from one generator, so that a seed is a whole
history: the same seed and the same core give the same one, step by step.
"""

from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from penstock.raft.types import MessageKind
from tests.raft.simulation.clients import Clients
from tests.raft.simulation.core import Core
from tests.raft.simulation.disk import Disk, State
from tests.raft.simulation.faults import Faults
from tests.raft.simulation.member import Member
from tests.raft.simulation.network import Network
from tests.raft.simulation.operator import Operator
from tests.raft.simulation.oracle import Oracle, Violation
from tests.raft.simulation.profile import TICK, choose

BOOTSTRAP_INDEX = 1
BOOTSTRAP_TERM = 1
STORY_MAX = 400
"""How much of the past is kept, to be told if something is wrong."""
QUIET_TIMEOUTS = 150
"""How many election timeouts a cluster without faults may take until all have everything."""
QUIET_PER_ENTRY = 20
"""How long each entry may take in addition: in some worlds they are sent and applied one by one."""

Note = tuple[int, int, str, Any]


def _quiet(_level: str, _text: str) -> None:
    pass


class World:
    """The nodes, their network, clients, operator and bad luck."""

    def __init__(
        self,
        seed: int,
        core: Core,
        tell: Callable[[Note], None] | None = None,
        *,
        is_bold: bool = False,
    ) -> None:
        self.is_bold = is_bold
        self.random = Random(seed)
        self.core = core
        self.profile = choose(seed, self.random)
        self.seen: Counter[str] = Counter()
        self.story: deque[Note] = deque(maxlen=STORY_MAX)
        self._tell = tell
        self.now = 0
        self.is_quiet = False
        self.queue: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._count = 0
        self.members: dict[int, Member] = {}
        self._disks: dict[int, Disk] = {}
        self.bootstrap = self._bootstrap()
        self.oracle = Oracle(self._disks, self.bootstrap, self.seen)
        self.network = Network(self, self.random)
        self.clients = Clients(self)
        self.operator = Operator(self)
        self.faults = Faults(self)
        self._begin()

    def _bootstrap(self) -> Any:
        types = self.core.types
        voters = tuple(range(1, self.profile.nodes + 1))
        return types.SnapshotMeta(BOOTSTRAP_INDEX, BOOTSTRAP_TERM, types.ConfState(voters))

    def _begin(self) -> None:
        for node in self.bootstrap.conf_state.voters:
            self.add(node, self.bootstrap).start()
        for part in (self.clients, self.operator, self.faults):
            part.begin()

    # ── Events

    def at(self, delay: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Let something happen later; what is due at the same time happens in this order."""
        self._count += 1
        heappush(self.queue, (self.now + delay, self._count, function, arguments))

    def every(self, mean: int, function: Callable[[], Any]) -> None:
        """Let something happen over and over, at irregular times, until all is quiet."""
        self.at(self.random.randint(1, 2 * mean), self._again, mean, function)

    def _again(self, mean: int, function: Callable[[], Any]) -> None:
        if not self.is_quiet:
            self.every(mean, function)
            function()

    def step(self) -> None:
        self.now, _, function, arguments = heappop(self.queue)
        function(*arguments)

    def note(self, node: int, what: str, detail: Any = "") -> None:
        note = (self.now, node, what, detail)
        self.story.append(note)
        if self._tell is not None:
            self._tell(note)

    # ── Nodes

    def add(self, node: int, snapshot: Any = None) -> Member:
        disk = self._disks[node] = Disk(self.core.types, self.random, snapshot)
        member = self.members[node] = Member(self, node, disk, self.random.randint(8, 13))
        return member

    def new_core(self, member: Member) -> Any:
        """Return the core of a node as it is after a start."""
        profile = self.profile
        config = self.core.Config(
            node_id=member.id,
            election_ticks=profile.election_ticks,
            heartbeat_ticks=profile.heartbeat_ticks,
            bytes_per_message_max=profile.bytes_per_message_max,
            committed_bytes_per_ready_max=profile.committed_bytes_per_ready_max,
            uncommitted_bytes_max=profile.uncommitted_bytes_max,
            inflight_messages_max=profile.inflight_messages_max,
            inflight_bytes_max=profile.inflight_bytes_max,
            check_quorum=not profile.is_plain,
            pre_vote=not profile.is_plain,
            forwards_proposals=profile.forwards,
            tells_commits=self.is_bold,
            applied=member.disk.state.index,
            roll=self.random.randrange,
            trace=_quiet if self._tell is None else self._tracer(member.id),
        )
        return self.core.RawNode(config, member.disk)

    def _tracer(self, node: int) -> Callable[[str, str], None]:
        return lambda level, text: self.note(node, level, text)

    def revive(self, node: int) -> None:
        member = self.members[node]
        if member.raw is None and not member.is_gone:
            self.seen["restarts"] += 1
            member.start()

    def alive(self) -> list[Member]:
        return [member for member in self.members.values() if member.raw is not None]

    def leaders(self) -> list[Member]:
        """Return who believes to lead; there may be several, of different terms."""
        return [member for member in self.members.values() if member.is_leader()]

    def elected(self, member: Member) -> None:
        self.seen["elections"] += 1
        self.note(member.id, "leads", member.raw.term)
        self.operator.elected(member)

    # ── Messages

    def deliver(self, message: Any, state: State | None, incarnation: int) -> None:
        """A message arrives; ``incarnation`` is the sender's when it was sent."""
        member = self.members.get(message.to)
        if member is None or member.raw is None:
            self.network.lose(message, incarnation)
            return
        if self.now < member.stalled_until:
            self.at(member.stalled_until - self.now + 1, self.deliver, message, state, incarnation)
            return
        self.note(message.to, "hears", message)
        if message.kind == MessageKind.SNAPSHOT:
            sender = self.members[message.sender]
            self.at(1, sender.hears_of, incarnation, message.to, True, True)
        member.receive(message, state)

    # ── The end

    def settle(self) -> None:
        """End all faults: a leader must come forth, commit, and bring all up to date, in time."""
        self.is_quiet = True
        self.network.heal()
        for member in list(self.members.values()):
            member.stalled_until, member.disk_delay, member.next_sync = 0, 0, ""
            self.revive(member.id)
        backlog = max(member.log.last for member in self.members.values())
        patience = QUIET_TIMEOUTS * self.profile.election_ticks * TICK + QUIET_PER_ENTRY * backlog
        limit = self.now + patience
        began = len(self.oracle.committed)
        self.clients.insist()
        self.operator.insist()
        while not self._is_settled(began):
            if self.now > limit:
                raise Violation(f"no progress without faults: {self._standing()}")
            self.step()

    def _is_settled(self, began: int) -> bool:
        """Whether a proposal of the quiet time was acknowledged, and all have it."""
        index = self.clients.last_quiet
        if index < began:
            return False
        conf = self.oracle.states[-1].conf
        members = [self.members[node] for node in (*conf.voters, *conf.learners)]
        return all(member.has_all(index) for member in members if not member.is_gone)

    def _standing(self) -> str:
        lines = [f"committed {len(self.oracle.committed) - 1}, {self.oracle.states[-1].conf}"]
        for member in self.alive():
            raw = member.raw
            lines.append(
                f"{member.id}: role {raw.role}, term {raw.term}, lead {raw.lead}, commit "
                f"{raw.commit}, applied {member.applied}, last {raw.last_index}, {member.conf}"
            )
        return "\n  ".join(lines)
