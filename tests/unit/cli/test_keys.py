"""``penstock keys`` against the real API, over a socket."""

import asyncio
import json
import re
import shlex
import socket
import stat
import threading
import time
from datetime import UTC, datetime

import pytest
import uvicorn
from click.testing import CliRunner

from penstock.admin.app import create_app
from penstock.admin.guard import Guard
from penstock.api.app import create_api
from penstock.api.keys import DeviceKeys
from penstock.api.parts import Parts
from penstock.cli import key_files, penstock
from penstock.cli.key_files import DeviceKeyPair
from penstock.config.schema import Log
from penstock.testing.quiet import Quiet
from penstock.trust.keys import Key, KeyRing
from penstock.trust.signatures import is_valid, key_pair, sign_1

TOKEN = "correct-horse-battery"
DAY_MS = 24 * 3_600_000
PUBLIC_KEY = key_pair(bytes(32)).public_key.hex()


class Book:
    """The keys of a broker that has nothing else."""

    def __init__(self):
        self.ring = KeyRing()
        self.one_at_a_time = asyncio.Lock()

    async def confirmed(self):
        """No other node could know more."""

    def keys(self):
        return self.ring.all()

    def next_key_id(self):
        return self.ring.next_id()

    def wall_ms(self):
        return int(time.time() * 1000)

    async def store_keys(self, *keys):
        for key in keys:
            self.ring.put(key)


class Served:
    """A key store behind a socket, and the command line in its own directory."""

    def __init__(self, port, book, directory):
        self.port, self.book, self.directory = port, book, directory

    def run(self, *arguments, token=TOKEN, server=True, **options):
        where = ["--server", f"127.0.0.1:{self.port}"] if server else []
        environ = {"PENSTOCK_ADMIN_TOKEN": token}
        words = ["keys", arguments[0], *where, *arguments[1:]]
        return CliRunner().invoke(penstock, words, env=environ, **options)

    def key(self, key_id=1) -> Key:
        return self.book.ring.get(key_id)


@pytest.fixture(scope="module")
def server():
    """One server for all tests; each puts its own key store behind it."""
    behind = {}

    async def app(scope, receive, send):
        await behind["app"](scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", loop="asyncio")
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(serving.serve([listener])))
    quiet = Quiet()
    quiet.begin(Log(level="error"))
    thread.start()
    yield listener.getsockname()[1], behind
    serving.should_exit = True
    thread.join()
    quiet.end()
    listener.close()


@pytest.fixture
def served(server, tmp_path, monkeypatch):
    port, behind = server
    book = Book()
    parts = Parts(view=book, guard=Guard(TOKEN), keys=book)
    behind["app"] = create_app(None, token=TOKEN, api=create_api(parts, resources=[DeviceKeys]))
    monkeypatch.chdir(tmp_path)
    return Served(port, book, tmp_path)


def arrays(header: str) -> dict[str, bytes]:
    """Read the byte arrays of a header as a C compiler would."""
    found = re.findall(r"uint8_t (\w+)\[\d+\] = \{([^}]*)\}", header)
    return {name: bytes(int(n, 16) for n in re.findall(r"0x..", body)) for name, body in found}


def time_of(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# ── New keys


def test_new_key_is_registered_written_and_able_to_sign(served):
    result = served.run("new", "pump", "--topics", "plant/*", "--expires", "90d")
    assert result.exit_code == 0
    key = served.key()
    assert (key.device, key.topics) == ("pump", "plant/*")
    assert key.expires_ms - key.created_ms == 90 * DAY_MS
    document = json.loads((served.directory / "pump.key.json").read_text())
    secret_key = bytes.fromhex(document.pop("secret_key"))
    assert document == {
        "device": "pump",
        "key_id": 1,
        "topics": "plant/*",
        "public_key": key.public_key.hex(),
    }
    assert is_valid(key.public_key, b"plant/t", b"x", sign_1(secret_key, 1, b"plant/t", b"x"))


def test_header_holds_the_symbols_that_devices_are_built_with(served):
    served.run("new", "pump")
    header = (served.directory / "pump_keys.h").read_text()
    document = json.loads((served.directory / "pump.key.json").read_text())
    assert header.startswith("#pragma once\n")
    assert "uint32_t DEVICE_KEY_ID = 1;" in header
    assert "uint8_t DEVICE_SECRET_KEY[64] = {" in header
    assert "uint8_t DEVICE_PUBLIC_KEY[32] = {" in header
    assert arrays(header) == {
        "DEVICE_SECRET_KEY": bytes.fromhex(document["secret_key"]),
        "DEVICE_PUBLIC_KEY": bytes.fromhex(document["public_key"]),
    }


def test_arrays_have_twelve_bytes_to_a_row():
    key = DeviceKeyPair("pump", 7, "*", bytes(range(32)), bytes(range(64)))
    first = ", ".join(f"0x{byte:02x}" for byte in range(12))
    assert f"= {{\n    {first},\n    0x0c, " in key.c_arrays()
    assert [row.count("0x") for row in key.c_arrays().splitlines() if "0x" in row] == [
        *[12] * 5, 4, 12, 12, 8,
    ]  # fmt: skip


def test_new_key_is_described_in_full(served):
    said = served.run("new", "pump", "--topics", "a,b/*").stdout
    key = served.key()
    for text in ("pump", "a,b/*", key.public_key.hex(), "self-test   passed"):
        assert text in said
    assert re.search(r"key id +1\n", said)
    assert "Wrote pump_keys.h and pump.key.json" in said


def test_the_secret_is_printed_only_if_that_is_asked_for(served):
    said = served.run("new", "pump").output
    (secret,) = secrets_in(served)
    assert secret[:64] not in said
    assert "SECRET" not in said
    said = served.run("rotate", "pump", "--print-secret").stdout
    printed = arrays(said)
    assert printed["DEVICE_PUBLIC_KEY"] == served.key(2).public_key
    assert len(printed["DEVICE_SECRET_KEY"]) == 64


def test_files_are_for_their_owner_only(served):
    for name in ("pump_keys.h", "pump.key.json"):
        (served.directory / name).touch(mode=0o666)
    served.run("new", "pump", "--force")
    for name in ("pump_keys.h", "pump.key.json"):
        assert stat.S_IMODE((served.directory / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["pump_keys.h", "pump.key.json"])
def test_files_that_are_there_are_not_overwritten_and_nothing_is_registered(served, name):
    (served.directory / name).write_text("precious")
    result = served.run("new", "pump")
    assert result.exit_code == 1
    assert "--force" in result.stderr
    assert (served.directory / name).read_text() == "precious"
    assert not served.book.keys()


def test_files_go_where_they_are_wanted(served):
    (served.directory / "there").mkdir()
    assert served.run("new", "pump", "--out", "there").exit_code == 0
    assert {file.name for file in (served.directory / "there").iterdir()} == {
        "pump_keys.h",
        "pump.key.json",
    }


def test_two_devices_get_different_ids_and_keys(served):
    served.run("new", "one")
    served.run("new", "two")
    assert served.key(1).public_key != served.key(2).public_key


def test_when_files_cannot_be_written_the_error_says_what_to_do(served, monkeypatch):
    def full(path, *_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(key_files.os, "open", full)
    result = served.run("new", "pump")
    assert result.exit_code == 1
    assert "SECRET" not in result.output
    assert "No space left" in result.stderr
    assert "keys revoke 1" in result.stderr


def test_key_made_offline_is_registered_by_the_line_that_is_printed(served):
    made = served.run(
        "new", "pump", "--offline", "--topics", "a b/*", "--expires", "1d", server=False
    )
    assert made.exit_code == 0
    assert not served.book.keys()
    line = shlex.split(made.stdout.splitlines()[-1])
    assert line[:3] == ["penstock", "keys", "add"]
    assert served.run(*line[2:]).exit_code == 0
    (key,) = served.book.keys()
    document = json.loads((served.directory / "pump.key.json").read_text())
    assert (key.id, key.topics) == (document["key_id"], "a b/*")
    assert key.public_key.hex() == document["public_key"]
    assert key.expires_ms - key.created_ms == DAY_MS


@pytest.mark.parametrize(
    "arguments",
    [["../pump"], ["pump", "--topics", "a/#/b"], ["pump", "--expires", "soon"],
     ["pump", "--expires", "-1d"], ["pump", "--expires", "90"], ["pump", "--expires", "9_0"], ["pump", "--out", "nowhere"], ["pump", "--expires", "1500ms"]],
)  # fmt: skip
def test_new_refuses_nonsense_before_anything_is_made(served, arguments):
    assert served.run("new", *arguments).exit_code == 2
    assert not served.book.keys()
    assert not list(served.directory.iterdir())


def test_number_without_a_unit_is_refused_since_days_would_be_seconds(served):
    served.run("add", "pump", "--public-key", PUBLIC_KEY)
    for words in (["new", "valve", "--expires", "90"], ["rotate", "1", "--overlap", "90"]):
        assert "'90' must be a number with a unit" in served.run(*words).stderr
    assert served.run("rotate", "1", "--overlap", "0").exit_code == 0


def test_end_of_a_key_is_said_when_it_is_made_and_whenever_keys_are_listed(served):
    made = served.run("new", "pump", "--expires", "90d").stdout
    until = time_of(served.key().expires_ms)
    assert re.search(rf"^expires +{until}$", made, re.MULTILINE)
    added = served.run("add", "valve", "--public-key", PUBLIC_KEY, "--expires", "90s").stdout
    assert added == f"registered key 2 of valve (expires: {time_of(served.key(2).expires_ms)})\n"
    assert until in served.run("list").stdout
    lasting = served.run("new", "gate").stdout
    assert re.search(r"^expires +never$", lasting, re.MULTILINE)
    offline = served.run("new", "door", "--offline", "--expires", "36h").stdout
    assert re.search(r"^expires +36h after it is registered$", offline, re.MULTILINE)


# ── JSON


def secrets_in(served) -> set[str]:
    return {
        json.loads(file.read_text())["secret_key"] for file in served.directory.glob("*.key.json")
    }


def test_new_as_json_tells_all_but_the_secret(served):
    result = served.run("new", "pump", "--topics", "plant/*", "--expires", "90d", "--json")
    document = json.loads(result.stdout)
    key = served.key()
    assert (document["id"], document["device"], document["topics"]) == (1, "pump", "plant/*")
    assert document["public_key"] == key.public_key.hex()
    assert datetime.fromisoformat(document["expires"]).timestamp() * 1000 == key.expires_ms
    assert document["files"] == ["pump_keys.h", "pump.key.json"]
    (secret,) = secrets_in(served)
    assert secret[:64] not in result.output


def test_new_offline_as_json_has_the_line_that_registers_it(served):
    document = json.loads(served.run("new", "pump", "--offline", "--json").stdout)
    assert (document["state"], document["expires"]) == ("unregistered", None)
    assert served.run(*shlex.split(document["register"])[2:]).exit_code == 0
    assert served.key(document["id"]).public_key.hex() == document["public_key"]


def test_json_of_a_key_that_cannot_be_written_does_not_advise_to_keep_it(served, monkeypatch):
    def full(path, *_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(key_files.os, "open", full)
    result = served.run("new", "pump", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "printed above" not in result.stderr
    assert "keys revoke 1" in result.stderr


def test_every_change_can_be_told_as_json(served):
    added = json.loads(served.run("add", "pump", "--public-key", PUBLIC_KEY, "--json").stdout)
    assert (added["id"], added["public_key"], added["expires"]) == (1, PUBLIC_KEY, None)
    for command, state in (("revoke", "revoked"), ("enable", "active")):
        told = json.loads(served.run(command, "1", "--json").stdout)
        assert (told["id"], told["state"]) == (1, state)
    result = served.run("rotate", "1", "--json")
    rotated = json.loads(result.stdout)
    assert (rotated["key"]["id"], rotated["previous"]["successor"]) == (2, 2)
    assert rotated["files"] == ["pump_keys.h", "pump.key.json"]
    (secret,) = secrets_in(served)
    assert secret[:64] not in result.output


# ── Keys that are there


def test_list_shows_keys_and_their_state(served):
    assert "no keys are registered" in served.run("list").stdout
    served.run("add", "pump", "--public-key", PUBLIC_KEY, "--topics", "plant/*", "--id", "41")
    served.run("revoke", "41")
    head, row = served.run("list").stdout.splitlines()
    assert head.split() == ["ID", "DEVICE", "STATE", "EXPIRES", "TOPICS"]
    assert row.split() == ["41", "pump", "revoked", "never", "plant/*"]


def test_list_as_json_is_what_the_broker_says(served):
    assert json.loads(served.run("list", "--json").stdout) == []
    served.run("add", "pump", "--public-key", PUBLIC_KEY)
    (key,) = json.loads(served.run("list", "--json").stdout)
    assert (key["id"], key["public_key"], key["state"]) == (1, PUBLIC_KEY, "active")


def test_control_characters_in_topics_do_not_reach_the_terminal(served):
    served.book.ring.put(Key(1, bytes.fromhex(PUBLIC_KEY), "pump", "a\x07\rb", 1))
    assert "a\\x07\\rb" in served.run("list").stdout


def test_revoke_and_enable(served):
    served.run("add", "pump", "--public-key", PUBLIC_KEY)
    assert served.run("revoke", "1").stdout == "key 1 of pump is revoked\n"
    assert served.key().revoked_ms
    assert served.run("enable", "1").stdout == "key 1 of pump is active\n"
    assert not served.key().revoked_ms


def test_expired_key_cannot_be_enabled_and_what_to_do_is_said(served):
    served.book.ring.put(Key(1, bytes.fromhex(PUBLIC_KEY), "pump", "*", 1, expires_ms=2))
    result = served.run("enable", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "key 1 expired" in result.stderr
    assert "penstock keys new pump" in result.stderr


def test_rotation_makes_a_new_pair_and_leaves_the_old_key_for_a_while(served):
    served.run("new", "pump", "--topics", "plant/*")
    old = (served.directory / "pump.key.json").read_text()
    result = served.run("rotate", "1", "--overlap", "2d")
    assert result.exit_code == 0, result.stderr
    assert "renamed to pump.1_keys.h and pump.1.key.json." in result.stdout
    assert (served.directory / "pump.1.key.json").read_text() == old
    until = time_of(served.key(1).expires_ms)
    last = f"key 2 of pump is valid now (expires: never), key 1 until {until}"
    assert result.stdout.splitlines()[-1] == last
    document = json.loads((served.directory / "pump.key.json").read_text())
    assert (document["key_id"], document["topics"]) == (2, "plant/*")
    assert document["public_key"] == served.key(2).public_key.hex()
    assert served.key(1).successor == 2
    assert served.key(1).expires_ms - served.key(2).created_ms == 2 * DAY_MS
    assert "active, then 2" in served.run("list").stdout


def test_rotation_does_not_touch_the_files_of_another_key(served):
    served.run("new", "pump")
    for name in ("pump_keys.h", "pump.key.json"):
        (served.directory / name).rename(served.directory / f"{name}.mine")
    served.run("new", "pump", "--offline")
    before = (served.directory / "pump.key.json").read_text()
    result = served.run("rotate", "1")
    assert (result.exit_code, "--force" in result.stderr) == (1, True)
    assert served.key(2) is None
    assert (served.directory / "pump.key.json").read_text() == before


def test_a_key_may_be_named_by_its_device_if_that_has_one(served):
    served.run("new", "pump")
    assert served.run("revoke", "pump").stdout == "key 1 of pump is revoked\n"
    assert served.run("enable", "pump").stdout == "key 1 of pump is active\n"
    assert served.run("rotate", "pump").exit_code == 0
    assert served.run("rotate", "pump").exit_code == 0, "the key that has no successor is meant"
    assert served.key(3) is not None
    served.run("add", "pump", "--public-key", PUBLIC_KEY)
    result = served.run("rotate", "pump")
    assert (result.exit_code, "3 (active), 4 (active)" in result.stderr) == (1, True)
    assert "device valve has no key" in served.run("revoke", "valve").stderr


def test_revoking_a_device_with_several_active_keys_is_refused_and_names_them(served):
    served.run("new", "pump")
    served.run("rotate", "pump")
    result = served.run("revoke", "pump")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "pump has several keys: 1 (active), 2 (active)" in result.stderr
    assert "--all" in result.stderr
    assert not served.key(1).revoked_ms
    assert not served.key(2).revoked_ms
    assert served.run("revoke", "2").exit_code == 0
    assert served.run("revoke", "pump").stdout == "key 1 of pump is revoked\n"


def test_all_active_keys_of_a_device_can_be_revoked_at_once(served):
    served.run("new", "pump")
    served.run("rotate", "pump")
    result = served.run("revoke", "pump", "--all")
    assert result.stdout == "key 1 of pump is revoked\nkey 2 of pump is revoked\n"
    assert served.key(1).revoked_ms
    assert served.key(2).revoked_ms
    assert served.run("revoke", "pump", "--all").stdout == "no key of pump is active\n"
    assert "needs a DEVICE" in served.run("revoke", "2", "--all").stderr


def test_a_revoked_successor_is_not_announced_and_rotation_says_what_works(served):
    served.run("new", "pump")
    served.run("rotate", "pump")
    served.run("revoke", "2")
    assert "then 2" not in served.run("list").stdout
    result = served.run("rotate", "pump")
    assert (result.exit_code, "pump is not active: 2 (revoked)" in result.stderr) == (1, True)
    assert "penstock keys new pump --out DIR" in result.stderr
    (served.directory / "DIR").mkdir()
    assert served.run("new", "pump", "--out", "DIR").exit_code == 0


def test_rotation_to_a_pair_made_elsewhere_writes_nothing(served):
    served.run("add", "pump", "--public-key", PUBLIC_KEY)
    other = key_pair(b"\1" * 32).public_key.hex()
    assert served.run("rotate", "1", "--public-key", other).exit_code == 0
    assert served.key(2).public_key.hex() == other
    assert not list(served.directory.iterdir())


# ── Errors


@pytest.mark.parametrize("arguments", [["revoke", "9"], ["enable", "9"], ["rotate", "9"]])
def test_key_that_is_not_there_is_said(served, arguments):
    result = served.run(*arguments)
    assert result.exit_code == 1
    assert "no key 9" in result.stderr
    assert "penstock keys list" in result.stderr


def test_refusal_of_the_broker_is_passed_on_with_its_advice(served):
    served.run("add", "pump", "--public-key", PUBLIC_KEY)
    result = served.run("add", "valve", "--public-key", PUBLIC_KEY)
    assert result.exit_code == 1
    assert "registered already, as key 1" in result.stderr
    assert "generate a new pair" in result.stderr


def test_wrong_token_is_refused_and_neither_is_shown(served):
    result = served.run("list", token="not-the-right-one")
    assert result.exit_code == 1
    assert "--token" in result.stderr
    assert TOKEN not in result.output
    assert "not-the-right-one" not in result.output


def test_a_token_is_no_argument_but_may_be_in_a_file(served, tmp_path):
    refused = served.run("list", "--token", TOKEN, token="")
    assert refused.exit_code == 2  # other users would see it in ps
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    assert served.run("list", "--token-file", str(file), token="").exit_code == 0


def test_absent_broker_is_said_with_what_to_do(served):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{closed.getsockname()[1]}"
        result = served.run("list", "--server", where)
    assert result.exit_code == 1
    assert f"no broker is listening on {where}" in result.stderr
    assert "penstock serve" in result.stderr


def test_something_else_at_the_address_is_not_taken_for_a_broker(served, server):
    async def other(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    server[1]["app"] = other
    assert "not a Penstock broker" in served.run("list").stderr


def test_broker_may_be_given_as_everywhere_by_host_and_port(served):
    result = served.run("list", "-h", "127.0.0.1", "-p", str(served.port), server=False)
    assert (result.exit_code, result.stderr) == (0, "")


def test_address_that_is_none_is_a_usage_error(served):
    assert served.run("list", "--server", "localhost", server=False).exit_code == 2


def test_key_does_not_show_its_secret_by_accident():
    key = DeviceKeyPair("pump", 7, "*", b"P" * 32, b"S" * 64)
    assert "SSSS" not in repr(key)
