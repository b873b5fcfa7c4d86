"""What a node remembers comes back as it was, and never makes it say two things."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.disk import DiskWork, joined
from penstock.cluster.frames import Member
from penstock.cluster.log_view import StoreLog
from penstock.cluster.reads import ReadBarriers
from penstock.cluster.record import (
    VERSION,
    RaftRecord,
    cluster_id_of,
    decode_record,
    encode_record,
    genesis_record,
    installed_record,
    prune_terms,
    term_of,
    terms_with,
)
from penstock.errors import NoQuorum, StorageDamaged, StorageForeign
from penstock.raft.types import Compacted, ConfState, EntriesUnavailable, RaftEntry, ReadState
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import LogEntry, Write

MEMBERS = [Member(2, "b:1"), Member(1, "a:1", "a:2")]


def record(**changes: object) -> RaftRecord:
    return msgspec.structs.replace(genesis_record(1, bytes(15) + b"x", MEMBERS), **changes)


def test_a_record_comes_back_as_it_was() -> None:
    full = record(
        incarnation=3,
        term=7,
        vote=2,
        terms=[(1, 1), (5, 7)],
        applied=9,
        conf=ConfState((1, 2), (3,)),
        origins={1: (3, 4)},
        removed=[9],
        arrived=[1],
    )
    assert decode_record(encode_record(full)) == full


def test_what_is_no_record_or_another_versions_is_refused() -> None:
    with pytest.raises(StorageDamaged):
        decode_record(b"\x91\xc1")
    with pytest.raises(StorageForeign):
        decode_record(encode_record(record(version=VERSION + 1)))


def test_the_same_nodes_make_the_same_cluster_in_whatever_order() -> None:
    assert cluster_id_of(MEMBERS) == cluster_id_of(MEMBERS[::-1])
    assert cluster_id_of(MEMBERS) != cluster_id_of(MEMBERS[:1])
    assert genesis_record(1, b"x" * 16, MEMBERS).conf == ConfState((1, 2))


def test_a_store_that_had_entries_before_is_of_term_one() -> None:
    old = genesis_record(1, b"x" * 16, [Member(1)], last_index=5)
    assert (old.term, old.applied, term_of(old.terms, 5)) == (1, 5, 1)
    assert old.is_alone()


@pytest.mark.parametrize(("own", "term", "vote"), [((3, 2), 5, 0), ((5, 2), 5, 2), ((8, 1), 8, 1)])
def test_whoever_takes_over_a_store_stays_who_he_is_and_forgets_no_vote(own, term, vote) -> None:
    theirs = record(node_id=2, term=5, vote=3, origins={2: (1, 1)}, applied=40, incarnation=99)
    mine = record(term=own[0], vote=own[1], incarnation=4)
    installed = installed_record(theirs, mine)
    assert (installed.node_id, installed.incarnation) == (1, 4)
    assert (installed.term, installed.vote) == (term, vote)
    assert (installed.applied, installed.origins) == (40, {2: (1, 1)})


@given(st.lists(st.tuples(st.integers(1, 20), st.lists(st.integers(0, 2), min_size=1)), max_size=8))
def test_terms_are_those_of_the_entries_written_last(writes) -> None:
    terms: list[tuple[int, int]] = []
    log: list[int] = []
    for first, steps in writes:
        del log[first - 1 :]
        start = len(log) + 1
        term = log[-1] if log else 1
        entries = []
        for place, step in enumerate(steps):
            term += step
            entries.append(RaftEntry(term, start + place))
            log.append(term)
        terms = terms_with(terms, entries)
    assert [term_of(terms, index) for index in range(1, len(log) + 1)] == log
    assert term_of(terms, 0) == 0
    for first_index in range(1, len(log) + 1):
        kept = prune_terms(terms, first_index)
        assert all(
            term_of(kept, n) == log[n - 1] for n in range(max(first_index - 1, 1), len(log) + 1)
        )


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 4)), max_size=6))
def test_entries_that_replace_others_are_written_in_their_place(writes) -> None:
    written: dict[int, int] = {}
    work: list[RaftEntry] = []
    for number, (wanted, count) in enumerate(writes):
        first = min(wanted, max(written, default=0) + 1)
        entries = [RaftEntry(number, first + place) for place in range(count)]
        written = {index: term for index, term in written.items() if index < first}
        written |= {entry.index: number for entry in entries}
        work = joined(work, entries)
        assert [entry.index for entry in work] == list(range(work[0].index, work[-1].index + 1))
    assert all(written[entry.index] == entry.term for entry in work)
    assert not work or work[-1].index == max(written)


def log_view() -> tuple[MemoryStore, StoreLog, RaftRecord]:
    store = MemoryStore()
    kept = record(term=2)
    return store, StoreLog(store, kept), kept


def test_the_core_sees_entries_when_it_is_told_and_with_their_terms() -> None:
    store, view, kept = log_view()
    entries = [RaftEntry(1, 1), RaftEntry(2, 2), RaftEntry(2, 3)]
    kept.terms = terms_with(kept.terms, entries)
    store.write(Write([LogEntry(entry.index, 0, b"") for entry in entries], committed=0))
    assert view.last_index() == 0
    with pytest.raises(EntriesUnavailable):
        view.term(1)
    view.stable(entries)
    assert view.last_index() == 3
    assert [view.term(index) for index in range(4)] == [0, 1, 2, 2]
    assert view.entries(1, 4, 1 << 20) == tuple(entries)
    view.forget()
    assert view.entries(2, 4, 1 << 20) == tuple(entries[1:])
    with pytest.raises(EntriesUnavailable):
        view.entries(3, 5, 1 << 20)
    with pytest.raises(Compacted):
        view.entries(0, 2, 1 << 20)


def test_entries_at_hand_are_replaced_with_those_on_disk() -> None:
    _, view, _ = log_view()
    view.stable([RaftEntry(1, 1, b"a"), RaftEntry(1, 2, b"b")])
    view.stable([RaftEntry(2, 2, b"c"), RaftEntry(2, 3, b"d")])
    assert [entry.data for entry in view.entries(1, 4, 1 << 20)] == [b"a", b"c", b"d"]
    assert [entry.data for entry in view.entries(1, 4, 2)] == [b"a", b"c"]
    assert [entry.data for entry in view.entries(1, 4, 0)] == [b"a"]


def test_reads_that_come_while_one_is_asked_share_the_next() -> None:
    asked: list[bytes] = []
    told: list[tuple[str, object]] = []
    reads = ReadBarriers(1, 1, asked.append, retry_ticks=2)
    reads.add(lambda error: told.append(("a", error)))
    reads.add(lambda error: told.append(("b", error)))
    reads.add(lambda error: told.append(("c", error)))
    assert len(asked) == 1
    reads.answered(ReadState(5, asked[0]), applied=4)
    assert len(asked) == 2
    assert told == []
    reads.applied(5)
    assert told == [("a", None)]
    reads.answered(ReadState(3, b"another"), applied=5)
    reads.answered(ReadState(5, asked[1]), applied=5)
    assert told == [("a", None), ("b", None), ("c", None)]


def test_a_read_that_is_not_answered_is_asked_again_and_then_given_up() -> None:
    asked: list[bytes] = []
    told: list[object] = []
    reads = ReadBarriers(1, 1, asked.append, retry_ticks=2)
    reads.add(told.append)
    for _ in range(5):
        reads.tick(patience_ticks=6)
    assert len(set(asked)) == len(asked) == 3
    reads.answered(ReadState(1, asked[0]), applied=9)
    assert told == []
    reads.tick(patience_ticks=6)
    assert isinstance(told[0], NoQuorum)
    reads.add(told.append)
    assert len(asked) == 4


def test_a_read_whose_entries_do_not_come_is_given_up_too() -> None:
    asked: list[bytes] = []
    told: list[object] = []
    reads = ReadBarriers(1, 1, asked.append, retry_ticks=2)
    reads.add(told.append)
    reads.answered(ReadState(5, asked[0]), applied=4)
    for _ in range(3):
        reads.tick(patience_ticks=4)
    assert told == []
    reads.tick(patience_ticks=4)
    assert isinstance(told[0], NoQuorum)
    reads.applied(5)
    assert len(told) == 1


def test_rows_wait_for_a_write_and_go_with_it_once() -> None:
    batch = Batch()
    batch.add_row("sessions", b"a", b"1")
    batch.checkpoint = 3
    work = DiskWork(apply_to=4)
    work.add_rows(batch)
    following = work.successor()
    assert work.write(b"record", 4) is None
    following.entries = [RaftEntry(1, 5)]
    write = following.write(b"record", 4)
    assert write is not None
    assert (write.rows, write.checkpoint) == (batch.rows, 3)
    assert following.successor() == DiskWork()


def test_what_the_store_has_let_go_is_gone_for_a_core_with_peers_though_it_is_at_hand() -> None:
    """The terms of such entries are forgotten: it must send a copy, not ask for a term of 0."""

    class Trimmed(MemoryStore):
        first_index = 6  # type: ignore[assignment]

    entries = [RaftEntry(2, index) for index in range(1, 9)]
    with_peers = StoreLog(Trimmed(), record(terms=[(6, 2)]))
    with_peers.stable(entries)
    assert with_peers.first_index() == 6
    with pytest.raises(Compacted):
        with_peers.term(4)
    alone = StoreLog(Trimmed(), record(terms=[(1, 2)], conf=ConfState((1,))))
    alone.stable(entries)
    assert alone.first_index() == 1
