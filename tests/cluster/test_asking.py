"""Questions between nodes: answers, and the many ways in which there is none."""

import asyncio

import pytest

from penstock.cluster import handshake
from penstock.cluster.asking import (
    ANSWERED_AT_ONCE_MAX,
    ASKED_AT_ONCE_MAX,
    QUESTION_BYTES_MAX,
    NotHeard,
    Unheard,
)
from penstock.cluster.frames import Answer, AnswerKind, Question
from tests.cluster.peer_bench import Node, started, until

pytestmark = pytest.mark.asyncio


async def shout(sender, question):
    return b"%d heard %s" % (sender, question.upper())


async def never(_sender, _question):
    await asyncio.Event().wait()


async def unheard(asking, node=2, question=b"?", **options):
    with pytest.raises(NotHeard) as caught:
        await asking.ask(node, question, **options)
    assert caught.value.node == node
    return caught.value.reason


async def two_nodes(bench, respond):
    one, two, _ = await bench.cluster(3)
    two.replica.asking.respond_with(respond)
    return one, two


async def test_a_question_is_answered_by_the_node_it_is_for(bench):
    one, _ = await two_nodes(bench, shout)
    assert await one.replica.asking.ask(2, b"hello") == b"1 heard HELLO"
    assert one.replica.asking.others() == [2, 3]
    assert one.replica.counts.questions == {"answered": 1}


async def test_questions_at_the_same_time_get_their_own_answers(bench):
    one, _ = await two_nodes(bench, shout)
    asked = [one.replica.asking.ask(2, b"%d" % number) for number in range(10)]
    assert await asyncio.gather(*asked) == [b"1 heard %d" % number for number in range(10)]


async def test_a_node_without_a_leader_answers_as_well(bench):
    nodes = await bench.cluster(4)
    leader = await bench.leader()
    one, two, other = (node for node in nodes if node is not leader)
    two.replica.asking.respond_with(shout)
    leader.kill()
    other.kill()  # two of four elect nobody
    await until(lambda: not one.replica.leader and not two.replica.leader)
    asked = one.replica.asking.ask(two.id, b"hello")
    assert await asked == b"%d heard HELLO" % one.id


async def test_a_node_that_is_cut_off_is_given_up_at_once(bench):
    one, _ = await two_nodes(bench, shout)
    bench.network.isolate(2)
    assert await unheard(one.replica.asking, patience_s=30) is Unheard.NOT_REACHED
    assert one.replica.counts.questions == {"not_reached": 1}


async def test_a_connection_that_breaks_ends_the_waiting(bench):
    one, two = await two_nodes(bench, never)
    asked = asyncio.create_task(unheard(one.replica.asking, patience_s=30))
    await until(lambda: two.replica.asking._answering[1])
    one.replica.frames.unreachable(2)
    assert await asked is Unheard.NOT_REACHED


async def test_who_is_no_member_is_not_asked(bench):
    one, _ = await two_nodes(bench, shout)
    assert await unheard(one.replica.asking, node=9) is Unheard.NOT_REACHED


async def test_a_node_that_hangs_is_not_waited_for(bench):
    one, _ = await two_nodes(bench, never)
    assert await unheard(one.replica.asking, patience_s=0.05) is Unheard.TOO_SLOW
    assert one.replica.counts.questions == {"too_slow": 1}


async def test_an_answer_that_comes_too_late_is_nobodys(bench):
    may_answer = asyncio.Event()

    async def late(sender, question):
        await may_answer.wait()
        return await shout(sender, question)

    one, two = await two_nodes(bench, late)
    assert await unheard(one.replica.asking, patience_s=0.05) is Unheard.TOO_SLOW
    may_answer.set()
    await until(lambda: not two.replica.asking._answering[1])
    assert await one.replica.asking.ask(2, b"next") == b"1 heard NEXT"


async def test_questions_and_answers_have_a_size(bench):
    async def much(_sender, question):
        return bytes(QUESTION_BYTES_MAX + (question != b"fits"))

    one, _ = await two_nodes(bench, much)
    assert len(await one.replica.asking.ask(2, b"fits")) == QUESTION_BYTES_MAX
    assert await unheard(one.replica.asking) is Unheard.TOO_LARGE
    large = bytes(QUESTION_BYTES_MAX + 1)
    assert await unheard(one.replica.asking, question=large) is Unheard.TOO_LARGE
    assert one.replica.counts.questions == {"answered": 1, "too_large": 2}


async def test_one_node_cannot_keep_another_busy_without_end(bench):
    one, _ = await two_nodes(bench, never)
    asked = [
        asyncio.create_task(unheard(one.replica.asking, patience_s=0.5))
        for _ in range(ANSWERED_AT_ONCE_MAX + 3)
    ]
    reasons = await asyncio.gather(*asked)
    assert reasons.count(Unheard.BUSY) == 3
    assert reasons.count(Unheard.TOO_SLOW) == ANSWERED_AT_ONCE_MAX


async def test_a_node_asks_a_limited_number_of_questions_at_a_time(bench):
    one, _ = await two_nodes(bench, shout)
    bench.network.drops = lambda _sender, _to, frame: isinstance(frame, Question)
    asked = [
        asyncio.create_task(unheard(one.replica.asking, patience_s=0.5))
        for _ in range(ASKED_AT_ONCE_MAX + 1)
    ]
    reasons = await asyncio.gather(*asked)
    assert reasons.count(Unheard.BUSY) == 1


async def test_an_error_in_the_answer_is_told_and_the_node_goes_on(bench):
    async def fail(sender, question):
        if question == b"?":
            raise ValueError("a bug")
        return await shout(sender, question)

    one, _ = await two_nodes(bench, fail)
    assert await unheard(one.replica.asking) is Unheard.FAILED
    assert await one.replica.asking.ask(2, b"next") == b"1 heard NEXT"


async def test_a_node_that_answers_nothing_yet_says_so(bench):
    one, _, _ = await bench.cluster(3)
    assert await unheard(one.replica.asking) is Unheard.BUSY


async def test_an_answer_nobody_asked_for_does_no_harm(bench):
    one, two = await two_nodes(bench, shout)
    two.replica.node.send(1, Answer(77, AnswerKind.ANSWER, b"unasked"))
    assert await one.replica.asking.ask(2, b"hello") == b"1 heard HELLO"


async def test_the_handshake_tells_whether_a_node_answers():
    async with started(Node(1), Node(2)) as (one, two):
        one.knows(two)
        assert not one.transport.answers(2)
        await until(lambda: one.transport.is_reached(2))
        assert one.transport.answers(2)


async def test_a_former_version_is_not_asked(monkeypatch):
    monkeypatch.setattr(handshake, "FEATURES", handshake.TAKES_BLOCKS)
    async with started(Node(1), Node(2)) as (one, two):
        one.knows(two)
        await until(lambda: one.transport.is_reached(2))
        assert not one.transport.answers(2)
