"""Which signatures are known after a start, and from when on all of them are."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.commit import recovery
from penstock.commit.recovery import signed_before
from penstock.model.message import Extras, Message, Signature
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.trust.replay import AHEAD_MS_MAX

NOW, WINDOW = 1_700_000_000_000, 300_000


def signature(number, signed_ms):
    return Signature(2, 7, bytes(64), signed_ms, b"%08d" % number)


class Rows:
    """As much of a store as a search needs: messages by sequence, None for those removed."""

    def __init__(self, rows):
        self.rows = rows
        self.next_sequence = len(rows) + 1

    def read(self, sequences):
        return [self.rows[sequence - 1] for sequence in sequences]


def message(number, time_ms, signed_ms=None):
    extras = None if signed_ms is None else Extras(signature=signature(number, signed_ms))
    return Message(
        b"t", b"x", sequence=number, offset=number, time_ms=time_ms, flags=1, extras=extras
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 2 * WINDOW), st.integers(-AHEAD_MS_MAX, WINDOW), st.booleans()),
        max_size=30,
    )
)
def test_every_signature_from_the_known_time_on_is_found_whatever_was_removed(drawn):
    times = sorted(NOW - age for age, _, _ in drawn)
    accepted, rows = [], []
    for number, (time_ms, (_, before, is_removed)) in enumerate(zip(times, drawn, strict=True), 1):
        accepted.append(signature(number, time_ms - before))
        rows.append(None if is_removed else message(number, time_ms, time_ms - before))
    found = signed_before(Rows(rows), NOW, WINDOW)
    could_return = [
        one
        for one in accepted
        if one.signed_ms >= max(found.known_from_ms, NOW - WINDOW)
    ]  # fmt: skip
    assert {one.nonce for one in could_return} <= {one.nonce for one in found.signatures}


def test_a_short_whole_journal_is_known_from_the_beginning():
    found = signed_before(Rows([message(1, NOW - 5, NOW - 5)]), NOW, WINDOW)
    assert (len(found.signatures), found.known_from_ms) == (1, 0)


def test_a_search_that_is_too_long_ends_with_a_bound(monkeypatch):
    monkeypatch.setattr(recovery, "SIGNED_AT_ONCE", 10)
    monkeypatch.setattr(recovery, "SIGNED_SEARCHES_MAX", 2)
    rows = [message(number, NOW - 1_000 + number, NOW) for number in range(1, 101)]
    found = signed_before(Rows(rows), NOW, WINDOW)
    assert len(found.signatures) == 20
    assert found.known_from_ms == NOW - 1_000 + 81 + AHEAD_MS_MAX + 1


def test_signatures_are_read_from_a_real_store():
    store = MemoryStore()
    batch = Batch()
    batch.append(b"t", [b"x"], NOW, 1, [Extras(signature=signature(1, NOW))])
    store.commit(batch)
    assert [one.nonce for one in signed_before(store, NOW, WINDOW).signatures] == [b"00000001"]
