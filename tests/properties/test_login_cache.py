"""The cache of passwords that were right, against a model."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.access.login_cache import LoginCache

names = st.sampled_from(["ann", "bob", "annb", ""])
hashes = st.sampled_from(["$1", "$2", "b$1", ""])
secrets = st.sampled_from([b"one", b"two", b"$1one", b""])
logins = st.tuples(names, hashes, secrets)


@given(logins, logins)
def test_marks_are_equal_only_for_equal_logins(one, other):
    cache = LoginCache(bytes(32), 60)
    assert (cache.mark(*one) == cache.mark(*other)) == (one == other)


def test_marks_differ_between_processes():
    login = ("ann", "$1", b"one")
    assert LoginCache(bytes(32), 60).mark(*login) != LoginCache(bytes(31) + b"1", 60).mark(*login)


@given(st.lists(st.tuples(st.booleans(), logins, st.floats(0, 40)), max_size=60), st.integers(1, 5))
def test_a_login_is_known_for_its_time_unless_newer_ones_took_its_place(steps, entries_max):
    cache, now = LoginCache(bytes(32), 60, entries_max), 0.0
    noted: dict[tuple[str, str, bytes], float] = {}  # in the order in which they were noted last
    for is_right, login, pause in steps:
        now += pause
        mark = cache.mark(*login)
        latest = list(noted)[-entries_max:]
        expected = login in latest and now < noted[login] + 60
        if cache.knows(mark, now):
            assert expected
        elif login in latest and expected:
            raise AssertionError(login)
        if is_right:
            noted.pop(login, None)
            noted[login] = now
            cache.note(mark, now)
        elif not expected:
            noted.pop(login, None)
        assert len(cache) <= entries_max


def test_nothing_is_kept_if_it_is_turned_off():
    cache = LoginCache(bytes(32), 0)
    cache.note(b"mark", 0.0)
    assert not cache.knows(b"mark", 0.0)
    assert not len(cache)
