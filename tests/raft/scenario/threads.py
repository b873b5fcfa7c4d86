"""Writing and applying beside the node: etcd's ``AsyncStorageWrites``, which prints more messages.

Our core has no messages to and from the threads that write and apply: a ``Ready`` has a mark, and
the driver says ``persisted(mark)`` and ``applied(index)``. Here they are printed as if they were
messages, so that a script can hold them back, let others overtake them, and deliver them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent

from penstock.raft.raw_node import RawNode
from penstock.raft.ready import PersistMark, Ready
from penstock.raft.types import HardState, RaftMessage
from tests.raft.scenario import describe

APPEND = "AppendThread"
APPLY = "ApplyThread"


@dataclass(frozen=True, slots=True)
class Echo:
    """What comes back to a node from its own threads. ``tell`` is what the core gets of it.

    ``own`` is the message that the node sent to itself, if it is one.
    """

    to: int
    text: str
    tell: Callable[[], None]
    own: RaftMessage | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a thread was given: ``text`` is the message, ``responses`` what it sends when done."""

    batch: Ready
    text: str
    responses: tuple[RaftMessage | Echo, ...]

    def described(self) -> str:
        if not self.responses:
            return self.text
        inner = "\n".join(indent(text_of(response), "  ") for response in self.responses)
        return f"{self.text} Responses:[\n{inner}\n]"


def text_of(sent: RaftMessage | Echo) -> str:
    return sent.text if isinstance(sent, Echo) else describe.message(sent)


def append_work(node: int, raw: RawNode, batch: Ready) -> Work | None:
    """What the batch asks to be written, and what leaves once it is; None if there is neither."""
    if not (batch.after_persist or batch.hard_state or batch.entries or batch.snapshot):
        return None
    mark = batch.mark
    responses = [_response(raw, sent, node, mark) for sent in batch.after_persist]
    if mark.index or mark.snapshot:
        responses.append(_append_response(raw, node, mark))
    return Work(batch, _append(node, batch), tuple(responses))


def _response(raw: RawNode, sent: RaftMessage, node: int, mark: PersistMark) -> RaftMessage | Echo:
    """What is to the node itself is in the mark. It is told piece by piece, as etcd prints it."""
    if sent.to != node:
        return sent
    piece = PersistMark(mark.term, own=(sent,))
    return Echo(node, describe.message(sent), lambda: raw.persisted(piece), sent)


def _append_response(raw: RawNode, node: int, mark: PersistMark) -> Echo:
    rest = describe.payload(0, 0, (), mark.snapshot)
    what = f"MsgStorageAppendResp Term:{mark.term} Log:{mark.log_term}/{mark.index}{rest}"
    piece = PersistMark(mark.term, mark.index, mark.log_term, mark.snapshot)
    return Echo(node, f"{APPEND}->{node} {what}", lambda: raw.persisted(piece))


def _append(node: int, batch: Ready) -> str:
    state = batch.hard_state or HardState()
    rest = describe.payload(state.commit, state.vote, batch.entries, batch.snapshot)
    return f"{node}->{APPEND} MsgStorageAppend Term:{state.term} Log:0/0{rest}"


def apply_work(node: int, raw: RawNode, batch: Ready) -> Work | None:
    """What the batch asks to be applied; None if there is nothing."""
    if not batch.committed:
        return None
    index = batch.committed[-1].index
    rest = describe.payload(0, 0, batch.committed, None)
    done = f"{APPLY}->{node} MsgStorageApplyResp Term:0 Log:0/0{rest}"
    return Work(
        batch,
        f"{node}->{APPLY} MsgStorageApply Term:0 Log:0/0{rest}",
        (Echo(node, done, lambda: raw.applied(index)),),
    )
