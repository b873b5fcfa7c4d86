"""Keys, users, roles, tokens, bans, verdicts and the audit log, asked of a real broker."""

import json

import pytest
from tests.api_kit import ApiClient

from penstock.testing import Broker
from penstock.trust.signatures import key_pair


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        yield broker


@pytest.fixture
def root(broker):
    return ApiClient(broker.port, "root", "root-secret")


def done(answer):
    assert answer.status == 200, answer
    return answer.document


def names(page):
    return [item["name"] for item in page["items"]]


def patch(client, path, body):
    return client.ask("PATCH", path, body)


def put(client, path, body):
    return client.ask("PUT", path, body)


# ── users ─────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_is_in_the_answer_that_makes_it_and_nowhere_else(broker, root):
    made = done(root.post("users", {"name": "pump", "roles": ["client"], "generate_secret": True}))
    assert (made["secrets"], made["password"], made["admin"]) == (1, False, False)
    assert done(ApiClient(broker.port, "pump", made["secret"]).get("session"))["user"] == "pump"
    shown = json.dumps([done(root.get("users")), done(root.get("audit"))])
    assert made["secret"] not in shown
    assert all("secret" not in user for user in done(root.get("users"))["items"])


def test_a_password_is_never_shown_and_can_be_used(broker, root):
    done(
        root.post("users", {"name": "ann", "roles": ["admin"], "password": "correct horse battery"})
    )
    assert done(ApiClient(broker.port, "ann", "correct horse battery").get("users"))["items"]
    assert "correct horse" not in json.dumps([done(root.get("users")), done(root.get("audit"))])


def test_a_change_keeps_what_it_does_not_name(root):
    done(root.post("users", {"name": "pump", "roles": ["client"], "note": "in hall 3"}))
    quotas = {"messages_per_s": 100}
    changed = done(patch(root, "users", {"name": "pump", "quotas": quotas, "disabled": True}))
    assert (changed["note"], changed["roles"], changed["disabled"]) == (
        "in hall 3",
        ["client"],
        True,
    )
    assert changed["quotas"]["messages_per_s"] == 100


def test_a_new_secret_may_end_the_old_ones(broker, root):
    old = done(root.post("users", {"name": "pump", "roles": ["client"], "generate_secret": True}))
    wanted = {"name": "pump", "generate_secret": True, "replace_secrets": True}
    new = done(patch(root, "users", wanted))
    assert new["secrets"] == 1
    assert ApiClient(broker.port, "pump", old["secret"]).get("session").status == 401
    assert ApiClient(broker.port, "pump", new["secret"]).get("session").status == 200


def test_somebody_elses_change_is_not_overwritten(root):
    made = done(root.post("users", {"name": "pump"}))
    done(patch(root, "users", {"name": "pump", "note": "first"}))
    late = patch(root, "users", {"name": "pump", "note": "second", "expected": made["version"]})
    assert (late.status, late.document["code"]) == (409, "conflict")


def test_users_come_in_pages_and_go_with_their_tokens(root):
    for name in ("a", "b", "c"):
        done(root.post("users", {"name": name, "roles": ["client"]}))
    token = done(root.post("tokens", {"owner": "b"}))
    first = done(root.get("users", limit=2))
    rest = done(root.get("users", limit=2, cursor=first["next"]))
    assert names(first) + names(rest) == ["a", "b", "c", "root"]
    assert done(root.delete("users", name="b"))["kind"] == "user"
    assert token["id"] not in [t["id"] for t in done(root.get("tokens"))["items"]]
    assert patch(root, "users", {"name": "b", "note": "gone"}).status == 404


def test_the_last_administrator_stays(root):
    refused = root.delete("users", name="root")
    assert refused.status == 409
    assert names(done(root.get("users"))) == ["root"]


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


def test_a_token_is_shown_once_and_makes_no_secrets(broker, root):
    made = done(root.post("tokens", {"owner": "root", "note": "backup", "expires_s": 60}))
    bearer = ApiClient(broker.port, authorization=f"Bearer {made['token']}")
    assert done(bearer.get("session"))["via"] == "token"
    (listed,) = done(bearer.get("tokens", owner="root"))["items"]
    assert (listed["id"], listed["note"], "token" in listed) == (made["id"], "backup", False)
    assert bearer.post("tokens", {"owner": "root"}).status == 403
    assert bearer.post("users", {"name": "x", "generate_secret": True}).status == 403
    done(root.delete("tokens", name=made["id"]))
    assert bearer.get("session").status == 401


def test_an_invitation_is_a_token_for_one_purpose(root):
    done(root.post("users", {"name": "ann"}))
    made = done(root.post("tokens", {"owner": "ann", "invitation": True}))
    assert made["purpose"] == "invite"
    assert made["token"]


# ── roles and verdicts ────────────────────────────────────────────────────────────────────────


def test_roles_have_their_rules_in_order(root):
    rules = ["deny publish plant/cmd/#", "allow publish plant/#"]
    made = done(put(root, "roles", {"name": "sensors", "rules": rules}))
    assert (made["rules"], made["built_in"], made["users"]) == (rules, False, 0)
    assert "admin" in names(done(root.get("roles")))
    done(root.delete("roles", name="sensors"))
    assert "sensors" not in names(done(root.get("roles")))


def test_a_verdict_names_the_rule_that_decides(root):
    rules = ["deny publish plant/cmd/#", "allow publish plant/#"]
    done(put(root, "roles", {"name": "sensors", "rules": rules}))
    done(root.post("users", {"name": "alice", "roles": ["sensors"]}))
    asked = {"user": "alice", "action": "publish"}
    denied = done(root.get("access/check", **asked, topic="plant/cmd/7"))
    assert (denied["allowed"], denied["subject"]) == (False, "user:alice")
    assert denied["rule"] == {"role": "sensors", "number": 1, "text": "deny publish plant/cmd/#"}
    assert "a deny wins wherever it stands: remove rule 1 of the role" in denied["advice"]
    allowed = done(root.get("access/check", **asked, topic="plant/p7"))
    assert (allowed["allowed"], allowed["rule"]["number"], allowed["advice"]) == (True, 2, "")
    silent = done(root.get("access/check", **asked, topic="other"))
    assert (silent["allowed"], silent["rule"]) == (False, None)
    assert "allow publish other" in silent["advice"]
    some = done(root.get("access/check", role="sensors", action="publish", topic="plant/#"))
    assert (some["allowed"], some["coverage"]) == (True, "some")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"action": "publish", "topic": "t"}, 400),
        ({"action": "fly", "user": "root", "topic": "t"}, 400),
        ({"action": "publish", "user": "root"}, 400),
        ({"action": "publish", "user": "nobody", "topic": "t"}, 404),
        ({"action": "publish", "role": "nothing", "topic": "t"}, 404),
    ],
)
def test_half_a_question_has_no_verdict(root, query, status):
    assert root.get("access/check", **query).status == status


def test_what_was_denied_is_listed(broker, root):
    broker.add_user("weak", "weak-secret", rules=("allow publish x",))
    weak = ApiClient(broker.port, "weak", "weak-secret")
    assert weak.get("users").status == 403
    (denial,) = done(root.get("access/denials", user="weak"))["items"]
    assert (denial["user"], denial["action"], denial["door"]) == ("weak", "admin", "http")


# ── bans ──────────────────────────────────────────────────────────────────────────────────────


def test_bans_are_listed_until_they_are_removed(root):
    made = done(put(root, "bans", {"name": "client:pump-7", "expires_s": 60, "note": "noisy"}))
    assert (made["expired"], made["note"]) == (False, "noisy")
    assert names(done(root.get("bans"))) == ["client:pump-7"]
    done(root.delete("bans", name="client:pump-7"))
    assert done(root.get("bans"))["items"] == []
    assert put(root, "bans", {"name": "what"}).status == 409


# ── keys ──────────────────────────────────────────────────────────────────────────────────────


def test_keys_are_registered_revoked_enabled_and_rotated(root):
    first, second = (key_pair(bytes([n]) * 32).public_key.hex() for n in (1, 2))
    made = done(root.post("keys", {"device": "d1", "topics": "plant/#", "public_key": first}))
    assert (made["state"], made["device"]) == ("active", "d1")
    assert done(root.post("keys/revoke", {"id": made["id"]}))["state"] == "revoked"
    assert done(root.post("keys/enable", {"id": made["id"]}))["state"] == "active"
    wanted = {"id": made["id"], "public_key": second, "overlap_s": 60}
    rotated = done(root.post("keys/rotate", wanted))
    assert rotated["previous"]["successor"] == rotated["key"]["id"]
    assert len(done(root.get("keys"))["items"]) == 2
    assert root.post("keys/revoke", {"id": 99}).status == 404
    assert done(root.get("audit", action="keys"))["items"][0]["user"] == "root"


# ── the audit log ─────────────────────────────────────────────────────────────────────────────


def test_the_audit_log_is_read_backwards_page_by_page(root):
    for number in range(7):
        done(root.post("users", {"name": f"u{number}"}))
    seen, cursor = [], None
    while True:
        page = done(root.get("audit", user="root", limit=3, cursor=cursor))
        seen += [record["changes"][0]["name"] for record in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [f"u{number}" for number in reversed(range(7))]


def test_the_audit_log_is_searched(root):
    for name in ("pump", "valve"):
        done(root.post("users", {"name": name}))
    (found,) = done(root.get("audit", find="valve"))["items"]
    assert found["changes"][0]["name"] == "valve"
    assert done(root.get("audit", action="cluster"))["items"] == []


# ── who may ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["users", "roles", "tokens", "bans", "keys", "audit", "access/denials"]
)
def test_only_administrators_see_who_may_what(broker, path):
    broker.add_user("watch", "watch-secret", rules=("allow monitor",))
    refused = ApiClient(broker.port, "watch", "watch-secret").get(path)
    assert (refused.status, refused.document["code"]) == (403, "forbidden")
    assert ApiClient(broker.port).get(path).status in {401, 403}
