"""``penstock access``: export, plan, apply and import on a running broker."""

import json
import shutil
import subprocess
import sys

import pytest

from penstock.testing import Broker
from tests.e2e.access_kit import Kit

PASSWORD = "correct horse battery"


@pytest.fixture
def kit(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        kit = Kit(broker)
        kit.say(
            "roles", "add", "sensors", "--allow", "publish plant/#", "--deny", "publish plant/x"
        )
        kit.say("roles", "add", "readers", "--allow", "subscribe,read news/#")
        kit.say("users", "add", "root", "--admin")
        kit.say(
            "users", "add", "ann", "--role", "sensors", "--role", "readers", "--note", 'a "b"\\'
        )
        kit.say("users", "quota", "ann", "--connections", "3")
        kit.say("bans", "add", "address:192.0.2.0/24", "--note", "näh")
        yield kit


@pytest.fixture
def file(kit, tmp_path):
    file = tmp_path / "access.toml"
    file.write_text(kit.say("access", "export"))
    return file


def changed(file, before, after):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    return str(file)


# ── Exports and plans


@pytest.mark.parametrize("words", [(), ("--hashes",), ("--json",), ("--hashes", "--json")])
def test_a_plan_of_an_export_shows_no_difference(kit, tmp_path, words):
    file = tmp_path / "exported"
    file.write_text(kit.say("access", "export", *words))
    planned = kit.ask("access", "plan", str(file), "--prune")
    assert (planned["changes"], planned["loses"], planned["gains"]) == ([], [], [])


def test_an_export_has_hashes_only_on_request(kit):
    digest = kit.book.users["ann"].secrets[0].hex()
    assert digest not in kit.say("access", "export")
    assert digest in kit.say("access", "export", "--hashes")


def test_a_verifier_goes_with_its_hash_and_with_no_other(kit, tmp_path):
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    kit.say("users", "password", "ann", "--password-file", str(secret))
    user = kit.book.users["ann"]
    assert user.scram not in kit.say("access", "export")
    file = tmp_path / "exported"
    file.write_text(kit.say("access", "export", "--hashes"))
    assert user.scram in file.read_text()
    other = tmp_path / "other"
    other.write_text(file.read_text().replace(user.password[-8:], "AAAAAAAA"))
    refused = kit.run("access", "plan", str(other))
    assert refused.exit_code
    assert "scram: it is not of the password's hash" in refused.output
    without = tmp_path / "without"
    lines = [line for line in other.read_text().splitlines() if not line.startswith("scram")]
    without.write_text("\n".join(lines))
    kit.say("access", "apply", str(without), "--yes")
    assert kit.book.users["ann"].scram == "", "the verifier is of the password before"
    kit.say("access", "apply", str(file), "--yes")
    assert kit.book.users["ann"].scram == user.scram


def test_an_export_with_hashes_makes_the_same_users_elsewhere(kit, tmp_path):
    file = tmp_path / "exported"
    file.write_text(kit.say("access", "export", "--hashes"))
    with Broker(data=tmp_path / "other") as other:
        twin = Kit(other)
        twin.say("access", "apply", str(file), "--yes")
        assert twin.book.users["ann"].secrets == kit.book.users["ann"].secrets
        assert twin.book.roles == kit.book.roles


def test_a_plan_says_who_loses_and_who_gains_what(kit, file):
    path = changed(file, "subscribe,read news/#", "subscribe news/world")
    planned = kit.ask("access", "plan", path)
    assert [change["name"] for change in planned["changes"]] == ["readers"]
    assert {(one["user"], one["action"], one["filter"]) for one in planned["loses"]} == {
        ("ann", "subscribe", "news/#"),
        ("ann", "read", "news/#"),
        ("ann", "read", "news/world"),
    }
    assert planned["gains"] == []
    text = kit.say("access", "plan", path)
    assert "Loses:" in text
    assert "all -> some" in text
    assert kit.book.roles["readers"].rules == ("allow subscribe,read news/#",)


def test_rules_that_say_the_same_differently_change_no_rights(kit, file):
    path = changed(
        file, '"allow subscribe,read news/#"', '"allow read news/#", "allow subscribe news/#"'
    )
    planned = kit.ask("access", "plan", path)
    assert planned["changes"]
    assert (planned["loses"], planned["gains"]) == ([], [])


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="needs Mosquitto's tools")
def test_a_plan_names_stored_subscriptions_that_receive_less(kit, file):
    secret = kit.ask("users", "secret", "ann")["secret"]
    words = ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(kit.broker.port), "-i", "reader-1", "-c"]
    words += ["-u", "ann", "-P", secret, "-q", "1", "-t", "news/#", "-E"]
    subprocess.run(words, check=True, timeout=30)
    path = changed(file, "subscribe,read news/#", "subscribe news/world")
    assert kit.ask("access", "plan", path)["subscriptions"] == [
        {"user": "ann", "client_id": "reader-1", "topic_filter": "news/#"}
    ]


# ── Applying


def test_a_file_is_applied_and_users_keep_their_credentials(kit, file):
    before = kit.book.users["ann"].secrets
    path = changed(file, "plant/x", "plant/y")
    assert "1 row changed" in kit.say("access", "apply", path, "--yes")
    assert kit.book.roles["sensors"].rules[1] == "deny publish plant/y"
    assert kit.book.users["ann"].secrets == before
    assert "no difference" in kit.say("access", "apply", path)


def test_pruning_removes_what_the_file_does_not_name(kit, file):
    text = file.read_text()
    start = text.index('[users."ann"]')
    end = text.index('[users."root"]')
    file.write_text(text[:start] + text[end:])
    kit.say("tokens", "add", "ann")
    kit.say("access", "apply", str(file), "--yes")
    assert "ann" in kit.book.users
    planned = kit.ask("access", "plan", str(file), "--prune")
    assert planned["locked_out"] == ["ann"]
    kit.say("access", "apply", str(file), "--prune", "--yes")
    assert kit.book.users.keys() == {"root"}
    assert not kit.book.tokens


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"allow publish plant/#"', '"allow fly plant/#"', "no action"),
        ('roles = ["admin"]', 'roles = ["client"]', "last administrator"),
        ('roles = ["admin"]', 'roles = ["admin", "nurses"]', "no role nurses"),
        ('roles = ["admin"]', 'role = ["admin"]', "unknown field"),
        ('roles = ["admin"]', "roles = [", "TOML|Invalid|Unclosed"),
    ],
)
def test_a_file_with_one_fault_changes_nothing(kit, file, before, after, why):
    version = kit.book.version
    changed(file, "plant/x", "plant/y")
    result = kit.run("access", "apply", changed(file, before, after), "--yes")
    assert result.exit_code == 1
    assert any(word in result.output for word in why.split("|")), result.output
    assert kit.book.version == version


def test_what_somebody_else_changes_before_the_confirmation_refuses_the_file(kit, file):
    from penstock.cli.admin_client import SocketClient

    client = SocketClient(kit.data / "admin.sock")
    document = client.get("access/export")["document"]
    document["roles"]["sensors"]["rules"] = []
    planned = client.post("access/plan", document=document)
    kit.say("roles", "allow", "sensors", "read", "a")
    with pytest.raises(Exception, match="somebody else changed"):
        client.post("access/apply", document=document, expected=planned["version"])
    assert "allow read a" in kit.book.roles["sensors"].rules


def test_a_file_is_applied_to_a_stopped_broker(tmp_path):
    file, data = tmp_path / "access.json", tmp_path / "data"
    document = {"roles": {"r": {"rules": ["allow publish a"]}}, "users": {"ann": {"roles": ["r"]}}}
    file.write_text(json.dumps(document))
    with Broker(data=data):
        pass
    command = [
        sys.executable,
        "-m",
        "penstock",
        "access",
        "apply",
        str(file),
        "--yes",
        "--data",
        str(data),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with Broker(data=data) as broker:
        assert Kit(broker).book.users["ann"].roles == ("r",)


# ── Imports


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="needs Mosquitto's tools")
def test_users_of_mosquitto_log_in_with_their_passwords_and_rules(kit, tmp_path):
    passwords, acl = tmp_path / "passwords", tmp_path / "acl"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(passwords), "pump", PASSWORD], check=True)
    acl.write_text("user pump\ntopic write plant/pump\n")
    done = _import(kit, "mosquitto", "--passwords", str(passwords), "--acl", str(acl))
    assert done.exit_code == 0, done.output
    publish = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(kit.broker.port), "-q", "1", "-m", "x"]
    login = ["-u", "pump", "-P", PASSWORD]
    to_pump = ["-t", "plant/pump"]
    subprocess.run([*publish, *login, *to_pump], check=True, timeout=30)
    refused = subprocess.run([*publish, *login[:3], "wrong", *to_pump], check=False, timeout=30)
    assert refused.returncode != 0


def test_a_bad_line_imports_nothing_at_all(kit, tmp_path):
    version, file = kit.book.version, tmp_path / "users.acl"
    file.write_text(f"user bob on #{'ab' * 32} ~jobs\nuser eve on nopass\n")
    result = _import(kit, "redis", str(file))
    assert "line 2: 'nopass'" in result.output
    assert kit.book.version == version
    file.write_text(f"user bob on #{'ab' * 32} ~jobs\n")
    assert _import(kit, "redis", str(file)).exit_code == 0
    assert kit.book.users["bob"].roles == ("redis-bob",)


def _import(kit, kind, *words):
    from click.testing import CliRunner

    from penstock.cli import penstock

    where = ["--data", str(kit.data), "--yes"]
    return CliRunner().invoke(penstock, ["access", "import", kind, *where, *words])


# ── Who changed what


def test_the_log_of_changes_names_who_and_what_and_no_secret(kit):
    entries = kit.ask("access", "log")
    last = entries[-1]
    assert (last["action"], last["user"][:4]) == ("access", "uid ")
    assert last["changes"][0]["name"] == "address:192.0.2.0/24"
    assert kit.book.users["ann"].secrets[0].hex() not in str(entries)
    kit.say("users", "disable", "ann")
    kit.say("users", "secret", "ann")
    kit.say("bans", "remove", "address:192.0.2.0/24")
    said = [line.partition("access, ")[2] for line in kit.say("access", "log").splitlines()]
    assert said[-4:] == [
        "ban address:192.0.2.0/24 added",
        "user ann changed (disabled)",
        "user ann changed (credentials)",
        "ban address:192.0.2.0/24 removed",
    ]


def test_a_broker_on_which_nothing_was_changed_has_an_empty_log(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        assert Kit(broker).ask("access", "log") == []


@pytest.mark.parametrize("asked", [("read", "$audit/access"), ("subscribe", "$audit/access")])
def test_the_log_of_changes_is_for_administrators(kit, asked):
    assert kit.run("acl", "check", "ann", *asked).stdout.startswith("denied")
    assert kit.run("acl", "check", "root", *asked).stdout.startswith("allowed")
