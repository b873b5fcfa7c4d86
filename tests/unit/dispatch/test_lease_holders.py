"""Who was given a lease: remembered within bounds, at the cost of an append."""

from penstock.dispatch.leases import HOLDERS_MAX, Leases


def leases():
    class Clock:
        @staticmethod
        def wall_ms():
            return 0

    class Parts:
        clock = Clock

    return Leases(Parts, lambda _topic, _group: None)


def test_a_lease_is_found_by_any_number_of_its_share():
    held = leases()
    held.given(10, 3, b"queue#1#1")
    held.given(13, 1, b"queue#2#1")
    assert [held.holder(number) for number in (9, 10, 12, 13, 14)] == [
        b"", b"queue#1#1", b"queue#1#1", b"queue#2#1", b"",
    ]  # fmt: skip


def test_old_shares_are_forgotten():
    held = leases()
    for number in range(HOLDERS_MAX + 1):
        held.given(number, 1, b"w")
    assert (held.holder(0), held.holder(1)) == (b"", b"w")
    assert held.holder(1, looked_at=10) == b"", "a record of the present looks at the last ones"
