"""No secret shows: planted ones are searched for in all that a broker and its tools show.

That is the log, the pages, the metrics, the process list, the answers of every protocol to right
and wrong logins, the audit log, errors and tracebacks of our clients, what the commands print about
configuration and users, and what they say of files with mistakes in them.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock.client import Credentials
from penstock.config.load import load
from tests.conformance.wire_client import wait_until
from tests.conformance_resp.wire import Peer, ask
from tests.e2e.process import BrokerProcess
from tests.matrix.doors import DOORS, Login, RespDoor

SCRIPT = str(Path(sys.executable).with_name("penstock"))
FIRST, SECOND, GUESS, ADMIN, REDIS, CLUSTER = (
    f"canary-{name}-b7Qz"
    for name in ("password-one", "password-two", "guess", "admin-token", "redis", "cluster-secret")
)
PAGES = ("/metrics", "/status", "/users", "/users/ann", "/roles", "/tokens", "/bans", "/access",
         "/access/denials", "/access/export", "/clients", "/keys", "/cluster",
         "/topics", "/topics/$audit/access", "/tls", "/queues")  # fmt: skip
SETTINGS = f"""
[admin]
token = "{ADMIN}"
[resp]
password = "{REDIS}"
[auth]
failures_max = 1000
[cluster]
secret = "{CLUSTER}"
"""


class Scene:
    """A broker with secrets in all places, and everything that was shown."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.seen: list[str] = []
        self.secrets = [FIRST, SECOND, GUESS, ADMIN, REDIS, CLUSTER]
        self.settings = self.file("penstock.toml", SETTINGS + self._certificate())

    def _certificate(self) -> str:
        """The settings of a certificate, whose key is a secret, too."""
        if not shutil.which("openssl"):
            return ""
        self.run("certs", "dev", self.directory / "certs")
        key = self.directory / "certs" / "server.key"
        self.secrets.append(key.read_text().splitlines()[1])
        return f'[tls]\ncert = "{key.with_suffix(".crt")}"\nkey = "{key}"\n'

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.touch(0o600)
        path.write_text(text)
        return path

    def run(self, *words: object, **environment: object) -> None:
        self.made(*words, **environment)

    def made(self, *words: object, hidden: str = "", **environment: object) -> str:
        """Run a command; what it prints is shown, save for a new secret: JSON in ``hidden``."""
        done = subprocess.run(
            [SCRIPT, *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        )
        self.seen.append(done.stderr)
        if not hidden:
            self.seen.append(done.stdout)
            return ""
        secret: str = json.loads(done.stdout)[hidden]
        self.secrets.append(secret.rsplit("_", 1)[1])
        return secret

    def hide_hashes(self, user: str) -> None:
        """What is kept of a password is no more to be shown than the password."""
        command = [SCRIPT, "access", "export", "--hashes", "--json", "--data", str(self.data)]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kept = json.loads(shown)["users"][user]
        self.secrets += [kept["password"], kept["scram"], *kept["scram"].split("$")[2:]]

    def curl(self, port: int, path: str, *words: str, user: str = "") -> None:
        login = ["-u", user] if user else []
        url = f"http://127.0.0.1:{port}{quote(path)}"
        command = ["curl", "-sS", "-i", url, *login, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        self.seen.append(done.stdout)

    def log_in(self, port: int, login: Login) -> None:
        """At every door; errors of our clients are shown with their causes and variables."""
        self.seen.append(repr(login.credentials))
        # redis-py would try a wrong password for seconds; ``_ask_redis`` has one.
        doors = [door for door in DOORS if login.secret != GUESS or door is not RespDoor]
        for door in doors:
            try:
                door("127.0.0.1", port).enter(login)
            except Exception as error:  # noqa: BLE001 - whatever is raised is shown
                self.seen.append("".join(traceback.format_exception(error)))


def _administer(scene: Scene) -> list[Login]:
    """Make users by commands; return logins that are right, and wrong ones."""
    data, password = scene.data, scene.file("password", FIRST)
    scene.run("users", "add", "ann", "--admin", "--password-file", password, "--data", data)
    device = scene.made("users", "add", "pump", "--data", data, "--json", hidden="secret")
    token = scene.made("tokens", "add", "ann", "--data", data, "--json", hidden="token")
    password.write_text(SECOND)
    scene.run("users", "password", "ann", "--password-file", password, "--data", data)
    scene.run("access", "export", "--data", data)
    scene.hide_hashes("ann")
    scene.run("access", "log", "--data", data)
    return [Login("ann", SECOND), Login("pump", device), Login("", token), Login("ann", GUESS)]


def _ask_pages(scene: Scene, port: int) -> None:
    for page in PAGES:
        scene.curl(port, page, user=f"ann:{SECOND}")
    scene.curl(port, "/users", user=f"ann:{GUESS}")
    scene.curl(port, "/users", "-H", f"Authorization: Bearer {GUESS}")
    scene.curl(port, "/users", "-H", f"Authorization: Bearer {ADMIN}")
    bad = json.dumps({"name": "eve", "password": FIRST, "unknown": 1})
    scene.curl(port, "/users", "-d", bad, user=f"ann:{SECOND}")
    short = json.dumps({"invite": f"pst_abcdefgh_{GUESS}", "password": GUESS})
    scene.curl(port, "/password", "-d", short)


def _ask_redis(scene: Scene, port: int) -> None:
    """What Redis clients see of others, one of them a monitor."""
    with Peer(port) as monitor:
        monitor.send(f"AUTH ann {SECOND}", "MONITOR")
        monitor.read(b"+OK\r\n+OK\r\n")
        for commands in (
            [f"AUTH {REDIS}", "CLIENT INFO"],
            [f"AUTH ann {GUESS}"],
            [f"HELLO 3 AUTH ann {SECOND} SETNAME me", "ACL LIST", "ACL GETUSER ann", "ACL LOG",
             "CLIENT LIST", "INFO", f"ACL SETUSER x >{GUESS}", "XRANGE $audit/access - +"],
        ):  # fmt: skip
            scene.seen.append(ask(port, *commands).decode(errors="replace"))
        monitor.send("QUIT")
        scene.seen.append(monitor.read_end().decode(errors="replace"))


def _configure(scene: Scene, broker: BrokerProcess) -> None:
    """Show the configuration, reload another one, and one with mistakes."""
    scene.run("config", "explain", "--config", scene.settings, "--json")
    scene.run("config", "check", scene.settings)
    scene.run("doctor", "--json", "--config", scene.settings, "--data", scene.data)
    faulty = scene.file(
        "faulty.toml", f'[admin]\ntoken = ["{GUESS}"]\n[resp]\npasswort = "{GUESS}"'
    )
    scene.run("config", "check", faulty)
    scene.seen.append(repr(load(str(scene.settings), {}, {})))
    scene.settings.write_text(scene.settings.read_text().replace(REDIS, SECOND))
    before = broker.log_path.read_text().count("reload")
    broker.signal(signal.SIGHUP)
    wait_until(lambda: broker.log_path.read_text().count("reload") > before)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Everything that a broker and its tools have shown, and the secrets."""
    scene = Scene(tmp_path_factory.mktemp("canaries"))
    options = ("--config", str(scene.settings), "--log-level", "debug", "--log-format", "json")
    with BrokerProcess(scene.data, *options) as broker:
        for login in _administer(scene):
            scene.log_in(broker.port, login)
        _ask_pages(scene, broker.port)
        _ask_redis(scene, broker.port)
        _configure(scene, broker)
        scene.seen.append(Path(f"/proc/{broker.pid}/cmdline").read_text())
        scene.seen.append(broker.greeting)
        broker.stop()
        scene.seen.append(broker.log_path.read_text())
    return "\n".join(scene.seen), scene.secrets


def test_nothing_that_is_shown_has_a_secret(shown):
    text, secrets = shown
    for part in ("user_stored", "penstock_logins_total", "redacted", "admin.token", "LoginFailed"):
        assert part in text  # log, metrics, MONITOR, configuration, errors of clients are in it
    assert len(set(secrets)) >= 8
    for secret in secrets:
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in text
        assert sha256(secret.encode()).hexdigest() not in text
    for login in (f"ann:{SECOND}", f"ann:{GUESS}"):
        assert base64.b64encode(login.encode()).decode() not in text


def test_credentials_of_clients_show_nothing():
    assert GUESS not in repr(Credentials("ann", GUESS)) + str(vars(Credentials))


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
