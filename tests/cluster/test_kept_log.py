"""How much of the log is kept for nodes that come back: by entries and by bytes."""

from penstock.cluster.kept_log import SPARED_TIMES, KeptLog

MIB = 1 << 20


def filled(entries_max, bytes_max, *sizes):
    kept = KeptLog(entries_max, bytes_max)
    for index, size in enumerate(sizes, 1):
        kept.add(index, size)
    return kept


def test_small_entries_are_bounded_by_their_number():
    kept = filled(10, MIB, *[100] * 50)
    assert kept.needed(50, []) == 40


def test_large_entries_are_bounded_by_their_bytes():
    kept = filled(10_000, 10 * MIB, *[MIB] * 50)
    assert kept.needed(50, []) == 40
    assert kept.bytes_after(40) == 10 * MIB


def test_nodes_that_are_up_and_slow_are_spared_but_not_for_ever():
    kept = filled(10_000, 10 * MIB, *[MIB] * 100)
    assert kept.needed(100, [70]) == 70
    assert kept.needed(100, [5]) == 100 - SPARED_TIMES * 10
    assert kept.needed(100, [99]) == 90, "never less than for those that are away"


def test_memory_does_not_grow_with_the_entries():
    kept = KeptLog(10, MIB)
    for index in range(1, 20_001):
        kept.add(index, 700)
    assert len(kept._ranges) <= (SPARED_TIMES + 1) * 70
    within = kept.bytes_after(kept.needed(20_000, []))
    assert within <= MIB


def test_entry_that_is_larger_than_the_limit_is_not_kept_for_others():
    kept = filled(10, MIB, 100, 100, 5 * MIB)
    assert kept.needed(3, []) == 3


def test_entries_of_an_earlier_life_go_when_enough_came_after_them():
    kept = KeptLog(10_000, 10 * MIB)
    for index in range(1_001, 1_006):
        kept.add(index, MIB)
    assert kept.needed(1_005, []) == max(0, 1_005 - 10_000)
    for index in range(1_006, 1_021):
        kept.add(index, MIB)
    assert kept.needed(1_020, []) == 1_010
