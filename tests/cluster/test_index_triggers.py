"""Something is done when exactly an entry is applied: not before, and not after."""

from penstock.cluster.index_triggers import IndexTriggers


def test_each_is_called_at_its_entry_once():
    moments, called = IndexTriggers(), []
    for index in (3, 5, 5):
        moments.wait(index, lambda index=index: called.append(index))
    for index in range(1, 7):
        moments.reached(index)
        moments.reached(index)
    assert called == [3, 5, 5]


def test_who_waits_no_longer_is_not_called():
    moments, called = IndexTriggers(), []

    def first():
        called.append("first")

    moments.wait(4, first)
    moments.wait(4, lambda: called.append("second"))
    moments.forget(4, first)
    moments.forget(9, first)
    moments.reached(4)
    assert called == ["second"]
