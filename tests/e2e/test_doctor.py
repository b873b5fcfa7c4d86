"""``penstock doctor``: what is wrong or weak, with the fix; exit 1 if something is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def run(*arguments: str, status: int = 0) -> str:
    done = subprocess.run(
        [PENSTOCK, *arguments], capture_output=True, text=True, timeout=60, check=False
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
    assert run("doctor", "--data", str(data)) == (
        "ok: nothing wrong or weak was found\n"
        f"looked at default settings and {data}, which does not exist yet\n"
    )


def test_weak_users_and_rules_are_named_and_nothing_is_wrong(data):
    said = run("doctor", "--data", str(data))
    assert "weak: users without a role may do nothing: idle\n" in said
    assert "weak: rules with %c apply to users that may take any client id: pump\n" in said
    assert "wrong" not in said


def test_the_users_of_a_running_broker_are_looked_at_too(start, tmp_path):
    broker = start()
    run("users", "add", "ann", "--admin", "--secret", "--data", str(tmp_path / "data"))
    add_idle(tmp_path / "data")
    assert "do nothing: idle" in run("doctor", "--data", str(tmp_path / "data"))
    broker.stop()


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
    run("doctor", "--config", str(file))
    file.write_text(f'{text}key = "{tmp_path}/two/server.key"\n')
    assert "does not belong to the certificate" in run("doctor", "--config", str(file), status=1)
