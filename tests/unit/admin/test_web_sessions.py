"""Sessions of browsers: bounds."""

from penstock.admin.web_sessions import SESSIONS_MAX, USER_SESSIONS_MAX, WebSessions
from penstock.testing import VirtualClock
from penstock.trust.principal import Principal
from penstock.trust.rights import ALL_RIGHTS


def principal(name, expires_ms=0):
    return Principal(name, ALL_RIGHTS, expires_ms=expires_ms)


def same(who):
    return who


def make(sessions, name, **options):
    return sessions.begin(principal(name, **options), 1, has_api_token=False)


def test_user_has_so_many_and_the_oldest_goes():
    sessions = WebSessions(VirtualClock())
    texts = [make(sessions, "ann") for _ in range(USER_SESSIONS_MAX + 1)]
    assert sessions.find(texts[0], 1, same) is None
    assert sessions.find(texts[1], 1, same).principal.user == "ann"


def test_there_are_so_many_and_the_one_idle_for_longest_goes():
    sessions = WebSessions(VirtualClock())
    texts = [make(sessions, f"user{n}") for n in range(SESSIONS_MAX)]
    assert sessions.find(texts[0], 1, same) is not None
    make(sessions, "one more")
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(texts[0], 1, same) is not None
    assert sessions.find(texts[1], 1, same) is None


def test_session_is_judged_again_when_rules_have_changed():
    sessions, asked = WebSessions(VirtualClock()), []
    text = make(sessions, "ann")
    for version in (1, 2, 2):
        sessions.find(text, version, lambda who: asked.append(who) or who)
    assert len(asked) == 1
    assert sessions.find(text, 3, lambda _who: None) is None
    assert len(sessions) == 0


def test_session_ends_with_the_credentials():
    clock = VirtualClock()
    sessions = WebSessions(clock)
    text = make(sessions, "ann", expires_ms=clock.wall_ms() + 1_000)
    assert sessions.find(text, 1, same) is not None
    clock.advance(1)
    assert sessions.find(text, 1, same) is None


def test_looking_does_not_keep_a_session_alive():
    clock = VirtualClock()
    sessions = WebSessions(clock)
    text = make(sessions, "ann")
    found = sessions.find(text, 1, same)
    clock.advance(5 * 3600)
    assert sessions.look(found.id, 1, same) is not None
    clock.advance(4 * 3600)
    assert sessions.look(found.id, 1, same) is None


def test_cookie_itself_is_not_kept():
    sessions = WebSessions(VirtualClock())
    text = make(sessions, "ann")
    assert text not in repr(vars(sessions))
