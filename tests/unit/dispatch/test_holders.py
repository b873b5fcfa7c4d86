"""Who was given which leases."""

from penstock.dispatch import holders
from penstock.dispatch.holders import Holders


def test_a_lease_is_found_in_its_share():
    known = Holders()
    known.note(10, 3, b"a")
    known.note(13, 1, b"b")
    known.note(20, 2, b"c")
    found = {lease: known.of(lease) for lease in range(9, 23)}
    assert found == dict.fromkeys(range(9, 23), b"") | {
        10: b"a", 11: b"a", 12: b"a", 13: b"b", 20: b"c", 21: b"c",
    }  # fmt: skip


def test_a_share_that_is_noted_late_is_found_as_well():
    known = Holders()
    for first in (10, 30, 20, 5):
        known.note(first, 2, b"%d" % first)
    assert [known.of(lease) for lease in (5, 10, 20, 31)] == [b"5", b"10", b"20", b"30"]


def test_only_the_latest_are_kept(monkeypatch):
    monkeypatch.setattr(holders, "SHARES_KEPT", 4)
    known = Holders()
    for lease in range(9):
        known.note(lease, 1, b"%d" % lease)
    assert [known.of(lease) for lease in range(9)] == [b""] * 4 + [b"4", b"5", b"6", b"7", b"8"]
