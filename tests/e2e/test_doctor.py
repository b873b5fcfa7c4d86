"""``penstock doctor``: what is wrong, weak or slow, with the fix; exit 1 if something is wrong."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import __version__, kernel
from tests.e2e.speeds import without_kernel

PENSTOCK = str(Path(sys.executable).with_name("penstock"))


ANY_PORT = {"PENSTOCK_LISTEN": "127.0.0.1:0", "PENSTOCK_HTTP_LISTEN": ""}
"""The usual ports may be in use on the machine of the tests."""


def run(*arguments: str, status: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [PENSTOCK, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == status, done
    return done.stdout


def add_idle(data: Path) -> None:
    """A user that may do nothing."""
    run("users", "add", "idle", "--secret", "--data", str(data))
    run("users", "roles", "idle", "--none", "--data", str(data))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A stopped broker with users and rules that are weak."""
    data = tmp_path_factory.mktemp("doctor") / "data"
    run("users", "add", "ann", "--admin", "--secret", "--data", str(data))
    run("roles", "add", "devices", "--allow", "publish plant/%c/#", "--data", str(data))
    run("users", "add", "pump", "--role", "devices", "--secret", "--data", str(data))
    add_idle(data)
    return data


def test_a_new_broker_on_this_machine_is_fine(tmp_path):
    data = tmp_path / "data"
    said = run("doctor", "--data", str(data), **ANY_PORT)
    assert "wrong: " not in said
    assert "weak: " not in said
    assert said.endswith(f"looked at default settings and {data}, which does not exist yet\n")
    assert not data.exists()
    assert not list(tmp_path.iterdir())


def test_weak_users_and_rules_are_named_and_nothing_is_wrong(data):
    said = run("doctor", "--data", str(data), **ANY_PORT)
    assert "weak: users without a role may do nothing: idle\n" in said
    assert "weak: rules with %c apply to users that may take any client id: pump\n" in said
    assert "weak means that all works, until an attacker or many clients come\n" in said
    assert "wrong" not in said


def test_the_users_of_a_running_broker_are_looked_at_too(start, tmp_path):
    broker = start()
    run("users", "add", "ann", "--admin", "--secret", "--data", str(tmp_path / "data"))
    add_idle(tmp_path / "data")
    assert "do nothing: idle" in run("doctor", "--data", str(tmp_path / "data"))
    broker.stop()


# ── the installation and the machine ──────────────────────────────────────────────────────────


def test_the_installation_and_the_machine_are_described(tmp_path):
    found = json.loads(run("doctor", "--json", "--data", str(tmp_path / "data"), **ANY_PORT))
    assert found["installation"]["version"] == __version__
    assert found["installation"]["speed"] == kernel.speed
    assert found["installation"]["problem"] == kernel.problem
    assert sys.version.startswith(found["installation"]["python"].removeprefix("CPython "))
    assert found["machine"]["flush_ms"] > 0
    assert found["machine"]["flushed_in"] == str(tmp_path)
    assert found["machine"]["ports"] == {"127.0.0.1:0": "free"}
    said = run("doctor", "--data", str(tmp_path / "data"), **ANY_PORT)
    assert said.startswith(f"Penstock    {__version__}, {kernel.described}\n")


def test_the_python_form_is_slow_and_the_fix_is_to_unset_the_variable(tmp_path):
    said = run("doctor", "--data", str(tmp_path), PENSTOCK_SPEED="interpreted", **ANY_PORT)
    assert said.startswith(f"Penstock    {__version__}, interpreted: PENSTOCK_SPEED=interpreted")
    assert "slow: the broker runs interpreted: PENSTOCK_SPEED=interpreted is set\n" in said
    assert "  unset PENSTOCK_SPEED\n" in said


def test_without_a_kernel_the_fix_names_what_is_missing(tmp_path):
    environment = {"PENSTOCK_SPEED": "", "PATH": str(tmp_path)}
    data = ("--data", str(tmp_path / "data"))
    said = run("doctor", *data, **ANY_PORT, **environment, **without_kernel(tmp_path))
    assert "slow: the broker runs interpreted: the compiled kernel was not built here" in said
    assert "  install a C compiler (gcc)" in said
    assert "then install Penstock again" in said


def test_a_port_in_use_is_wrong_unless_the_broker_may_skip_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        arguments = ("doctor", "--data", str(tmp_path / "data"))
        said = run(*arguments, status=1, **(ANY_PORT | {"PENSTOCK_LISTEN": address}))
        assert f"wrong: {address} is in use by another program: the broker does not start\n" in said


def test_the_ports_of_a_running_broker_are_no_fault_and_its_speed_is_told(
    start, tmp_path, monkeypatch
):
    monkeypatch.setenv("PENSTOCK_SPEED", "interpreted")
    broker = start()
    address = f"127.0.0.1:{broker.port}"
    arguments = ("doctor", "--json", "--data", str(tmp_path / "data"))
    found = json.loads(run(*arguments, **(ANY_PORT | {"PENSTOCK_LISTEN": address})))
    assert found["machine"]["ports"] == {}
    assert found["machine"]["running"] == "interpreted"
    assert found["ok"]
    if kernel.is_compiled:
        found = json.loads(run(*arguments, PENSTOCK_SPEED=""))
        assert "the running broker is interpreted, this command is compiled" in {
            finding["what"] for finding in found["findings"]
        }


# ── the configuration, the data and the users ─────────────────────────────────────────────────


def test_a_broker_that_would_not_start_is_wrong_and_the_fix_is_a_command(tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text(f'listen = ["0.0.0.0:1883"]\ndata = "{tmp_path / "data"}"\n')
    said = run("doctor", "--config", str(file), status=1)
    assert "wrong: other machines can reach the broker, and there are no users" in said
    assert f"penstock users add NAME --admin --data {tmp_path / 'data'}" in said
    assert "weak: passwords and messages to 0.0.0.0:1883 can be read on the way" in said
    assert "weak: signatures of version 1" in said


def test_anonymous_access_is_weak_and_secrets_that_others_can_read_are_wrong(tmp_path):
    secret, file = tmp_path / "secret", tmp_path / "penstock.toml"
    secret.write_text("a-secret-of-the-cluster")
    secret.chmod(0o644)
    file.write_text(
        f'listen = ["0.0.0.0:1883"]\nallow_anonymous = true\ndata = "{tmp_path / "data"}"\n'
        '[admin]\ntoken = "a-secret-of-the-admins"\n'
        f'[cluster]\nnode_id = 1\npeer_listen = "127.0.0.1:7700"\nadvertise = "127.0.0.1:1883"\n'
        f'secret_file = "{secret}"\n'
    )
    file.chmod(0o644)
    found = json.loads(run("doctor", "--config", str(file), "--json", status=1))
    assert not found["ok"]
    fixes = {finding["what"]: finding["fix"] for finding in found["findings"]}
    assert fixes[f"cluster.secret_file: other users may read {secret}"] == f"chmod 600 {secret}"
    assert f"{file} has a secret in it, and other users may read it" in fixes
    assert "whoever reaches 0.0.0.0:1883 may use the broker without a password" in fixes
    assert "a-secret" not in json.dumps(found)


def test_a_mistake_in_the_file_an_open_directory_and_a_clock_set_back_are_wrong(data, tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text("listen = ['x']\n")
    assert "line 1: listen: " in run("doctor", "--config", str(file), status=1)
    other = tmp_path / "data"
    other.mkdir(mode=0o755)
    (other / "data.mdb").write_bytes(b"")
    os.utime(other / "data.mdb", (2**32, 2**32))
    said = run("doctor", "--data", str(other), status=1)
    assert f"wrong: other users may look into {other}: 755\n  chmod 700 {other}" in said
    assert "wrong: the journal was written in the future" in said


def test_a_certificate_without_its_key_is_wrong(tmp_path):
    run("certs", "dev", str(tmp_path / "one"))
    run("certs", "dev", str(tmp_path / "two"))
    file = tmp_path / "penstock.toml"
    text = f'data = "{tmp_path / "data"}"\n[tls]\ncert = "{tmp_path}/one/server.crt"\n'
    file.write_text(f'{text}key = "{tmp_path}/one/server.key"\n')
    run("doctor", "--config", str(file), **ANY_PORT)
    file.write_text(f'{text}key = "{tmp_path}/two/server.key"\n')
    assert "does not belong to the certificate" in run("doctor", "--config", str(file), status=1)
