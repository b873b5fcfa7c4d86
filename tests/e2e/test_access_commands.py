"""``penstock roles``, ``tokens``, ``bans`` and ``acl`` on a running broker."""

from hashlib import sha256

import pytest

from penstock.testing import Broker
from penstock.trust.rows import BUILT_IN
from tests.conformance.wire_client import WireClient, connack, connect_packet, puback, publish
from tests.e2e.access_kit import Kit

PASSWORD = "correct horse battery"


@pytest.fixture
def kit(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        yield Kit(broker)


# ── Roles


def test_a_role_is_added_changed_and_removed(kit):
    kit.say("roles", "add", "sensors", "--allow", "publish plant/%u/#", "--deny", "read plant/x")
    kit.say("roles", "allow", "sensors", "subscribe", "news/#")
    kit.say("roles", "deny", "sensors", "publish,subscribe", "news/secret")
    assert kit.ask("roles", "show", "sensors")["rules"] == [
        "allow publish plant/%u/#",
        "deny read plant/x",
        "allow subscribe news/#",
        "deny publish,subscribe news/secret",
    ]
    kit.say("roles", "remove", "sensors", "2")
    assert kit.book.roles["sensors"].rules[1] == "allow subscribe news/#"
    kit.say("roles", "remove", "sensors", "--yes")
    assert "sensors" not in kit.book.roles


def test_a_rule_is_there_once(kit):
    kit.say("roles", "add", "r", "--allow", "publish a")
    assert kit.ask("roles", "allow", "r", "publish", "a")["rules"] == ["allow publish a"]


def test_built_in_roles_are_listed_and_marked(kit):
    listed = kit.ask("roles", "list")
    assert {role["name"] for role in listed} == BUILT_IN.keys()
    assert all(role["built_in"] for role in listed)


def test_a_built_in_role_can_be_replaced_but_not_admin(kit):
    kit.say("roles", "add", "local", "--allow", "monitor")
    assert kit.book.role("local").rules == ("allow monitor",)
    assert "built in" in kit.run("roles", "add", "admin", "--allow", "monitor").output


@pytest.mark.parametrize("rule", ["fly a", "publish", "publish a/#/b", "publish x%u/a"])
def test_a_rule_that_means_nothing_is_refused(kit, rule):
    result = kit.run("roles", "add", "r", "--allow", rule)
    assert result.exit_code != 0
    assert "r" not in kit.book.roles


def test_roles_that_include_each_other_are_refused(kit):
    kit.say("roles", "add", "a", "--allow", "publish a")
    kit.say("roles", "add", "b", "--role", "a")
    document = {"rules": [], "roles": ["b"]}
    client = _client(kit)
    with pytest.raises(Exception, match="include each other"):
        client.put("roles", name="a", **document)
    assert kit.book.roles["a"].roles == ()


def test_a_role_that_somebody_has_stays(kit):
    kit.say("roles", "add", "a", "--allow", "publish a")
    kit.say("users", "add", "ann", "--role", "a")
    assert "there is no role a" in kit.run("roles", "remove", "a", "--yes").output
    assert "a" in kit.book.roles


def test_a_change_of_what_somebody_else_changed_is_refused(kit):
    kit.say("roles", "add", "a", "--allow", "publish a")
    client = _client(kit)
    seen = client.get("roles/detail", name="a")["version"]
    kit.say("roles", "allow", "a", "publish", "b")
    with pytest.raises(Exception, match="somebody else changed"):
        client.put("roles", name="a", rules=["allow publish c"], expected=seen)
    assert kit.book.roles["a"].rules == ("allow publish a", "allow publish b")


def _client(kit):
    from penstock.cli.admin_client import SocketClient

    return SocketClient(kit.data / "admin.sock")


# ── Tokens and invitations


def test_a_token_is_shown_once_and_kept_as_a_digest(kit):
    kit.say("users", "add", "ann", "--role", "monitor", "--role", "client")
    made = kit.ask("tokens", "add", "ann", "--role", "monitor", "--expires", "1d", "--note", "ci")
    prefix, name, secret = made["token"].split("_")
    row = kit.book.tokens[name]
    assert (prefix, row.owner, row.roles) == ("pst", "ann", ("monitor",))
    assert row.digest == sha256(secret.encode()).digest()
    assert row.expires_ms - row.created_ms == 24 * 3600 * 1000
    (listed,) = kit.ask("tokens", "list")
    assert listed["id"] == name
    assert secret not in str(listed)
    kit.say("tokens", "remove", name)
    assert not kit.book.tokens


def test_a_token_has_no_role_that_its_owner_lacks(kit):
    kit.say("users", "add", "ann", "--role", "monitor")
    result = kit.run("tokens", "add", "ann", "--role", "admin")
    assert "does not have the role admin" in result.output
    assert not kit.book.tokens


def test_tokens_go_with_their_owner(kit):
    kit.say("users", "add", "ann")
    kit.say("tokens", "add", "ann")
    kit.say("users", "remove", "ann", "--yes")
    assert not kit.book.tokens


def test_an_invitation_sets_the_password_of_its_owner_once(kit, tmp_path):
    kit.say("users", "add", "root", "--admin")
    kit.say("users", "add", "ann")
    invitation, password = tmp_path / "invitation", tmp_path / "password"
    invitation.write_text(kit.ask("users", "invite", "ann")["token"] + "\n")
    password.write_text(PASSWORD + "\n")
    words = ("users", "password", "ann", "--invite-file", str(invitation))
    words += ("--password-file", str(password))
    kit.say(*words, by=kit.address)  # without any other proof
    assert kit.book.users["ann"].password.startswith("$argon2id$")
    assert kit.ask("users", "show", "ann")["scram"]
    assert not kit.book.tokens
    assert "wrong or was used" in kit.run(*words, by=kit.address).output


def test_an_invitation_ends_after_an_hour(kit, tmp_path):
    kit.say("users", "add", "ann")
    invitation, password = tmp_path / "invitation", tmp_path / "password"
    invitation.write_text(kit.ask("users", "invite", "ann")["token"])
    password.write_text(PASSWORD)
    row = next(iter(kit.book.tokens.values()))
    assert row.expires_ms - row.created_ms == 3_600_000
    words = ("users", "password", "ann", "--invite-file", str(invitation))
    kit.broker.clock.advance(3_601)
    result = kit.run(*words, "--password-file", str(password), by=kit.address)
    assert "expired" in result.output
    assert not kit.book.users["ann"].password


# ── Bans


@pytest.mark.parametrize("name", ["user:ann", "client:pump/7", "address:192.0.2.0/24"])
def test_bans_are_added_listed_and_removed(kit, name):
    kit.say("bans", "add", name, "--expires", "1h", "--note", "noisy")
    (listed,) = kit.ask("bans", "list")
    assert (listed["name"], listed["note"], listed["expired"]) == (name, "noisy", False)
    kit.say("bans", "remove", name)
    assert not kit.book.bans


@pytest.mark.parametrize("name", ["ann", "user:", "address:300.1.1.1", "planet:mars"])
def test_a_ban_of_nobody_is_refused(kit, name):
    assert kit.run("bans", "add", name).exit_code == 1
    assert not kit.book.bans


# ── Explaining


@pytest.fixture
def sensors(kit):
    rules = (
        "--allow",
        "publish plant/#",
        "--allow",
        "subscribe %c/in",
        "--deny",
        "publish plant/x/#",
    )
    kit.say("roles", "add", "sensors", *rules)
    kit.say("users", "add", "ann", "--role", "sensors")
    return kit


@pytest.mark.parametrize(
    ("asked", "said", "status"),
    [
        (("publish", "plant/a"), "allowed: role sensors, rule 1: allow publish plant/#", 0),
        (("publish", "plant/x/a"), "denied: role sensors, rule 3: deny publish plant/x/#", 1),
        (("read", "plant/a"), "denied: no rule allows it", 1),
        (("subscribe", "p7/in"), "denied: no rule allows it", 1),
        (("monitor",), "denied: no rule allows it", 1),
        (("publish", "plant/#"), "allowed in part", 0),
        (("publish", "plant/x/+"), "denied: no topic that matches is allowed", 1),
    ],
)
def test_a_check_names_the_rule_that_decides(sensors, asked, said, status):
    result = sensors.run("acl", "check", "ann", *asked)
    assert result.stdout.startswith(said)
    assert result.exit_code == status


def test_a_check_takes_a_client_id(sensors):
    result = sensors.run("acl", "check", "ann", "subscribe", "p7/in", "--client-id", "p7")
    assert result.stdout == "allowed: role sensors, rule 2: allow subscribe %c/in\n"


def test_a_check_of_a_dead_letter_topic_is_about_managing_its_origin(sensors):
    result = sensors.run("acl", "check", "local", "read", "$dlq/plant/a/g")
    assert result.stdout.startswith("allowed: role local, rule 1: allow publish")


@pytest.mark.parametrize(
    "asked", [("bob", "publish", "a"), ("ann", "fly", "a"), ("ann", "publish")]
)
def test_a_check_of_what_is_not_there_says_so(sensors, asked):
    result = sensors.run("acl", "check", *asked)
    assert result.exit_code == 1
    assert result.stdout == ""


def test_what_was_denied_can_be_looked_up(sensors):
    sensors.say("users", "add", "root", "--admin")
    assert sensors.run("users", "list", by=sensors.address).exit_code == 1
    (denied,) = sensors.ask("acl", "log")
    assert (denied["user"], denied["door"], denied["action"]) == ("", "http", "admin")
    assert sensors.ask("acl", "log", "ann") == []


def test_retained_messages_that_are_withheld_are_listed(kit):
    assert kit.say("acl", "withheld") == "nothing is withheld\n"
    kit.broker.add_user("root", PASSWORD, roles=["admin"])
    kit.broker.add_user("ann", PASSWORD)
    with WireClient(kit.broker.host, kit.broker.port) as client:
        client.send(connect_packet("ann", username="ann", password=PASSWORD.encode()))
        client.expect(connack())
        for number in (1, 2):
            client.send(publish(f"k/{number}", b"kept", qos=1, packet_id=number, retain=True))
            client.expect(puback(number))
    assert kit.ask("acl", "withheld") == []
    kit.say("users", "disable", "ann", "--wait-all")
    found = kit.ask("acl", "withheld")
    assert sorted((one["topic"], one["author"], one["payload_bytes"]) for one in found) == [
        ("k/1", "ann", 4),
        ("k/2", "ann", 4),
    ]
    assert "and more" in kit.say("acl", "withheld", "-n", "1")
    kit.say("users", "enable", "ann")
    assert kit.ask("acl", "withheld") == []
