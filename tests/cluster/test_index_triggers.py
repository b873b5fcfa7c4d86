"""Something is done when exactly an entry is applied: not before, and not after."""

from penstock.cluster.index_triggers import IndexTriggers


def test_each_is_called_at_its_entry_once():
    triggers, called = IndexTriggers(), []
    for index in (3, 5, 5):
        triggers.add(index, lambda index=index: called.append(index))
    for index in range(1, 7):
        triggers.applied(index)
        triggers.applied(index)
    assert called == [3, 5, 5]


def test_who_waits_no_longer_is_not_called():
    triggers, called = IndexTriggers(), []

    def first():
        called.append("first")

    triggers.add(4, first)
    triggers.add(4, lambda: called.append("second"))
    triggers.remove(4, first)
    triggers.remove(9, first)
    triggers.applied(4)
    assert called == ["second"]
