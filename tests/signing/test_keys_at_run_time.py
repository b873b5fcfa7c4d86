"""Keys are made, registered, revoked and replaced while a broker runs, and outlive it.

A broker process, the real command line beside it, real sockets; the clock is the real one too.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.trust.signatures import key_pair
from tests.conformance.wire_client import wait_until
from tests.e2e.process import BrokerProcess
from tests.signing.kit import INVALID, Signer, ask, publish_signed, request

TOKEN = "correct-horse-battery-staple"

pytestmark = pytest.mark.slow

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run ``penstock keys`` against a broker, in a directory of the test's own."""
    script = Path(sys.executable).with_name("penstock")

    def run_keys(
        broker: BrokerProcess | None, command: str, *arguments: str, token: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        server = ["--server", f"127.0.0.1:{broker.port}"] if broker else []
        environment = {**os.environ, "PENSTOCK_ADMIN_TOKEN": token}
        return subprocess.run(
            [script, "keys", command, *server, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run_keys


def done(result: "subprocess.CompletedProcess[str]") -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def signer_of(path: Path) -> Signer:
    """The signer that a key file for Python describes."""
    document = json.loads(path.read_text())
    return Signer(document["key_id"], bytes.fromhex(document["secret_key"])[:32])


def told(broker: BrokerProcess, signer: Signer, topic: bytes = b"secure/pump") -> str:
    return publish_signed(broker, topic, b"x", signer.sign_1(topic, b"x"))


def listed(run: Run, broker: BrokerProcess) -> dict[int, dict[str, Any]]:
    return {key["id"]: key for key in json.loads(done(run(broker, "list", "--json")))}


# ── the command line


def test_a_new_key_signs_at_once_and_needs_no_restart(start, run, tmp_path):
    broker = start()
    output = done(run(broker, "new", "pump", "--topics", "secure/pump"))
    signer = signer_of(tmp_path / "pump.key.json")
    assert f"key id      {signer.key_id}" in output
    assert signer.public_key.hex() in output
    assert told(broker, signer) == ""
    assert told(broker, signer, b"secure/other").startswith("Key not authorized")


def test_two_devices_get_keys_of_their_own(start, run, tmp_path):
    broker = start()
    done(run(broker, "new", "pump"))
    done(run(broker, "new", "valve"))
    pump, valve = (signer_of(tmp_path / f"{name}.key.json") for name in ("pump", "valve"))
    assert pump.key_id != valve.key_id
    assert told(broker, pump) == told(broker, valve) == ""
    assert told(broker, valve._replace(key_id=pump.key_id)) == INVALID


def test_a_key_made_offline_is_registered_by_the_printed_line(start, run, tmp_path):
    broker = start()
    output = done(run(None, "new", "pump", "--offline", "--topics", "secure/pump"))
    signer = signer_of(tmp_path / "pump.key.json")
    assert told(broker, signer) == INVALID
    words = output.split("penstock keys add ")[1].split()
    done(run(broker, "add", *words))
    assert told(broker, signer) == ""


def test_a_key_made_elsewhere_is_added_listed_revoked_and_enabled(start, run):
    broker = start()
    signer = Signer(41, bytes(range(32)))
    public = signer.public_key.hex()
    done(run(broker, "add", "pump", "--public-key", public, "--id", "41", "--expires", "90d"))
    assert told(broker, signer) == ""
    assert listed(run, broker)[41]["state"] == "active"
    done(run(broker, "revoke", "41"))
    assert told(broker, signer) == INVALID
    assert listed(run, broker)[41]["state"] == "revoked"
    done(run(broker, "enable", "41"))
    assert told(broker, signer) == ""
    assert "41  pump" in done(run(broker, "list"))


def test_rotation_lets_both_keys_work_for_a_while_and_then_the_new_one_alone(start, run, tmp_path):
    broker = start()
    done(run(broker, "new", "pump"))
    old = signer_of(tmp_path / "pump.key.json")
    done(run(broker, "rotate", str(old.key_id), "--overlap", "1s"))
    new = signer_of(tmp_path / "pump.key.json")
    assert new.key_id != old.key_id
    assert told(broker, new) == ""
    keys = listed(run, broker)
    assert keys[old.key_id]["successor"] == new.key_id
    wait_until(lambda: told(broker, old) == INVALID)
    assert told(broker, new) == ""
    assert listed(run, broker)[old.key_id]["state"] == "expired"


def test_during_the_overlap_the_old_key_works_too(start, run, tmp_path):
    broker = start()
    done(run(broker, "new", "pump"))
    old = signer_of(tmp_path / "pump.key.json")
    done(run(broker, "rotate", str(old.key_id), "--overlap", "1h"))
    assert told(broker, old) == told(broker, signer_of(tmp_path / "pump.key.json")) == ""


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_keys_survive_the_end_of_the_broker(start, run, tmp_path, end):
    """Also kill -9 right behind the answer: it was on disk before."""
    broker = start()
    done(run(broker, "new", "pump"))
    done(run(broker, "new", "valve"))
    pump, valve = (signer_of(tmp_path / f"{name}.key.json") for name in ("pump", "valve"))
    done(run(broker, "revoke", str(valve.key_id)))
    before = listed(run, broker)
    if end == "stop":
        broker.stop()
    else:
        broker.kill()
        broker.wait_killed()
    again = start()
    assert listed(run, again) == before
    assert told(again, pump) == ""
    assert told(again, valve) == INVALID


def test_changes_are_logged_and_secrets_are_not(start, run, tmp_path):
    broker = start("--log-level", "info")
    done(run(broker, "new", "pump"))
    signer = signer_of(tmp_path / "pump.key.json")
    done(run(broker, "revoke", str(signer.key_id)))
    broker.stop()
    log = broker.log_path.read_text()
    assert "key_registered" in log
    assert "key_revoked" in log
    assert signer.seed.hex() not in log


# ── the header file


def c_array(header: str, name: str) -> bytes:
    rows = re.search(rf"{name}\[\d+\] = {{([^}}]*)}}", header)
    assert rows is not None
    return bytes(int(number, 16) for number in re.findall(r"0x[0-9a-f]{2}", rows[1]))


def test_the_header_file_holds_the_key(start, run, tmp_path):
    broker = start()
    done(run(broker, "new", "pump"))
    header = (tmp_path / "pump_keys.h").read_text()
    signer = signer_of(tmp_path / "pump.key.json")
    pair = key_pair(signer.seed)
    assert c_array(header, "DEVICE_SECRET_KEY") == pair.secret_key
    assert c_array(header, "DEVICE_PUBLIC_KEY") == pair.public_key
    assert f"DEVICE_KEY_ID = {signer.key_id};" in header
    assert header.startswith("#pragma once\n")


PROGRAM = """
#include "{device}_keys.h"
_Static_assert(sizeof DEVICE_SECRET_KEY == 64, "a secret key has 64 bytes");
_Static_assert(sizeof DEVICE_PUBLIC_KEY == 32, "a public key has 32 bytes");
uint32_t id(void) {{ return DEVICE_KEY_ID + DEVICE_SECRET_KEY[63] + DEVICE_PUBLIC_KEY[31]; }}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("compiler", [["gcc", "-std=c11"], ["gcc", "-x", "c++", "-std=c++11"]])
def test_the_header_file_compiles(run, tmp_path, compiler):
    """Without a warning, in C as in the C++ of device sketches, and with the largest id."""
    done(run(None, "new", "pump", "--offline"))
    header = tmp_path / "pump_keys.h"
    header.write_text(re.sub(r"KEY_ID = \d+", "KEY_ID = 4294967295", header.read_text()))
    text = PROGRAM.format(device="pump")
    if "c++" in compiler:
        text = text.replace("_Static_assert", "static_assert")
    (tmp_path / "sketch.c").write_text(text)
    command = [*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "sketch.c"]
    compiled = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr


# ── the pages


def test_keys_are_managed_by_http(start):
    broker = start()
    old, new = Signer(1, bytes(32)), Signer(2, bytes([1]) * 32)
    public = old.public_key.hex()
    made = ask(broker.port, "POST", "/keys", device="pump", topics="*", public_key=public)
    assert (made["id"], made["state"]) == (1, "active")
    assert told(broker, old) == ""
    body = {"public_key": new.public_key.hex(), "overlap_s": 0}
    rotated = ask(broker.port, "POST", "/keys/1/rotate", **body)
    assert (rotated["key"]["id"], rotated["previous"]["state"]) == (2, "expired")
    assert (told(broker, old), told(broker, new)) == (INVALID, "")
    ask(broker.port, "POST", "/keys/2/revoke")
    assert told(broker, new) == INVALID
    ask(broker.port, "POST", "/keys/2/enable")
    assert told(broker, new) == ""
    assert [key["id"] for key in ask(broker.port, "GET", "/keys")["keys"]] == [1, 2]


def test_a_web_page_may_not_touch_keys(start):
    """A browser on the broker's own machine would be let in, were it not for its Origin."""
    broker = start()
    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("POST", "/keys/1/revoke")):
        status, _ = request(broker.port, method, path, {}, Origin="http://127.0.0.1")
        assert status == 403
    status, _ = request(broker.port, "GET", "/keys", Host="rebound.example")
    assert status == 403


def test_with_a_token_nobody_gets_in_without_it(tmp_path, run, monkeypatch, start):
    monkeypatch.setenv("PENSTOCK_ADMIN_TOKEN", TOKEN)
    broker = start()
    monkeypatch.delenv("PENSTOCK_ADMIN_TOKEN")
    assert request(broker.port, "GET", "/keys")[0] == 401
    assert request(broker.port, "GET", "/keys", Authorization="Bearer wrong")[0] == 401
    assert request(broker.port, "GET", "/keys", Authorization=f"Bearer {TOKEN}")[0] == 200
    refused = run(broker, "new", "pump", token="wrong")
    assert refused.returncode == 1
    assert "token" in refused.stderr
    assert not list(tmp_path.glob("pump*"))
    done(run(broker, "new", "pump", token=TOKEN))
    assert told(broker, signer_of(tmp_path / "pump.key.json")) == ""
    assert TOKEN not in broker.log_path.read_text()
