"""Several nodes agree on one journal, whichever leads and whatever is lost."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from penstock.cluster.consensus import Leadership
from penstock.cluster.frames import Forward, ForwardRefused, Frame, Member, RaftFrame
from penstock.cluster.record import encode_record, genesis_record
from penstock.cluster.status import MemberStatus
from penstock.errors import ClusterError, LeadershipLost, NoQuorum
from penstock.raft.types import MessageKind, NodeId, RaftMessage
from penstock.store.batch import Batch, NodeSegment
from penstock.store.lmdb_store import LmdbStore
from penstock.store.segments import pack_batch
from penstock.store.store import LogEntry, Write
from tests.cluster.cluster_bench import SOON_S, Bench, Node, batch_of, until

pytestmark = pytest.mark.asyncio


def others(nodes: Sequence[Node], but: Node) -> list[Node]:
    return [node for node in nodes if node is not but]


def log_of(node: Node) -> list[tuple[int, bytes]]:
    """The log as it lies on a node's disk."""
    store = node.store
    entries = store.log_entries(store.first_index, store.last_index + 1, 1 << 30)
    return [(entry.kind, entry.data) for entry in entries]


def premature(node: Node, message: RaftMessage) -> Iterator[str]:
    """What a message says that the disk of its sender does not."""
    kind, written = message.kind, node.durable()
    is_trial = kind in {MessageKind.PRE_VOTE, MessageKind.PRE_VOTE_RESPONSE}
    if message.term > written.term and not is_trial:
        yield f"{kind.name} of term {message.term}, on disk {written.term}"
    if kind is MessageKind.VOTE_RESPONSE and not message.reject and written.vote != message.to:
        yield f"vote for {message.to}, on disk {written.vote}"
    has_all = message.index <= node.store.last_index
    if kind is MessageKind.APPEND_RESPONSE and not message.reject and not has_all:
        yield f"has {message.index}, on disk {node.store.last_index}"


async def current(node: Node) -> list[bytes]:
    """What a node has stored, as of now."""
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    node.replica.read_barrier(answer.set_result)
    assert await answer is None
    return node.stored()


async def test_what_one_node_writes_all_apply_in_one_order(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    written = []
    for number in range(12):
        await nodes[number % 3].write(b"%d" % number)
        written.append(b"%d" % number)
    await bench.settled(nodes, written)
    assert all(node.stored() == written for node in nodes)
    await until(lambda: log_of(nodes[0]) == log_of(nodes[1]) == log_of(nodes[2]))


async def test_a_listener_hears_of_each_change_of_leadership_once(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    old = await bench.leader()
    heard = {node.id: list[Leadership]() for node in nodes}
    for node in nodes:
        node.replica.on_leadership(heard[node.id].append)
    new = others(nodes, old)[0]
    old.replica.transfer(new.id, lambda _error: None)
    await until(lambda: new.replica.is_leader and old.replica.leader == new.id)
    for node in nodes:
        seen = heard[node.id]
        assert all(before != after for before, after in itertools.pairwise(seen))
        assert seen[-1] == node.replica.leadership
        assert [one.is_leader for one in seen].count(True) == (node is new)


async def test_batches_of_several_nodes_share_an_entry_and_each_learns_its_own_place(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    one, two = others(nodes, leader)
    bench.network.delay_s = 0.02  # all three are there before the first can be drawn up
    first = [
        leader.submit(batch_of((b"x", b"l"))),
        one.submit(batch_of((b"y", b"o"), (b"x", b"p"))),
    ]
    last = two.submit(batch_of((b"x", b"q"), (b"y", b"r")))
    bench.network.delay_s = 0.0
    await asyncio.gather(*first, last)
    second = [
        node.submit(batch_of((b"y", b"%d" % node.id), (b"x", b"%d" % node.id))) for node in nodes
    ]
    await asyncio.gather(*second)
    await until(lambda: all(len(node.listener.applied) == 11 for node in nodes))
    for node in nodes:
        for batch, commit in node.listener.commits + node.listener.foreigners:
            for (topic, group), offset in zip(
                batch.groups.items(), commit.first_offsets, strict=True
            ):
                assert node.stored(topic)[offset : offset + len(group.payloads)] == group.payloads
    assert nodes[0].stored(b"x") == nodes[1].stored(b"x") == nodes[2].stored(b"x")


async def test_a_follower_that_was_away_gets_what_it_missed(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    away, other = others(nodes, leader)
    bench.network.isolate(away.id)
    for number in range(5):
        await leader.write(b"%d" % number)
    bench.network.heal()
    await bench.settled(nodes, [b"%d" % number for number in range(5)])
    await away.write(b"5")
    await bench.settled([leader, other], [b"%d" % number for number in range(6)])


async def test_a_killed_leader_loses_nothing_that_was_acknowledged(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    written = []
    for round_ in range(3):
        leader = await bench.leader()
        for number in range(3):
            payload = b"%d.%d" % (round_, number)
            await leader.write(payload)
            written.append(payload)
        leader.kill()
        await bench.leader()
        leader.start()
        await bench.leader()
    await until(lambda: all(node.stored() == written for node in nodes))
    await until(lambda: log_of(nodes[0]) == log_of(nodes[1]) == log_of(nodes[2]))


async def test_all_killed_at_once_come_back_with_everything(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    for number in range(4):
        await nodes[number % 3].write(b"%d" % number)
    for node in nodes:
        node.kill()
    for node in nodes:
        node.start()
    await bench.leader()
    await nodes[0].write(b"4")
    await until(lambda: all(node.stored() == [b"0", b"1", b"2", b"3", b"4"] for node in nodes))


async def test_a_batch_that_was_sent_to_a_leader_that_died_is_repeated_to_the_next(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, other = others(nodes, leader)
    bench.network.drops = lambda _sender, _to, frame: isinstance(frame, Forward)
    answer = follower.submit(batch_of((b"t", b"late")))
    await until(lambda: any(isinstance(frame, Forward) for _, _, frame in bench.network.sent))
    leader.kill()
    bench.network.drops = lambda _sender, _to, _frame: False
    await answer
    await until(lambda: other.listener.applied == [b"late"])
    assert follower.listener.commits
    assert not follower.listener.refusals


async def test_a_deposed_leaders_batch_is_repeated_to_the_new_one(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    old = await bench.leader()
    rest = others(nodes, old)
    bench.network.isolate(old.id)
    answer = old.submit(batch_of((b"t", b"orphan")))
    new = await bench.leader(rest)
    await new.write(b"after")
    bench.network.heal()
    await answer
    await until(lambda: all(sorted(node.stored()) == [b"after", b"orphan"] for node in nodes))
    assert [payload for payload in old.listener.applied if payload == b"orphan"] == [b"orphan"]
    assert len(old.listener.commits) == 1


async def test_a_batch_that_reached_the_next_leader_is_acknowledged_when_it_is_applied_and_not_twice(
    bench: Bench,
) -> None:
    """The old leader's entry gets to one follower, which leads next; its answer gets lost."""
    nodes = await bench.cluster(3)
    old = await bench.leader()
    heir, other = others(nodes, old)
    bench.network.cuts = {(old.id, other.id), (heir.id, old.id), (other.id, old.id)}
    answer = old.submit(batch_of((b"t", b"carried")))
    await until(lambda: heir.store.last_index == old.store.last_index)
    await until(lambda: heir.store.last_index > heir.replica.applied_index)
    bench.network.isolate(old.id)
    assert await bench.leader([heir, other]) is heir
    bench.network.heal()
    await answer
    await bench.settled(nodes, [b"carried"])
    assert len(old.listener.commits) == 1
    assert all(node.stored() == [b"carried"] for node in nodes)


async def test_what_only_a_leader_may_decide_is_refused_once_another_leads(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    old = await bench.leader()
    rest = others(nodes, old)
    bench.network.isolate(old.id)
    answer = old.submit(batch_of((b"t", b"mine"), term=old.replica.term))
    new = await bench.leader(rest)
    await new.write(b"theirs")
    bench.network.heal()
    with pytest.raises(LeadershipLost):
        await answer
    await old.write(b"next")
    await bench.settled(nodes, [b"theirs", b"next"])
    assert new.replica.counts.forward_refusals == 1


async def test_leader_only_content_of_the_present_term_is_written(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    await leader.write(b"mine", term=leader.replica.term)
    await bench.settled(nodes, [b"mine"])


async def test_without_a_quorum_writes_are_refused_and_go_on_when_it_is_back(bench: Bench) -> None:
    nodes = await bench.cluster(3, no_leader_timeout_s=SOON_S)
    leader = await bench.leader()
    rest = others(nodes, leader)
    for node in rest:
        node.kill()
    with pytest.raises(NoQuorum):
        await leader.write(b"in vain?")
    assert not leader.replica.is_writable
    assert not leader.replica.is_leader
    answer = leader.submit(batch_of((b"t", b"at once")))
    await asyncio.sleep(0)
    assert isinstance(answer.exception(), NoQuorum)
    for node in rest:
        node.start()
    await bench.leader()
    await leader.write(b"again")
    assert leader.stored()[-1] == b"again"


async def test_a_batch_that_was_given_up_and_is_committed_later_is_applied_as_a_foreign_one(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3, no_leader_timeout_s=SOON_S)
    leader = await bench.leader()
    one, two = others(nodes, leader)
    one.kill()
    two.kill()
    with pytest.raises(NoQuorum):
        await leader.write(b"given up")
    one.start()
    assert await bench.leader() is leader  # of the two it has the longer log
    two.start()
    await bench.leader()
    await leader.write(b"next")
    await bench.settled([leader], [b"given up", b"next"])
    assert [list(batch.groups) for batch, _ in leader.listener.commits] == [[b"t"]]
    assert len(leader.listener.foreigners) == 1
    await until(lambda: all(node.stored() == [b"given up", b"next"] for node in nodes))


async def test_a_batch_is_in_the_log_once_however_often_it_is_repeated(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, _ = others(nodes, leader)
    await follower.write(b"once")
    forward = next(f for _, _, f in bench.network.sent if isinstance(f, Forward))
    for _ in range(3):
        leader.replica.frames.received(follower.id, forward)
    await follower.write(b"next")
    for _ in range(3):
        leader.replica.frames.received(follower.id, forward)
    await leader.write(b"last")
    await bench.settled(nodes, [b"once", b"next", b"last"])
    leader.kill()  # the next leader knows from the log, not from memory
    new = await bench.leader()
    new.replica.frames.received(follower.id if follower is not new else leader.id, forward)
    await new.write(b"end")
    await until(lambda: new.stored() == [b"once", b"next", b"last", b"end"])


async def test_a_restarted_node_knows_from_its_disk_which_batches_were_there(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, _ = others(nodes, leader)
    await follower.write(b"once")
    incarnation, number = follower.replica.record.incarnation, 1
    origin = {follower.id: (incarnation, number)}
    await until(lambda: all(node.replica.record.origins == origin for node in nodes))
    for node in nodes:
        node.kill()
    for node in nodes:
        node.start()
    leader = await bench.leader()
    assert leader.replica.record.origins == origin
    assert follower.replica.record.incarnation == incarnation + 1
    repeated = Forward(incarnation, number, pack_batch(batch_of((b"t", b"once"))))
    leader.replica.frames.received(follower.id, repeated)
    await leader.write(b"more")
    assert leader.stored() == [b"once", b"more"]


async def test_a_start_takes_from_the_log_what_the_record_does_not_say_yet(bench: Bench) -> None:
    """A write may commit what is folded only after its record was drawn up."""
    node = bench.all[1] = Node(bench.network, 1, bench.path)
    members = [Member(node_id, f"host{node_id}:7") for node_id in (1, 2, 3)]
    record = genesis_record(1, b"x" * 16, members)
    record.term, record.terms = 1, [(1, 1)]
    batch = batch_of((b"t", b"known"))
    batch.segments = [NodeSegment(2, incarnation=5, number=7)]
    store = LmdbStore(bench.path)
    entry = LogEntry(1, 0, store.encode_batch(batch).data)
    store.write(Write([entry], encode_record(record), committed=1))
    store.close()
    node.start()
    await until(lambda: node.replica.applied_index == 1)
    assert node.replica.record.origins == {2: (5, 7)}
    assert node.stored() == [b"known"]
    assert node.listener.applied == []  # the broker has it from the store


async def test_a_batch_that_got_lost_is_sent_again_after_a_while(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, _ = others(nodes, leader)
    lost: list[Frame] = []

    def lose(_sender: NodeId, _to: NodeId, frame: Frame) -> bool:
        if isinstance(frame, Forward) and not lost:
            lost.append(frame)
            return True
        return False

    bench.network.drops = lose
    await follower.write(b"again")
    assert lost
    counts = follower.replica.counts
    assert (counts.forwarded_batches, counts.forward_repeats) == (1, 1)


async def test_batches_that_are_damaged_are_refused_and_cost_nobody_else_anything(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, other = others(nodes, leader)
    good = pack_batch(batch_of((b"t", b"x" * 100)))
    damaged = good[:-20] + b"!" + good[-19:]

    def spoil(sender: NodeId, to: NodeId, frame: Frame) -> bool:
        if isinstance(frame, Forward) and sender == follower.id and frame.batch != damaged:
            bench.network.send(sender, to, Forward(frame.incarnation, frame.number, damaged))
            return True
        return False

    bench.network.drops = spoil
    with pytest.raises(ClusterError):
        await follower.write(b"spoilt")
    await other.write(b"fine")
    await until(lambda: leader.stored() == [b"fine"])


async def test_batches_of_strangers_and_words_under_false_names_are_ignored(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    one, two = others(nodes, leader)
    term = leader.replica.term
    leader.replica.frames.received(9, Forward(1, 1, pack_batch(batch_of((b"t", b"no")))))
    claim = RaftMessage(MessageKind.HEARTBEAT, to=one.id, sender=leader.id, term=term + 9)
    one.replica.frames.received(two.id, RaftFrame(claim))
    one.replica.frames.received(leader.id, RaftFrame(msgspec.structs.replace(claim, to=two.id)))
    await leader.write(b"yes")
    await bench.settled(nodes, [b"yes"])
    assert {node.replica.term for node in nodes} == {term}


async def test_a_batch_is_not_taken_for_the_one_before_it_that_was_given_up(bench: Bench) -> None:
    """Both are on their way at once: the first in the log of a leader that was cut off."""
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    bench.network.isolate(leader.id)
    before = leader.store.last_index
    first = leader.submit(batch_of((b"t", b"first")))
    await until(lambda: leader.store.last_index > before)
    batches = leader.replica.proposals
    batches.refuse(batches.own[0], NoQuorum("given up"))
    with pytest.raises(NoQuorum):
        await first
    second = leader.submit(batch_of((b"t", b"second")))
    bench.network.heal()
    await second
    applied = leader.listener.applied
    assert applied[-1] == b"second"
    assert applied in ([b"first", b"second"], [b"second"])
    assert [batch.groups[b"t"].payloads for batch, _ in leader.listener.commits] == [[b"second"]]
    await until(lambda: all(node.stored() == applied for node in nodes))


async def test_large_batches_do_not_share_an_entry_and_none_is_passed_over(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    big = b"x" * (3 << 20)
    await asyncio.gather(*(node.write(b"%d" % node.id + big) for node in nodes))
    await until(lambda: all(len(node.listener.applied) == 3 for node in nodes))
    leader = await bench.leader()
    indexes = [commit.index for _, commit in leader.listener.commits + leader.listener.foreigners]
    assert len(set(indexes)) == 3


async def test_nothing_of_a_term_is_said_before_it_is_on_disk(bench: Bench) -> None:
    """Each answer and each vote is checked against the record of its sender."""
    said: list[str] = []

    def check(sender: NodeId, _to: NodeId, frame: Frame) -> bool:
        if isinstance(frame, RaftFrame):
            said.extend(premature(bench.network.nodes[sender], frame.message))
        return False

    bench.network.drops = check
    nodes = await bench.cluster(3)
    for number in range(3):
        leader = await bench.leader()
        await asyncio.gather(*(node.write(b"%d" % number) for node in nodes))
        bench.network.isolate(leader.id)
        await bench.leader(others(nodes, leader))
        bench.network.heal()
    await bench.leader()
    assert said == []


async def test_rows_ride_along_on_each_node_and_a_start_finds_all_they_follow_from(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, _ = others(nodes, leader)
    for node in (leader, follower):
        for number in range(3):
            batch = batch_of((b"t", b"%d.%d" % (node.id, number)))
            batch.add_row("sessions", b"row", b"%d" % number)
            batch.checkpoint = node.replica.applied_index
            await node.submit(batch)
    only_rows = Batch()
    only_rows.add_row("sessions", b"row", b"last")
    only_rows.checkpoint = follower.replica.applied_index
    index = follower.replica.applied_index
    commit = await follower.submit(only_rows)
    assert commit.count == 0
    assert commit.index >= index
    applied = follower.replica.applied_index
    follower.kill()
    follower.start()
    assert dict(follower.store.rows("sessions")) == {b"row": b"last"}
    assert follower.store.next_index - 1 >= index
    assert follower.replica.record.applied <= follower.store.next_index - 1 <= applied
    assert dict(leader.store.rows("sessions"))[b"row"] in {b"0", b"1", b"2"}


async def test_a_topic_that_is_dropped_beside_others_writes_is_dropped_everywhere(
    bench: Bench,
) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    one, two = others(nodes, leader)
    await leader.write(b"old", topic=b"gone")
    drop = Batch()
    drop.drop(b"gone")
    await asyncio.gather(
        leader.write(b"a", topic=b"stays"),
        one.submit(drop),
        two.write(b"b", topic=b"stays"),
    )
    await until(lambda: all(node.store.topic(b"gone") is None for node in nodes))
    await until(lambda: all(sorted(node.stored(b"stays")) == [b"a", b"b"] for node in nodes))


async def test_a_read_waits_for_all_that_was_acknowledged_before(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    bench.network.delay_s = 0.01
    for number in range(5):
        await leader.write(b"%d" % number)
        seen = await asyncio.gather(*(current(node) for node in nodes))
        assert seen == [[b"%d" % n for n in range(number + 1)]] * 3


async def test_a_read_on_a_leader_that_was_cut_off_is_not_answered(bench: Bench) -> None:
    nodes = await bench.cluster(3, no_leader_timeout_s=SOON_S)
    old = await bench.leader()
    bench.network.isolate(old.id)
    answers: list[object] = []
    old.replica.read_barrier(answers.append)
    new = await bench.leader(others(nodes, old))
    await new.write(b"1")
    await until(lambda: answers)
    assert isinstance(answers[0], NoQuorum)


async def test_an_error_of_the_disk_ends_a_node_of_a_cluster(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower, other = others(nodes, leader)

    def fail(_write: object) -> None:
        raise OSError(5, "Input/output error")

    follower.store.write = fail  # type: ignore[assignment,method-assign]
    await leader.write(b"1")
    await until(lambda: follower.failures)
    await other.write(b"2")
    assert follower.listener.applied == []


async def test_new_leader_does_not_guess_how_far_an_absent_node_is(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    away, other = others(nodes, leader)
    await leader.write(b"1")
    away.kill()
    leader.replica.transfer(other.id, lambda _error: None)
    await until(lambda: other.replica.is_leader)
    await other.write(b"2")
    await until(lambda: _seen(other, away).is_active is False)
    assert (_seen(other, away).match, _seen(other, away).lag) == (None, None)
    away.start()
    await until(lambda: _seen(other, away).lag == 0)


def _seen(node: Node, member: Node) -> MemberStatus:
    return next(m for m in node.replica.status().members if m.id == member.id)


async def test_status_says_how_each_node_is(bench: Bench) -> None:
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    await leader.write(b"1")
    away, other = others(nodes, leader)
    await until(lambda: all(member.lag == 0 for member in leader.replica.status().members))
    away.kill()
    await leader.write(b"2")
    await until(
        lambda: {m.id: m.is_active for m in leader.replica.status().members}[away.id] is False
    )
    status = leader.replica.status()
    lags = {member.id: member.lag for member in status.members}
    assert status.role == "leader"
    assert status.leader_addr == leader.member.client_addr
    assert status.commit == status.applied == status.last_index
    assert lags[leader.id] == 0
    assert lags[away.id] == 1
    assert status.counts.elections >= 0
    seen = other.replica.status()
    assert (seen.role, seen.leader, seen.term) == ("follower", leader.id, status.term)
    assert ForwardRefused not in {type(frame) for _, _, frame in bench.network.sent}
