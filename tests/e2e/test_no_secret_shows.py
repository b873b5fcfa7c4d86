"""No secret shows: in the log, a page, the process list, an error or the journal of changes."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import BrokerProcess

SCRIPT = str(Path(sys.executable).with_name("penstock"))
CANARIES = ("canary-password-one", "canary-password-two", "canary-guess-three", "canary-admin-four")
PAGES = ("/metrics", "/status", "/users", "/users/ann", "/roles", "/tokens", "/bans", "/access",
         "/access/denials", "/access/export", "/clients", "/keys")  # fmt: skip


def curl(port, path, *words, user=""):
    url = f"http://127.0.0.1:{port}{path}"
    login = ["-u", user] if user else []
    done = subprocess.run(
        ["curl", "-sS", "-i", url, *login, *words], check=True, capture_output=True, text=True
    )
    return done.stdout


def run(*words):
    return subprocess.run(
        [SCRIPT, *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Everything that a broker and its tools have shown, and the secrets that it made."""
    directory = tmp_path_factory.mktemp("canaries")
    data, file = directory / "data", directory / "password"
    seen, secrets = [], [*CANARIES]
    settings = directory / "penstock.toml"
    settings.write_text(f'[admin]\ntoken = "{CANARIES[3]}"\n')
    settings.chmod(0o600)
    with BrokerProcess(data, "--config", str(settings), "--log-level", "debug") as broker:

        def note(done):
            seen.extend((done.stdout, done.stderr))
            return done

        file.write_text(CANARIES[0])
        note(run("users", "add", "ann", "--admin", "--password-file", file, "--data", data))
        made = run("users", "add", "pump", "--data", data, "--json")
        secrets.append(json.loads(made.stdout)["secret"])
        token = run("tokens", "add", "ann", "--data", data, "--json")
        secrets.append(json.loads(token.stdout)["token"].rsplit("_", 1)[1])
        file.write_text(CANARIES[1])
        note(run("users", "password", "ann", "--password-file", file, "--data", data))
        note(run("users", "show", "ann", "--data", data))
        note(run("access", "export", "--data", data))
        seen.append(curl(broker.port, "/users", user=f"ann:{CANARIES[2]}"))
        bad = json.dumps({"name": "eve", "password": CANARIES[0], "unknown": 1})
        seen.append(curl(broker.port, "/users", "-d", bad, user=f"ann:{CANARIES[1]}"))
        short = json.dumps({"invite": f"pst_abcdefgh_{CANARIES[2]}", "password": CANARIES[2]})
        seen.append(curl(broker.port, "/password", "-d", short))
        seen += [curl(broker.port, page, user=f"ann:{CANARIES[1]}") for page in PAGES]
        seen.append(Path(f"/proc/{broker.pid}/cmdline").read_text())
        broker.stop()
        seen.append(broker.log_path.read_text())
    return "\n".join(seen), secrets


def test_nothing_that_is_shown_has_a_secret(shown):
    text, secrets = shown
    assert "user_stored" in text  # the log is in it
    assert "penstock_logins_total" in text  # and the metrics
    for secret in secrets:
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in text
    for login in (f"ann:{CANARIES[1]}", f"ann:{CANARIES[2]}"):
        assert base64.b64encode(login.encode()).decode() not in text


def test_no_command_takes_a_secret_as_an_argument():
    from penstock.cli import penstock

    def options(command, name=""):
        for parameter in command.params:
            yield from ((f"{name} {option}", parameter) for option in parameter.opts)
        for sub in getattr(command, "list_commands", lambda _context: [])(None):
            yield from options(command.get_command(None, sub), f"{name} {sub}")

    words = ("password", "secret", "token")
    taken = [
        name
        for name, option in options(penstock)
        if any(name.endswith(f"--{word}") for word in words) and not getattr(option, "is_flag", 0)
    ]
    assert taken == []
