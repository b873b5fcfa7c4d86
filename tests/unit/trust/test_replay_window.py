"""The replay window: each signature once, within bounds, whatever the clock does."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.trust.faults import SignatureFault
from penstock.trust.replay import AHEAD_MS_MAX, BUCKETS_PER_WINDOW, ReplayWindow

WINDOW = 300_000
NOW = 1_700_000_000_000


def window(entries_max=100, started_ms=0, window_ms=WINDOW):
    return ReplayWindow(window_ms, entries_max, started_ms)


def test_signature_is_fresh_once():
    seen = window()
    assert seen.check(7, b"nonce..1", NOW, NOW) is None
    assert seen.check(7, b"nonce..1", NOW, NOW + 1) is SignatureFault.REPLAYED
    assert seen.check(7, b"nonce..1", NOW, NOW + WINDOW) is SignatureFault.REPLAYED
    assert seen.check(7, b"nonce..1", NOW, NOW + WINDOW + 1) is SignatureFault.STALE


def test_another_key_nonce_or_time_is_another_signature():
    seen = window()
    assert seen.check(7, b"nonce..1", NOW, NOW) is None
    assert seen.check(8, b"nonce..1", NOW, NOW) is None
    assert seen.check(7, b"nonce..2", NOW, NOW) is None
    assert seen.check(7, b"nonce..1", NOW + 1, NOW) is None


def test_window_has_these_edges():
    seen = window()
    assert seen.check(7, b"a", NOW - WINDOW, NOW) is None
    assert seen.check(7, b"b", NOW - WINDOW - 1, NOW) is SignatureFault.STALE
    assert seen.check(7, b"c", NOW + AHEAD_MS_MAX, NOW) is None
    assert seen.check(7, b"d", NOW + AHEAD_MS_MAX + 1, NOW) is SignatureFault.AHEAD


def test_signature_from_before_the_start_is_refused_while_it_would_be_fresh():
    seen = window(started_ms=NOW)
    assert seen.check(7, b"a", NOW - 1, NOW) is SignatureFault.BEFORE_START
    assert seen.check(7, b"a", NOW - 1, NOW + WINDOW - 1) is SignatureFault.BEFORE_START
    assert seen.check(7, b"a", NOW - 1, NOW + WINDOW) is SignatureFault.STALE
    assert seen.check(7, b"a", NOW, NOW) is None


def test_full_window_refuses_and_remembers_what_it_holds():
    seen = window(entries_max=2)
    assert seen.check(7, b"a", NOW, NOW) is None
    assert seen.check(7, b"b", NOW, NOW) is None
    assert seen.check(7, b"c", NOW, NOW) is SignatureFault.WINDOW_FULL
    assert seen.check(7, b"a", NOW, NOW) is SignatureFault.REPLAYED
    assert seen.count == 2


def test_what_is_out_of_the_window_makes_room():
    seen = window(entries_max=1)
    assert seen.check(7, b"a", NOW, NOW) is None
    later = NOW + WINDOW + WINDOW // BUCKETS_PER_WINDOW
    assert seen.check(7, b"b", later, later) is None
    assert seen.count == 1


def test_clock_that_is_set_back_does_not_bring_forgotten_signatures_back():
    seen = window()
    assert seen.check(7, b"a", NOW, NOW) is None
    later = NOW + 2 * WINDOW
    assert seen.check(7, b"b", later, later) is None
    assert seen.check(7, b"a", NOW, NOW) is SignatureFault.STALE


def test_tiny_window_works():
    seen = window(window_ms=1)
    assert seen.check(7, b"a", NOW, NOW) is None
    assert seen.check(7, b"a", NOW, NOW + 1) is SignatureFault.REPLAYED
    assert seen.check(7, b"a", NOW, NOW + 2) is SignatureFault.STALE


@given(
    st.lists(
        st.tuples(
            st.integers(-2_000, 2_000),
            st.integers(-1_500, 1_500),
            st.sampled_from([b"a", b"b"]),
        ),
        max_size=60,
    )
)
def test_nothing_is_ever_accepted_twice_and_memory_is_bounded(steps):
    """The clock moves both ways; the model remembers everything forever."""
    seen, accepted, now_ms = window(entries_max=20, window_ms=1_000), set(), NOW
    for step_ms, behind_ms, nonce in steps:
        now_ms += step_ms
        entry = (7, nonce, now_ms - behind_ms)
        if seen.check(*entry, now_ms) is None:
            assert entry not in accepted
            accepted.add(entry)
        assert seen.count <= 20
