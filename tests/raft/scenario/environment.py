"""The participants, and the messages that are under way between them.

A message lies here until a script has it delivered or dropped; nothing moves by itself.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from penstock.raft.conf_entries import decode_change
from penstock.raft.config import RaftConfig
from penstock.raft.errors import ProposalDropped
from penstock.raft.raw_node import RawNode
from penstock.raft.ready import Ready
from penstock.raft.types import EntryKind, MessageKind, NodeId, RaftEntry, RaftMessage, Role
from tests.raft.scenario import describe, threads
from tests.raft.scenario.output import Output
from tests.raft.scenario.storage import MemoryLog
from tests.raft.scenario.threads import Echo, Work


class Node:
    """One participant with its disk. ``is_async``: writing and applying run in separate threads."""

    def __init__(self, config: RaftConfig, log: MemoryLog, *, is_async: bool) -> None:
        self.id = config.node_id
        self.config = config
        self.log = log
        self.is_async = is_async
        self.raw = RawNode(config, log)
        self.append_work: deque[Work] = deque()
        self.apply_work: deque[Work] = deque()

    def is_voter(self) -> bool:
        conf = self.raw.status().conf_state
        return self.id in (*conf.voters, *conf.voters_outgoing)

    def progress(self) -> list[tuple[NodeId, str]]:
        """What it knows of all, if it leads."""
        if self.raw.role is not Role.LEADER:
            return []
        return [(peer, str(found)) for peer, found in self.raw.node.tracker.visit()]

    def set_election_timeout(self, ticks: int) -> None:
        self.raw.node.randomized_election_ticks = ticks

    def restart(self) -> None:
        """Lose all that is not on the disk: what threads were given, too."""
        self.append_work.clear()
        self.apply_work.clear()
        self.log.note_applied()
        config = replace(self.config, applied=self.log.snapshot().index)
        self.raw = RawNode(config, self.log)

    def write(self, batch: Ready) -> None:
        self.log.write(batch.hard_state, batch.entries, batch.snapshot)

    def apply(self, entries: Iterable[RaftEntry]) -> None:
        for entry in entries:
            if entry.index <= self.log.snapshot().index:
                continue  # a snapshot has overtaken it
            state = None
            if entry.kind is not EntryKind.NORMAL:
                state = self.raw.apply_conf_change(decode_change(entry))
            self.log.applied(entry, state)


class Environment:
    """All participants by number, from 1 on, and what they have sent."""

    def __init__(self) -> None:
        self.output = Output()
        self.nodes: dict[NodeId, Node] = {}
        self.messages: list[RaftMessage | Echo] = []

    def process_ready(self, node: Node) -> None:
        """Take a batch and do what it says; with threads, give it to them."""
        batch = node.raw.ready()
        if node.is_async:
            self._hand_over(node, batch)
        else:
            self._carry_out(node, batch)

    def _carry_out(self, node: Node, batch: Ready) -> None:
        sent = [*batch.messages, *(m for m in batch.after_persist if m.to != node.id)]
        self.output.say(describe.ready(batch, [describe.message(m) for m in sent]))
        node.write(batch)
        node.apply(batch.committed)
        self.messages += sent
        node.raw.persisted(batch.mark)
        if batch.committed:
            node.raw.applied(batch.committed[-1].index)

    def _hand_over(self, node: Node, batch: Ready) -> None:
        texts = [describe.message(m) for m in batch.messages]
        if append := threads.append_work(node.id, node.raw, batch):
            texts.append(append.described())
            node.append_work.append(append)
        if apply := threads.apply_work(node.id, node.raw, batch):
            texts.append(apply.described())
            node.apply_work.append(apply)
        self.output.say(describe.ready(batch, texts))
        self.messages += batch.messages

    def process_append(self, node: Node) -> None:
        if not node.append_work:
            self.output.say("no append work to perform")
            return
        work = node.append_work.popleft()
        self._process(work, lambda: node.write(work.batch))

    def process_apply(self, node: Node) -> None:
        if not node.apply_work:
            self.output.say("no apply work to perform")
            return
        work = node.apply_work.popleft()
        self._process(work, lambda: node.apply(work.batch.committed))

    def _process(self, work: Work, carry_out: Callable[[], None]) -> None:
        self.output.say(f"Processing:\n{work.text}")
        carry_out()
        self.output.say("\n".join(["Responses:", *map(threads.text_of, work.responses)]))
        self.messages += work.responses

    def deliver(self, to: NodeId, kind: MessageKind | None = None) -> int:
        taken = self._take(lambda sent: _is_for(sent, to, kind))
        for sent in taken:
            self.output.say(threads.text_of(sent))
            self._step(self.nodes[to].raw, sent)
        return len(taken)

    def drop(self, to: NodeId, kind: MessageKind | None = None) -> int:
        """Lose messages. What a node says to itself is never lost."""
        lost = self._take(lambda sent: _is_for(sent, to, kind) and _may_get_lost(sent))
        for sent in lost:
            self.output.say(f"dropped: {threads.text_of(sent)}")
        return len(lost)

    def restart(self, node: Node) -> None:
        """The node loses its memory; what others sent to it is still under way."""
        self._take(lambda sent: sent.to == node.id and not _may_get_lost(sent))
        node.restart()

    def _take(self, is_wanted: Callable[[RaftMessage | Echo], bool]) -> list[RaftMessage | Echo]:
        taken = [sent for sent in self.messages if is_wanted(sent)]
        self.messages = [sent for sent in self.messages if not is_wanted(sent)]
        return taken

    def _step(self, raw: RawNode, sent: RaftMessage | Echo) -> None:
        """Our core ignores what etcd's refuses with an error; the error is printed all the same."""
        message = sent.own if isinstance(sent, Echo) else sent
        if message is not None and _is_from_a_stranger(raw, message):
            self.output.say("raft: cannot step as peer not found")
        elif isinstance(sent, Echo):
            sent.tell()
        elif sent.kind is MessageKind.PROPOSE:
            self._step_proposal(raw, sent)
        else:
            raw.step(sent)

    def _step_proposal(self, raw: RawNode, message: RaftMessage) -> None:
        try:
            raw.node.step(message)
        except ProposalDropped:
            self.output.say("raft proposal dropped")

    def stabilize(self, nodes: Sequence[Node]) -> None:
        """Let the given participants go on until nothing is left for them to do."""
        while any(
            [self._ready_round(nodes), self._delivery_round(nodes), self._thread_round(nodes)]
        ):
            pass

    def _ready_round(self, nodes: Sequence[Node]) -> bool:
        found = False
        for node in nodes:
            if node.raw.has_ready():
                found = True
                self.output.say(f"> {node.id} handling Ready")
                with self.output.indented():
                    self.process_ready(node)
        return found

    def _delivery_round(self, nodes: Sequence[Node]) -> bool:
        found = False
        for node in nodes:
            if any(_is_for(sent, node.id, None) for sent in self.messages):
                found = True
                self.output.say(f"> {node.id} receiving messages")
                with self.output.indented():
                    self.deliver(node.id)
        return found

    def _thread_round(self, nodes: Sequence[Node]) -> bool:
        found = False
        for name, queue, process in (
            ("append", "append_work", self.process_append),
            ("apply", "apply_work", self.process_apply),
        ):
            for node in nodes:
                if getattr(node, queue):
                    found = True
                    self.output.say(f"> {node.id} processing {name} thread")
                while getattr(node, queue):
                    with self.output.indented():
                        process(node)
        return found


def _is_for(sent: RaftMessage | Echo, to: NodeId, kind: MessageKind | None) -> bool:
    message = sent.own if isinstance(sent, Echo) else sent
    return sent.to == to and (kind is None or (message is not None and message.kind is kind))


def _may_get_lost(sent: RaftMessage | Echo) -> bool:
    return isinstance(sent, RaftMessage) and sent.sender != sent.to


def _is_from_a_stranger(raw: RawNode, message: RaftMessage) -> bool:
    is_response = describe.MESSAGES[message.kind].endswith("Resp")
    return is_response and message.sender not in raw.node.tracker.progress
