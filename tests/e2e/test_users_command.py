"""``penstock users``: on a running broker by its socket or by HTTP, and on a stopped one."""

import json
import os
import socket
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.e2e.access_kit import Kit
from tests.e2e.process import BrokerProcess

PASSWORD = "correct horse battery"


@pytest.fixture
def kit(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        yield Kit(broker)


@pytest.fixture
def password_file(tmp_path):
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    return str(file)


def offline(*words, **options):
    script = Path(sys.executable).with_name("penstock")
    return subprocess.run(
        [script, *words],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        **options,
    )


# ── Adding users


def test_the_first_administrator_gets_its_password_from_a_file(kit, password_file):
    made = kit.ask("users", "add", "ann", "--admin", "--password-file", password_file)
    assert (made["admin"], made["password"], made["secrets"]) == (True, True, 0)
    assert kit.book.users["ann"].password.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert made["scram"]
    assert "SCRAM-SHA-256  yes" in kit.say("users", "show", "ann")
    assert kit.book.users["ann"].scram not in kit.say("users", "list", "--json")


def test_a_password_can_come_by_standard_input(kit):
    made = kit.ask("users", "add", "ann", "--password-file", "-", input=PASSWORD + "\n")
    assert made["password"]


def test_without_a_terminal_a_secret_is_made_and_shown_once(kit):
    made = kit.ask("users", "add", "pump-7")
    assert kit.book.users["pump-7"].secrets == (sha256(made["secret"].encode()).digest(),)
    assert made["secret"] not in kit.say("users", "show", "pump-7")
    assert len(made["secret"]) == len("psd_") + 32  # 160 bits, five in each letter


def test_a_user_has_the_role_of_clients_unless_others_are_named(kit):
    assert kit.ask("users", "add", "ann")["roles"] == ["client"]
    assert kit.ask("users", "add", "bob", "--role", "monitor")["roles"] == ["monitor"]


@pytest.mark.parametrize(
    ("name", "why"), [("a/b", "a name has"), ("-x", "a name has"), ("a" * 65, "a name has")]
)
def test_names_that_would_mean_more_than_a_name_are_refused(kit, name, why):
    result = kit.run("users", "add", "--", name)
    assert why in result.output


def test_short_passwords_are_refused(kit, tmp_path):
    (tmp_path / "short").write_text("elevenchars\n")
    result = kit.run("users", "add", "ann", "--password-file", str(tmp_path / "short"))
    assert "at least 12 characters" in result.output
    assert kit.book.is_open


def test_a_user_is_added_once(kit):
    kit.say("users", "add", "ann")
    assert "already" in kit.run("users", "add", "ann").output


def test_an_unknown_role_is_refused_and_nothing_is_stored(kit):
    assert "no role nurse" in kit.run("users", "add", "ann", "--role", "nurse").output
    assert kit.book.is_open


# ── Changing users


def test_roles_are_set_added_and_taken_away(kit):
    kit.say("users", "add", "ann")
    assert kit.ask("users", "roles", "ann", "monitor", "operator") == ["monitor", "operator"]
    assert kit.ask("users", "roles", "ann", "+client") == ["monitor", "operator", "client"]
    assert kit.ask("users", "roles", "ann", "--json", "--", "-monitor") == ["operator", "client"]
    assert kit.ask("users", "roles", "ann", "--none") == []


def test_a_new_secret_leaves_the_last_one_valid_until_the_next(kit):
    first = kit.ask("users", "add", "pump")["secret"]
    second = kit.ask("users", "secret", "pump")["secret"]
    known = kit.book.users["pump"].secrets
    assert known == tuple(sha256(text.encode()).digest() for text in (second, first))
    third = kit.ask("users", "secret", "pump", "--replace")["secret"]
    assert kit.book.users["pump"].secrets == (sha256(third.encode()).digest(),)


def test_a_user_is_disabled_enabled_limited_and_removed(kit):
    kit.say("users", "add", "ann")
    assert kit.ask("users", "disable", "ann")["disabled"]
    assert not kit.ask("users", "enable", "ann")["disabled"]
    assert kit.ask("users", "quota", "ann", "--connections", "5") == {"connections": 5}
    assert kit.ask("users", "quota", "ann", "--messages-per-s", "9") == {
        "connections": 5,
        "messages_per_s": 9,
    }
    kit.say("users", "remove", "ann", "--yes")
    assert "no user ann" in kit.run("users", "show", "ann").output


def test_the_last_administrator_can_be_neither_removed_nor_disabled(kit):
    kit.say("users", "add", "ann", "--admin")
    for words in (("remove", "ann", "--yes"), ("disable", "ann"), ("roles", "ann", "client")):
        assert "last administrator" in kit.run("users", *words).output
    kit.say("users", "add", "bob", "--admin")
    kit.say("users", "remove", "ann", "--yes")


# ── By socket, by HTTP, on a stopped broker


def test_the_socket_is_for_its_owner_alone_and_goes_with_the_broker(tmp_path):
    with Broker(data=tmp_path / "data"):
        found = (tmp_path / "data" / "admin.sock").stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
    assert not (tmp_path / "data" / "admin.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_others_are_cut_off_even_if_the_file_lets_them_in(kit):
    path = kit.data / "admin.sock"
    path.chmod(0o666)
    for parent in path.parents:
        if parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
        if parent == Path("/tmp"):
            break
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); s.settimeout(20);"
        "s.sendall(b'GET /users HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n');"
        "print(s.recv(100))"
    )
    words = [sys.executable, "-c", code, path]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.stdout == "b''\n" or "reset" in done.stderr or "BrokenPipe" in done.stderr


def test_a_path_too_long_for_a_socket_address_works(tmp_path):
    data = tmp_path / ("long" * 30) / "data"
    data.parent.mkdir()
    with Broker(data=data) as broker:
        assert Kit(broker).ask("users", "add", "ann")["name"] == "ann"
        assert len(str(data)) > 108


def test_http_serves_the_same_while_there_is_no_administrator(kit):
    where = kit.address
    assert kit.ask("users", "add", "ann", by=where)["name"] == "ann"


def test_a_data_directory_in_the_environment_does_not_replace_a_given_address(kit, tmp_path):
    where = kit.address
    elsewhere = {"PENSTOCK_DATA": str(tmp_path / "other")}
    assert kit.ask("users", "add", "ann", by=where, env=elsewhere)["name"] == "ann"
    assert not (tmp_path / "other").exists()


def test_users_made_before_the_first_start_are_there_and_survive_kill(tmp_path, password_file):
    data = tmp_path / "data"
    words = ("users", "add", "ann", "--admin", "--data", data)
    done = offline(*words, "--password-file", password_file)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    with BrokerProcess(data) as broker:
        made = offline("users", "add", "pump", "--data", data, "--json")
        assert json.loads(made.stdout)["name"] == "pump"
        broker.kill()
        broker.wait_killed()
        assert (data / "admin.sock").exists()
        listed = offline("users", "list", "--data", data, "--json")
        assert [user["name"] for user in json.loads(listed.stdout)] == ["ann", "pump"]


def test_a_stopped_node_of_a_cluster_is_refused(tmp_path):
    settings = tmp_path / "penstock.toml"
    settings.write_text(
        '[cluster]\nnode_id = 2\npeer_listen = "127.0.0.1:17700"\nsecret = "0123456789abcdef"\n'
    )
    words = ("users", "add", "ann", "--data", tmp_path / "data", "--config", settings)
    done = offline(*words)
    assert done.returncode == 1
    assert "node of a cluster" in done.stderr
    assert "without --data" in done.stderr


def test_a_foreign_file_in_place_of_the_socket_is_no_running_broker(tmp_path):
    data = tmp_path / "data"
    with Broker(data=data):
        pass
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.path.relpath(data / "admin.sock"))
    done = offline("users", "list", "--data", data, "--json")
    assert json.loads(done.stdout) == []
