"""``session``, asked of a real broker: who one is, logging in and out with a cookie."""

import pytest
from tests.api_kit import ApiClient

from penstock.admin.web_sessions import IDLE_S
from penstock.testing import Broker
from penstock.trust.book import removed
from penstock.trust.rows import User


def rights(answer):
    assert answer.status == 200, answer
    return {r["action"]: (r["allowed"], r["topics"]) for r in answer.document["rights"]}


def test_without_users_everybody_on_this_machine_may_do_everything():
    with Broker() as broker:
        client = ApiClient(broker.port)
        answer = client.get("session")
        refused = client.post("session", {"user": "ann", "secret": "x"})
    assert answer.document["user"] == ""
    assert not answer.document["has_users"]
    assert rights(answer)["publish"] == (True, "all")
    assert rights(answer)["admin"] == (True, "")
    assert (refused.status, refused.document["detail"]) == (401, "there are no users yet")


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("sensor", "sensor-secret", rules=("allow publish plant/#",))
        yield broker


def test_user_learns_what_they_may_do(broker):
    answer = ApiClient(broker.port, "sensor", "sensor-secret").get("session")
    assert (answer.document["user"], answer.document["via"]) == ("sensor", "secret")
    assert answer.document["has_users"]
    assert rights(answer) == {
        "publish": (True, "some"),
        "subscribe": (False, "none"),
        "read": (False, "none"),
        "work": (False, "none"),
        "manage": (False, "none"),
        "monitor": (False, ""),
        "admin": (False, ""),
    }


def test_wrong_secret_is_a_problem(broker):
    answer = ApiClient(broker.port, "sensor", "wrong").get("session")
    assert (answer.status, answer.document["code"]) == (401, "unauthenticated")
    assert answer.headers["content-type"] == "application/problem+json"


def test_description_is_there_for_everybody(broker):
    answer = ApiClient(broker.port).get("openapi.json")
    assert answer.document["openapi"] == "3.1.0"
    assert "/session" in answer.document["paths"]


# ── browsers ──────────────────────────────────────────────────────────────────────────────────


def browser(broker, **headers):
    """A page of the console."""
    own = {
        "origin": f"http://127.0.0.1:{broker.port}",
        "sec_fetch_site": "same-origin",
        "x_penstock": "1",
    }
    return ApiClient(broker.port, **(own | headers))


def log_in(broker, user, secret):
    page = browser(broker)
    answer = page.post("session", {"user": user, "secret": secret})
    assert answer.status == 200, answer
    page.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
    return page, answer


def test_cookie_says_who_one_is(broker):
    page, answer = log_in(broker, "root", "root-secret")
    assert answer.document["user"] == "root"
    assert answer.document["roles"] == ["admin"]
    assert (answer.document["cookie"], answer.document["idle_s"]) == (True, IDLE_S)
    assert page.get("session").document["user"] == "root"
    assert page.headers["cookie"].startswith(f"penstock-{broker.port}=")
    flags = answer.headers["set-cookie"].split("; ")[1:]
    assert flags == ["Path=/", "HttpOnly", "SameSite=Strict"]  # and Secure over TLS


def test_other_pages_take_the_cookie_too(broker):
    page, _ = log_in(broker, "root", "root-secret")
    assert page.get("/users").status == 200


def test_wrong_secret_begins_no_session(broker):
    answer = browser(broker).post("session", {"user": "root", "secret": "wrong"})
    assert (answer.status, answer.document["code"]) == (401, "unauthenticated")
    assert "set-cookie" not in answer.headers


def test_logging_out_ends_the_session(broker):
    page, _ = log_in(broker, "sensor", "sensor-secret")
    answer = page.delete("session")
    assert answer.document == {"ended": True}
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert page.get("session").document["user"] == ""


def test_made_up_cookie_is_nobody(broker):
    page = browser(broker, cookie=f"penstock-{broker.port}=x; other=\xff".encode("latin-1"))
    assert page.get("session").document["user"] == ""


def test_session_ends_with_its_secret():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("ann", "first")
        page, _ = log_in(broker, "ann", "first")
        broker.add_user("other", "unrelated")
        assert page.get("session").document["user"] == "ann"
        broker.add_user("ann", "second")
        assert page.get("session").document["user"] == ""


def test_session_ends_with_its_user():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("ann", "first")
        page, _ = log_in(broker, "ann", "first")
        broker.change_access(removed(User("ann")))
        assert page.get("session").document["user"] == ""


def test_session_ends_when_it_was_idle_for_long():
    with Broker(users={"ann": "first"}) as broker:
        page, _ = log_in(broker, "ann", "first")
        broker.clock.advance(IDLE_S - 1)
        assert page.get("session").document["user"] == "ann"
        broker.clock.advance(IDLE_S - 1)
        assert page.get("session").document["user"] == "ann"
        broker.clock.advance(IDLE_S)
        assert page.get("session").document["user"] == ""


def test_rights_of_a_session_are_those_of_now():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("ann", "first", rules=("allow publish plant/#",))
        page, _ = log_in(broker, "ann", "first")
        broker.add_user("ann", "first", rules=("allow read #",))
        assert rights(page.get("session"))["read"] == (True, "all")
        assert rights(page.get("session"))["publish"] == (False, "none")


def test_configured_token_logs_in_too():
    token = "a-token-of-the-configuration"
    with Broker(admin={"token": token}) as broker:
        page, answer = log_in(broker, "", token)
        assert rights(answer)["admin"] == (True, "")
        assert page.get("session").document["cookie"]
        wrong = browser(broker).post("session", {"secret": "wrong"})
        assert wrong.status == 401
        assert page.get("/keys").status == 200
        assert browser(broker).get("session").status == 401


@pytest.mark.parametrize(
    ("headers", "is_accepted"),
    [
        ({}, True),
        ({"x_penstock": "0"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "same-site"}, False),
    ],
)
def test_browser_changes_things_only_from_our_own_page(broker, headers, is_accepted):
    page = browser(broker, **headers)
    answer = page.post("session", {"user": "root", "secret": "root-secret"})
    assert answer.status == (200 if is_accepted else 403)
    assert is_accepted or answer.document["code"] == "forbidden"


def test_cookie_alone_changes_nothing(broker):
    page, _ = log_in(broker, "root", "root-secret")
    blind = ApiClient(broker.port, cookie=page.headers["cookie"])
    assert blind.delete("session").status == 403
    assert page.get("session").document["user"] == "root"


def test_another_site_reads_nothing(broker):
    assert browser(broker, sec_fetch_site="cross-site").get("openapi.json").status == 403
    assert browser(broker, host="evil.example").get("openapi.json").status == 403


def test_programs_need_no_header_of_browsers(broker):
    answer = ApiClient(broker.port).post("session", {"user": "root", "secret": "root-secret"})
    assert answer.status == 200
