"""Questions to another node, and answers: how a node shows, and changes, what others have.

A question is bytes, and so is the answer; the broker above knows what they mean. Both are small
(``QUESTION_BYTES_MAX``), and an answer is there soon (``ANSWER_S``) or the asker does without: a
page about the cluster must not hang on a node that does. An answer that is too large, or a node
that is asked too much at a time, is a failure with a name, which is counted.

Questions take the link of batches, so heartbeats never wait for them. They need nothing of
consensus: a node that has no leader is asked, and answers, like any other.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import StrEnum

from penstock.cluster.frames import Answer, AnswerKind, Frame, Question
from penstock.cluster.local_node import LocalNode
from penstock.errors import ClusterError
from penstock.limits import KIB
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.raft.types import NO_NODE, NodeId

QUESTION_BYTES_MAX = 256 * KIB  # and as much for an answer
ANSWER_S = 2.0
CHANGE_S = 8.0  # for a change at the leader, which waits for a quorum
ANSWERED_AT_ONCE_MAX = 16  # questions of one node; each may read the journal
ASKED_AT_ONCE_MAX = 256  # questions of this node to all others

Answering = Callable[[NodeId, bytes], Awaitable[bytes]]

_log = ThrottledLogger(get_logger("cluster"))


class Unheard(StrEnum):
    """Why a question has no answer. The value is the label in metrics, and shown in lists."""

    NOT_REACHED = "not_reached"  # no connection to that node, or it broke
    TOO_SLOW = "too_slow"  # no answer in time
    BUSY = "busy"  # too many questions at a time
    TOO_LARGE = "too_large"  # the question, or the answer
    OTHER_VERSION = "other_version"  # a program that answers no questions
    FAILED = "failed"  # that node met an error


class NotHeard(ClusterError):  # noqa: N818 - reads as the state it names
    """A question has no answer. What was asked for may have been done all the same."""

    def __init__(self, node: NodeId, reason: Unheard) -> None:
        super().__init__(f"node {node} did not answer: {reason.value.replace('_', ' ')}")
        self.node = node
        self.reason = reason


class Asking:
    """Asks other nodes, and answers them. Belongs to the event loop."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node
        self._number = 0
        self._waiting: dict[tuple[NodeId, int], asyncio.Future[Answer]] = {}
        self._answering = Counter[NodeId]()
        self._tasks = set[asyncio.Task[None]]()
        self._respond: Answering | None = None

    def respond_with(self, respond: Answering) -> None:
        """``respond`` gets the node and its question, and makes the answer."""
        self._respond = respond

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for key in list(self._waiting):
            self._fail(key, AnswerKind.FAILED)

    # ── asking ────────────────────────────────────────────────────────────────────────────────

    def others(self) -> list[NodeId]:
        """All other members of the cluster."""
        own = self._node.node_id
        return sorted(member for member in self._node.record.members if member != own)

    def leader(self) -> NodeId:
        """The leader, if it is another node and known; else 0."""
        leader = self._node.leader
        return leader if leader != self._node.node_id else NO_NODE

    async def ask(self, node: NodeId, question: bytes, patience_s: float = ANSWER_S) -> bytes:
        """Ask a node; raises NotHeard."""
        try:
            answer = await self._asked(node, question, patience_s)
        except NotHeard as fault:
            self._count(fault.reason)
            raise
        self._count(None)
        return answer

    async def _asked(self, node: NodeId, question: bytes, patience_s: float) -> bytes:
        if node not in self._node.record.members or not self._node.peers.is_reached(node):
            raise NotHeard(node, Unheard.NOT_REACHED)
        if not self._node.peers.answers(node):
            raise NotHeard(node, Unheard.OTHER_VERSION)
        if len(question) > QUESTION_BYTES_MAX:
            raise NotHeard(node, Unheard.TOO_LARGE)
        if len(self._waiting) >= ASKED_AT_ONCE_MAX:
            raise NotHeard(node, Unheard.BUSY)
        self._number += 1
        # Numbers of an earlier incarnation are others: its answers are nobody's.
        number = self._node.record.incarnation << 32 | self._number
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[node, number] = waiting
        try:
            self._node.send(node, Question(number, question))
            async with asyncio.timeout(patience_s):
                answer = await waiting
        except TimeoutError:
            raise NotHeard(node, Unheard.TOO_SLOW) from None
        finally:
            self._waiting.pop((node, number), None)
        if answer.kind is not AnswerKind.ANSWER:
            raise NotHeard(node, _UNHEARD[answer.kind])
        return answer.body

    def _count(self, reason: Unheard | None) -> None:
        counts, outcome = self._node.counts.questions, reason.value if reason else "answered"
        counts[outcome] = counts.get(outcome, 0) + 1

    def answered(self, sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, Answer)
        waiting = self._waiting.get((sender, frame.number))
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    def unreachable(self, peer: NodeId) -> None:
        """A connection is gone: what was asked there is lost, or its answer is."""
        for key in [key for key in self._waiting if key[0] == peer]:
            self._fail(key, AnswerKind.LOST)

    def _fail(self, key: tuple[NodeId, int], kind: AnswerKind) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and not waiting.done():
            waiting.set_result(Answer(key[1], kind))

    # ── answering ─────────────────────────────────────────────────────────────────────────────

    def asked(self, sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, Question)
        if sender not in self._node.record.members:
            return
        if self._respond is None or self._answering[sender] >= ANSWERED_AT_ONCE_MAX:
            self._node.send(sender, Answer(frame.number, AnswerKind.BUSY))
            return
        self._answering[sender] += 1
        task = asyncio.get_running_loop().create_task(self._answer(self._respond, sender, frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, respond: Answering, sender: NodeId, question: Question) -> None:
        try:
            body = await respond(sender, question.body)
        except Exception as error:  # noqa: BLE001 - one question must not end the node
            _log.warning("question_failed", node=sender, error=repr(error))
            self._node.send(sender, Answer(question.number, AnswerKind.FAILED))
            return
        finally:
            self._answering[sender] -= 1
        if len(body) > QUESTION_BYTES_MAX:
            self._node.send(sender, Answer(question.number, AnswerKind.TOO_LARGE))
        else:
            self._node.send(sender, Answer(question.number, AnswerKind.ANSWER, body))


_UNHEARD = {
    AnswerKind.BUSY: Unheard.BUSY,
    AnswerKind.TOO_LARGE: Unheard.TOO_LARGE,
    AnswerKind.FAILED: Unheard.FAILED,
    AnswerKind.LOST: Unheard.NOT_REACHED,
}
