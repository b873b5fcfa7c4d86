"""Back-off against a model that keeps everything, and the claims about it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.trust.backoff import FREE, WAIT_S_MAX, Backoff

ADDRESSES = ("10.0.0.1", "10.0.0.2", "2001:db8::/64")
USERS = ("ann", "bob", "")

attempts = st.lists(
    st.tuples(
        st.sampled_from(ADDRESSES),
        st.sampled_from(USERS),
        st.booleans(),
        st.floats(0, 400),
    ),
    max_size=200,
)


class Naive:
    """Replays the whole history of a key to answer."""

    def __init__(self) -> None:
        self.failures: dict[tuple[str, str], list[float]] = {}
        self.known: set[tuple[str, str]] = set()

    def until(self, key: tuple[str, str]) -> float:
        count, waits, since, until = 0, 0, 0.0, 0.0
        is_first = True
        for time in self.failures.get(key, []):
            if is_first or time >= max(until + WAIT_S_MAX, since + 60):
                count, waits, since, until, is_first = 0, 0, time, time, False
            if not waits and time >= since + 60:
                count, since = 0, time
            count += 1
            if count > FREE:
                until = time + min(2.0**waits, WAIT_S_MAX)
                waits += 1
        return until

    def wait_s(self, address: str, user: str, now: float) -> float:
        return max(max(self.until(key) - now, 0.0) for key in self.keys(address, user))

    def keys(self, address: str, user: str) -> list[tuple[str, str]]:
        if (address, user) in self.known:
            return [(address, user)]
        return [key for key in ((address, ""), ("", user)) if any(key)]


@given(attempts)
def test_back_off_is_as_if_the_whole_history_was_kept(history):
    backoff, naive, now = Backoff(), Naive(), 1_000.0
    for address, user, is_right, pause in history:
        now += pause / 20
        wait_s = backoff.wait_s(address, user, now)
        assert abs(wait_s - naive.wait_s(address, user, now)) < 1e-6
        if wait_s:
            continue
        if is_right and user:
            backoff.succeeded(address, user)
            naive.known.add((address, user))
        else:
            backoff.failed(address, user, now)
            for key in naive.keys(address, user):
                naive.failures.setdefault(key, []).append(now)


@given(st.integers(1, 500))
def test_guessing_from_everywhere_does_not_lock_a_user_out_where_it_is_known(guesses):
    backoff = Backoff()
    backoff.succeeded("10.0.0.1", "ann")
    for number in range(guesses):
        backoff.failed(f"10.1.{number // 250}.{number % 250}", "ann", 5.0)
    assert backoff.wait_s("10.0.0.1", "ann", 5.0) == 0
    assert (backoff.wait_s("10.9.9.9", "ann", 5.0) > 0) == (guesses > FREE)


@given(st.integers(1, 100))
def test_a_broken_device_does_not_lock_out_others_at_its_address(failures):
    backoff = Backoff()
    backoff.succeeded("10.0.0.1", "ann")
    for _ in range(failures):
        backoff.failed("10.0.0.1", "bob", 5.0)
    assert backoff.wait_s("10.0.0.1", "ann", 5.0) == 0
    assert (backoff.wait_s("10.0.0.1", "bob", 5.0) > 0) == (failures > FREE)


def test_guessing_at_a_known_user_at_its_own_address_is_slowed_down_too():
    backoff = Backoff()
    backoff.succeeded("10.0.0.1", "ann")
    for _ in range(FREE + 1):
        backoff.failed("10.0.0.1", "ann", 5.0)
    assert backoff.wait_s("10.0.0.1", "ann", 5.0) == 1


@given(st.floats(0, 1))
def test_one_address_gets_few_guesses_in_an_hour(patience):
    """It tries as soon as it may, or a little later."""
    backoff, now, guesses = Backoff(), 0.0, 0
    while now < 3_600:
        backoff.failed("10.0.0.1", "", now)
        guesses += 1
        now += backoff.wait_s("10.0.0.1", "", now) + patience
    assert guesses <= FREE + 9 + 12 + 1


def test_the_wait_doubles_up_to_five_minutes_and_ends():
    backoff, now, waits = Backoff(), 0.0, []
    for _ in range(FREE + 11):
        backoff.failed("a", "", now)
        waits.append(backoff.wait_s("a", "", now))
        now += waits[-1]
    assert waits == [0.0] * FREE + [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    backoff.failed("a", "", now + 2 * WAIT_S_MAX)
    assert backoff.wait_s("a", "", now + 2 * WAIT_S_MAX) == 0


def test_both_tables_are_bounded_and_guessing_does_not_push_out_known_addresses():
    backoff = Backoff(entries_max=100)
    backoff.succeeded("home", "ann")
    for number in range(1_000):
        backoff.failed(f"a{number}", f"u{number}", 0.0)
    assert len(backoff) == 101
    for _ in range(50):
        backoff.failed("else", "ann", 1.0)
    assert backoff.wait_s("home", "ann", 1.0) == 0
    assert backoff.wait_s("other", "ann", 1.0) > 0
