"""The log against its definition: a list of entries, whatever part of it is on the disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.raft.log import RaftLog, data_size
from penstock.raft.types import NO_LIMIT, Compacted, EntriesUnavailable, RaftEntry, SnapshotMeta
from tests.raft.scenario.storage import MemoryLog

TERMS = st.lists(st.integers(1, 4), max_size=12).map(sorted)


def log_of(terms, stable, compacted=0):
    """Entries of these terms, some of them on the disk, of which some are compacted."""
    entries = [RaftEntry(term, index, b"x" * index) for index, term in enumerate(terms, 1)]
    view = MemoryLog(SnapshotMeta())
    view.write(None, entries[:stable], None)
    log = RaftLog(view, NO_LIMIT)
    if entries[stable:]:
        log.append(entries[stable:])
    if compacted:
        log.commit_to(compacted)
        log.applied_to(compacted)
        view.compact(compacted)
    return log, entries


@st.composite
def logs(draw):
    terms = draw(TERMS)
    stable = draw(st.integers(0, len(terms)))
    return log_of(terms, stable, draw(st.integers(0, stable)))


@given(logs())
def test_terms_are_those_of_the_entries(made):
    log, entries = made
    terms = [0, *(entry.term for entry in entries)]
    first = log.first_index()
    assert log.last_index == len(entries)
    assert log.last_term == terms[-1]
    assert [log.term(index) for index in range(first - 1, len(terms))] == terms[first - 1 :]
    with pytest.raises(EntriesUnavailable):
        log.term(len(terms))
    if first > 1:
        with pytest.raises(Compacted):
            log.term(first - 2)


@given(logs(), st.integers(1, 13), st.integers(0, 100))
def test_a_slice_is_a_run_of_entries_that_fits_or_the_first_alone(made, low, bytes_max):
    log, entries = made
    if low < log.first_index():
        if low <= log.last_index:
            with pytest.raises(Compacted):
                log.entries(low, bytes_max)
        return
    found = log.entries(low, bytes_max)
    rest = entries[low - 1 :]
    assert list(found) == rest[: len(found)]
    assert bool(found) == bool(rest)
    assert len(found) <= 1 or data_size(found) <= bytes_max
    if len(found) < len(rest):
        assert data_size(rest[: len(found) + 1]) > bytes_max


@given(logs(), st.integers(0, 13), st.integers(0, 5))
def test_a_conflict_by_term_is_the_last_entry_of_no_later_term(made, index, term):
    log, _ = made
    assert log.find_conflict_by_term(index, term) == searched_one_by_one(log, index, term)


def searched_one_by_one(log, index, term):
    for at in range(index, 0, -1):
        try:
            here = log.term(at)
        except (Compacted, EntriesUnavailable):
            return at, 0
        if here <= term:
            return at, here
    return 0, 0


@given(TERMS, st.integers(0, 12), TERMS, st.integers(0, 12), st.integers(0, 12))
def test_a_leaders_entries_are_taken_from_the_first_conflict_on(
    terms, stable, sent, previous, commit
):
    log, entries = log_of(terms, min(stable, len(terms)))
    previous = min(previous, len(entries))
    new = [RaftEntry(term, previous + at) for at, term in enumerate(sent, 1)]
    kept = [entry.term for entry in entries]
    conflict = next(
        (e.index for e in new if e.index > len(kept) or kept[e.index - 1] != e.term), None
    )
    last = log.maybe_append(previous, log.term(previous), new, commit)
    assert last == previous + len(new)
    if conflict is not None:
        kept[conflict - 1 :] = [e.term for e in new[conflict - previous - 1 :]]
    assert [log.term(index) for index in range(1, log.last_index + 1)] == kept
    assert log.last_term == (kept[-1] if kept else 0)
    assert log.committed == min(commit, last)


def test_entries_that_follow_on_another_log_are_not_taken():
    log, _ = log_of([1, 1, 2], 2)
    assert log.maybe_append(3, 1, [RaftEntry(3, 4)], 0) is None
    assert log.maybe_append(4, 2, [RaftEntry(3, 5)], 0) is None
    assert log.last_index == 3


def test_a_log_is_up_to_date_by_term_first():
    log, _ = log_of([1, 1, 2], 3)
    assert log.is_up_to_date(1, 3)
    assert log.is_up_to_date(3, 2)
    assert log.is_up_to_date(4, 2)
    assert not log.is_up_to_date(2, 2)
    assert not log.is_up_to_date(9, 1)


def test_only_an_entry_of_the_leaders_term_is_committed():
    log, _ = log_of([1, 1, 2], 3)
    assert not log.maybe_commit(2, 2)
    assert log.maybe_commit(3, 2)
    assert not log.maybe_commit(3, 2)
    assert log.committed == 3


def test_a_cut_into_what_is_being_written_is_handed_out_again():
    log, _ = log_of([1, 1, 1], 0)
    log.unstable.accept()
    log.append([RaftEntry(2, 2)])
    assert log.unstable.next_entries() == (RaftEntry(2, 2),)
    assert log.last_index == 2


def test_a_snapshot_that_was_overtaken_by_another_does_not_count_as_installed():
    log, _ = log_of([], 0)
    log.restore(SnapshotMeta(5, 1))
    log.restore(SnapshotMeta(9, 1))
    log.unstable.stable_snapshot_to(5)
    assert log.unstable.snapshot == SnapshotMeta(9, 1)
    log.unstable.stable_snapshot_to(9)
    assert log.unstable.snapshot is None
