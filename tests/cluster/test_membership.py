"""Nodes come and go one at a time, and never so that two majorities, or none, are left."""

import asyncio

import pytest

from penstock.cluster.frames import ChangeKind, ChangeRequest, Member, MemberRemoved
from penstock.cluster.membership_rules import (
    PROMOTE,
    MemberChange,
    MembershipView,
    Promotions,
    conf_change_of,
    member_of,
    refusal,
    transfer_refusal,
    transfer_target,
)
from penstock.errors import ClusterError, PenstockError, Refused
from penstock.raft.progress import ProgressState
from penstock.raft.raw_node import PeerStatus
from penstock.raft.types import ConfState
from tests.cluster.cluster_bench import Bench, Node, until

MEMBERS = {n: Member(n, f"host{n}:7", f"host{n}:8") for n in (1, 2, 3)}


def view(**changes: object) -> MembershipView:
    base = MembershipView(
        node_id=1,
        conf=ConfState((1, 2, 3)),
        members=MEMBERS,
        removed=(),
        live=frozenset({1, 2, 3}),
        is_settled=True,
        is_changing=False,
    )
    return base._replace(**changes)


def peer(match: int, *, is_learner: bool = False) -> PeerStatus:
    return PeerStatus(
        match=match,
        next=match + 1,
        state=ProgressState.REPLICATE,
        recent_active=True,
        is_learner=is_learner,
        is_paused=False,
        inflight_count=0,
        pending_snapshot=0,
    )


def add(node_id: int) -> MemberChange:
    return MemberChange(ChangeKind.ADD, Member(node_id, f"host{node_id}:7", f"host{node_id}:8"))


def remove(node_id: int) -> MemberChange:
    return MemberChange(ChangeKind.REMOVE, Member(node_id))


@pytest.mark.parametrize(
    ("asked", "changes", "why"),
    [
        (add(4), {}, None),
        (add(4), {"is_settled": False}, "just elected"),
        (add(4), {"is_changing": True}, "another change"),
        (add(4), {"removed": (4,)}, "given once only"),
        (MemberChange(ChangeKind.ADD, Member(2, "elsewhere:7")), {}, "node 2 is in the cluster"),
        (add(0), {}, "no node id"),
        (add(1 << 16), {}, "no node id"),
        (add(40), {"members": dict.fromkeys(range(1, 33), Member(1))}, "at most"),
        (remove(2), {}, None),
        (remove(2), {"live": frozenset({1, 3})}, None),
        (remove(2), {"live": frozenset({1, 2})}, "no quorum"),
        (remove(3), {"live": frozenset({1})}, "no quorum"),
        (remove(3), {"conf": ConfState((1, 2, 3, 4)), "live": frozenset({1, 2, 3})}, "2 of 4"),
        (remove(4), {"conf": ConfState((1, 2, 3, 4)), "live": frozenset({1, 2, 3})}, None),
        (remove(2), {"conf": ConfState((1, 2)), "live": frozenset({1, 2})}, None),
        (remove(2), {"conf": ConfState((1, 2)), "live": frozenset({1})}, "1 of 2 voters"),
        (remove(4), {"conf": ConfState((1, 2, 3), (4,)), "live": frozenset({1, 2})}, None),
        (remove(1), {"conf": ConfState((1,)), "live": frozenset({1})}, "last voter"),
        (remove(2), {"is_changing": True}, "another change"),
        (MemberChange(PROMOTE, Member(4)), {"live": frozenset({1, 2, 4})}, None),
        (MemberChange(PROMOTE, Member(4)), {"live": frozenset({1, 4})}, "no quorum"),
        (
            MemberChange(PROMOTE, Member(2)),
            {"conf": ConfState((1,), (2,)), "live": frozenset({1, 2})},
            None,
        ),
        (
            MemberChange(PROMOTE, Member(2)),
            {"conf": ConfState((1,), (2,)), "live": frozenset({1})},
            "1 of 2",
        ),
    ],
)
def test_a_change_is_refused_if_it_could_do_harm(asked, changes, why) -> None:
    error = refusal(asked, view(**changes))
    assert (error is None) == (why is None)
    if error is not None:
        assert why in error.message
        assert error.advice


@pytest.mark.parametrize(
    ("to", "changes", "is_refused"),
    [
        (2, {}, False),
        (4, {}, True),
        (4, {"conf": ConfState((1, 2, 3), (4,)), "live": frozenset({1, 4})}, True),
        (2, {"live": frozenset({1, 3})}, True),
    ],
)
def test_leadership_goes_to_voters_that_are_up(to, changes, is_refused) -> None:
    assert (transfer_refusal(to, view(**changes)) is not None) == is_refused


def test_the_heir_is_up_and_has_the_most() -> None:
    progress = {1: peer(9), 2: peer(5), 3: peer(7)}
    assert transfer_target(view(), progress) == 3
    assert transfer_target(view(live=frozenset({1, 2})), progress) == 2
    assert transfer_target(view(live=frozenset({1})), progress) is None


def test_where_a_node_is_found_travels_with_the_change() -> None:
    assert member_of(conf_change_of(add(4))) == add(4).member


def test_a_learner_is_ready_after_having_been_near_for_an_election_timeout() -> None:
    promotions = Promotions(3)
    near, far = {4: peer(98, is_learner=True)}, {4: peer(9, is_learner=True)}
    empty, voter = {4: peer(0, is_learner=True)}, {4: peer(100)}

    def ticks(count, progress, live=frozenset({4}), last_index=100):
        return [promotions.tick(last_index, progress, live) for _ in range(count)]

    assert ticks(3, near) == [None, None, 4]
    assert ticks(1, far) + ticks(1, near) == [None, None]
    assert ticks(1, near, live=frozenset()) == [None]
    assert ticks(3, near) == [None, None, 4]
    assert ticks(5, empty, last_index=3) == [None] * 5
    assert ticks(5, voter) == [None] * 5


async def changed(node: Node, kind: str, *arguments: object) -> PenstockError | None:
    """Ask a node for a change; return why not, or None."""
    answer: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()
    getattr(node.replica, kind)(*arguments, answer.set_result)
    return await answer


async def join(bench: Bench, node_id: int, through: Node) -> Node:
    node = bench.node(node_id)
    assert await changed(through, "add", node.member) is None
    return node


@pytest.mark.asyncio
async def test_a_node_joins_as_a_learner_and_is_promoted_when_it_has_caught_up(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    written = [b"%d" % number for number in range(5)]
    for payload in written:
        await leader.write(payload)
    roles = []
    new = await join(bench, 4, through=leader)
    await until(
        lambda: roles.append(new.replica.status().role) or 4 in leader.replica.record.conf.voters
    )
    await bench.settled([*nodes, new], written)
    assert "learner" in roles
    assert new.replica.record.cluster_id == leader.replica.record.cluster_id
    await new.write(b"mine")
    await bench.settled([*nodes, new], [*written, b"mine"])


@pytest.mark.asyncio
async def test_a_change_may_be_asked_for_on_any_node(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower = next(node for node in nodes if node is not leader)
    await join(bench, 4, through=follower)
    await until(lambda: 4 in follower.replica.record.conf.voters)
    assert await changed(follower, "remove", 4) is None
    assert 4 not in follower.replica.record.members
    error = await changed(follower, "add", Member(4, "host:7"))
    assert isinstance(error, Refused)
    assert "given once only" in error.message


@pytest.mark.asyncio
async def test_a_removed_node_is_told_and_takes_no_more_writes(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    gone = next(node for node in nodes if node is not leader)
    assert await changed(leader, "remove", gone.id) is None
    await until(lambda: gone.replica.node.is_removed)
    assert gone.replica.status().state == "removed"
    assert not gone.replica.is_writable
    with pytest.raises(ClusterError, match="removed"):
        await gone.write(b"no")
    await leader.write(b"yes")
    gone.kill()
    gone.start()
    await until(lambda: gone.replica.node.is_removed)


@pytest.mark.asyncio
async def test_a_node_that_was_away_when_it_was_removed_learns_of_it_when_it_is_back(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    gone = next(node for node in nodes if node is not leader)
    gone.kill()
    await until(lambda: (leader.replica.node.activity.heard_s(gone.id) or 0) > 0)
    assert await changed(leader, "remove", gone.id) is None
    gone.start()
    await until(lambda: gone.replica.node.is_removed)
    assert any(isinstance(frame, MemberRemoved) for _, _, frame in bench.network.sent)


@pytest.mark.asyncio
async def test_a_leader_that_is_removed_hands_over_first(bench: Bench) -> None:
    await bench.cluster(3)
    leader = await bench.leader()
    await leader.write(b"1")
    terms = leader.replica.term
    assert await changed(leader, "remove", leader.id) is None
    await until(lambda: leader.replica.node.is_removed)
    rest = [node for node in bench.running if node is not leader]
    new = await bench.leader(rest)
    assert new.replica.term > terms
    await until(lambda: set(new.replica.record.conf.voters) == {node.id for node in rest})
    await new.write(b"2")
    assert new.stored() == [b"1", b"2"]


@pytest.mark.asyncio
async def test_leadership_is_handed_over_on_request(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    heir_ = next(node for node in nodes if node is not leader)
    assert await changed(leader, "transfer", heir_.id) is None
    assert await bench.leader() is heir_
    error = await changed(leader, "transfer", leader.id)
    assert isinstance(error, Refused)
    assert str(heir_.id) in error.advice


@pytest.mark.asyncio
async def test_a_change_without_a_quorum_of_those_who_are_up_is_refused(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    one, two = (node for node in nodes if node is not leader)
    one.kill()
    await until(lambda: (leader.replica.node.activity.heard_s(one.id) or 0) > 0.2)
    error = await changed(leader, "remove", two.id)
    assert isinstance(error, Refused)
    assert "no quorum" in error.message
    assert await changed(leader, "remove", one.id) is None


@pytest.mark.asyncio
async def test_a_lone_broker_that_listens_grows_to_a_cluster_and_back(bench: Bench) -> None:
    first = bench.node(1)
    first.replica.bootstrap([first.member], lambda _error: None)
    for number in range(3):
        await first.write(b"%d" % number)
    second = await join(bench, 2, through=first)
    writes = [first.write(b"during")]
    await asyncio.gather(*writes)
    await until(lambda: 2 in first.replica.record.conf.voters)
    await second.write(b"both")
    await until(lambda: first.stored() == second.stored() == [b"0", b"1", b"2", b"during", b"both"])
    assert await changed(first, "remove", 2) is None if first.replica.is_leader else True
    if not first.replica.is_leader:
        assert await changed(second, "remove", 2) is None
    await until(lambda: first.replica.is_lone and first.replica.is_leader)
    await first.write(b"alone")
    first.kill()
    first.start()
    await first.write(b"again")
    assert first.stored() == [b"0", b"1", b"2", b"during", b"both", b"alone", b"again"]


@pytest.mark.asyncio
async def test_a_node_that_lost_its_disk_is_not_let_in_again_under_the_same_id(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    lost = next(node for node in nodes if node is not leader)
    for node in nodes:  # that it was there before is recorded in the log, not in memory
        node.kill()
    for file in lost.path.iterdir():
        file.unlink()
    for node in nodes:
        node.start()
    leader = await bench.leader([node for node in nodes if node is not lost])
    await leader.write(b"1")
    await until(
        lambda: leader.replica.bootstrapping.is_blank(lost.id), "for it to say that it has nothing"
    )
    await until(
        lambda: lost.replica.bootstrapping.lost_cluster_id, "for it to be told where it was"
    )
    assert not lost.replica.node.is_initialised
    assert lost.listener.applied == []


@pytest.mark.asyncio
async def test_a_cluster_begins_once_whoever_is_told_and_however_often(bench: Bench) -> None:
    nodes = [bench.node(node_id) for node_id in (1, 2, 3)]
    genesis = [node.member for node in nodes]
    answers: list[object] = []
    for node in nodes:
        node.replica.bootstrap(genesis, answers.append)
    await bench.leader()
    for node in nodes:
        node.replica.bootstrap(genesis[::-1], answers.append)
    await until(lambda: len(answers) == 6)
    assert answers == [None] * 6
    assert len({node.replica.record.cluster_id for node in nodes}) == 1
    others: list[PenstockError] = []
    nodes[0].replica.bootstrap([nodes[0].member, Member(9, "x:1")], others.append)
    nodes[0].replica.bootstrap([nodes[1].member], others.append)
    await until(lambda: len(others) == 2)
    assert all(isinstance(error, Refused) and error.advice for error in others)


@pytest.mark.asyncio
async def test_a_node_tells_all_where_clients_reach_it_and_nobody_else_may(bench: Bench) -> None:
    """A cluster may begin without those addresses, and a node may come back at another."""
    nodes = [bench.node(n) for n in (1, 2, 3)]
    for node in nodes:
        node.replica.bootstrap([Member(n, f"host{n}:7") for n in (1, 2, 3)], lambda _error: None)
    leader = await bench.leader()
    own = {node.id: node.member.client_addr for node in nodes}
    assert all(own.values())

    def told(node: Node) -> dict[int, str]:
        return {n: member.client_addr for n, member in node.replica.record.members.items()}

    await until(lambda: all(told(node) == own for node in nodes))
    other, third = [node for node in nodes if node is not leader]
    forged = ChangeRequest(1, ChangeKind.MOVE, Member(third.id, "host:7", "elsewhere:8"))
    leader.replica.frames.received(other.id, forged)
    await leader.write(b"after")
    assert told(leader) == own


@pytest.mark.asyncio
async def test_a_node_that_comes_back_at_another_address_is_known_there_by_all(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    for moved in (next(node for node in nodes if node is not leader), leader):
        moved.kill()
        moved.member = Member(moved.id, f"host{moved.id}:70", f"host{moved.id}:80")
        moved.start()
        await until(
            lambda moved=moved: all(
                node.replica.record.members[moved.id] == moved.member for node in nodes
            ),
            "for the new address",
        )
        assert moved.replica.own() == moved.member
        assert all(node.peers.members[moved.id] == moved.member for node in nodes)
    assert all(node.durable().conf.voters == (1, 2, 3) for node in nodes)


def test_a_node_that_is_no_member_cannot_move() -> None:
    assert refusal(MemberChange(ChangeKind.MOVE, Member(9, "x:1")), view()) is not None


@pytest.mark.asyncio
async def test_a_removed_node_answers_who_asked_it_though_it_sees_no_more(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    gone = next(node for node in nodes if node is not leader)
    answers: list[object] = []

    def is_lost(_sender: int, to: int, frame: object) -> bool:
        is_asked = any(isinstance(sent, ChangeRequest) for _, _, sent in bench.network.sent)
        return is_asked and to == gone.id and not isinstance(frame, MemberRemoved)

    bench.network.drops = is_lost
    gone.replica.remove(gone.id, answers.append)
    gone.replica.add(Member(7, "host:7"), answers.append)
    await until(lambda: len(answers) == 2)
    assert answers[0] is None
    assert isinstance(answers[1], Refused)
