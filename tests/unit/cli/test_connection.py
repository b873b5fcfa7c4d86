"""How commands log in: command line, environment, contexts, a terminal; over TLS, to whom."""

import http.server
import json
import socket
import threading

import click
import pytest
from click.testing import CliRunner

from penstock.cli import contexts, penstock
from penstock.cli.connection import BrokerTarget
from penstock.cli.dev_certs import make_certificates
from penstock.config.address import Address
from penstock.testing import Broker

SECRET = "a-secret-of-ann-0123456789"
ROOT_SECRET = "a-secret-of-root-0123456789"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, clients=["ann"])
    return directory


@pytest.fixture(scope="module")
def broker(certificates):
    files = {"cert": "server.crt", "key": "server.key", "client_ca": "ca.crt"}
    with Broker(tls={name: str(certificates / file) for name, file in files.items()}) as running:
        running.add_user("root", ROOT_SECRET, roles=["admin"])
        running.add_user("ann", SECRET, rules=["allow publish,subscribe,read,manage ann/#"])
        yield running


@pytest.fixture
def secrets(tmp_path):
    """Files with passwords, by user."""

    def file(name, text):
        path = tmp_path / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)

    return {"ann": file("ann", SECRET), "root": file("root", ROOT_SECRET)}


@pytest.fixture
def run(broker, certificates, tmp_path):
    def run(command, *words, tls=True, env=None, address=True, **more):
        where = ["-h", "localhost", "-p", str(broker.port)] if address else []
        encrypted = ["--ca-file", str(certificates / "ca.crt")] if tls else []
        environment = {contexts.FILE_VARIABLE: str(tmp_path / "contexts.toml"), **(env or {})}
        line = [*command.split(), *where, *encrypted, *words]
        return CliRunner().invoke(penstock, line, env=environment, **more)

    return run


def assert_done(result):
    assert result.exit_code == 0, result.output
    return result.output


# ── Ways to log in ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tls", [True, False])
def test_by_options(run, secrets, tls):
    ann = ["--user", "ann", "--password-file", secrets["ann"]]
    assert_done(run("pub ann/t hello -q 1", *ann, tls=tls))
    assert "hello" in assert_done(run("read ann/t -n 1", *ann, tls=tls))
    assert "ann/t" in assert_done(run("topics ann", *ann, tls=tls))
    assert run("pub elsewhere hello -q 1", *ann, tls=tls).exit_code == 1


def test_by_environment(run, secrets):
    env = {"PENSTOCK_USER": "root", "PENSTOCK_PASSWORD_FILE": secrets["root"]}
    users = json.loads(assert_done(run("users list --json", env=env)))
    assert "ann" in json.dumps(users)


def test_by_certificate(run, certificates):
    pair = ["--cert", str(certificates / "ann.crt"), "--key", str(certificates / "ann.key")]
    assert_done(run("pub ann/t hello -q 1", *pair))
    assert run("pub elsewhere hello -q 1", *pair).exit_code == 1


def test_by_context(run, broker, certificates, secrets):
    assert_done(
        run(
            *("context add here", "--server", f"localhost:{broker.port}"),
            *("--ca-file", str(certificates / "ca.crt")),
            *("--user", "root", "--password-file", secrets["root"]),
            address=False,
            tls=False,
        )
    )
    listed = assert_done(run("users list", address=False, tls=False))
    assert "ann" in listed
    assert_done(run("pub anything x -q 1", address=False, tls=False))
    by_name = run("topics", "--context", "here", address=False, tls=False)
    assert_done(by_name)


def test_by_a_password_that_is_typed(run, monkeypatch):
    monkeypatch.setattr("click.prompt", lambda *_, **__: SECRET)
    monkeypatch.setattr("penstock.cli.connection._is_terminal", lambda: True)
    assert_done(run("pub ann/t hello -q 1", "--user", "ann"))


def test_without_a_terminal_a_missing_password_is_an_error(run):
    result = run("pub ann/t hello", "--user", "ann")
    assert result.exit_code == 1
    assert "--password-file" in result.output


@pytest.mark.parametrize("command", ["pub ann/t x -q 1", "topics", "users list"])
def test_a_wrong_password_is_told_and_not_shown(run, tmp_path, command):
    wrong = tmp_path / "wrong"
    wrong.write_text("not-her-secret")
    wrong.chmod(0o600)
    result = run(command, "--user", "ann", "--password-file", str(wrong))
    assert result.exit_code == 1
    assert "not-her-secret" not in result.output


def test_an_unknown_authority_is_told_with_the_option_that_helps(run):
    for command in ("pub a b", "topics", "status"):
        result = run(command, "--tls", tls=False)
        assert result.exit_code == 1
        assert "--ca-file" in result.output


# ── To whom ───────────────────────────────────────────────────────────────────────────────────


def context_file(tmp_path, *servers):
    path = tmp_path / "contexts.toml"
    listed = json.dumps(servers)
    path.write_text(f'current = "x"\n[contexts.x]\nservers = {listed}\ntoken = "{SECRET}"\n')
    path.chmod(0o600)


def test_another_node_is_chosen_when_the_one_in_use_has_gone():
    with (
        socket.create_server(("127.0.0.1", 0)) as gone,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        nodes = [Address(*each.getsockname()) for each in (gone, other)]
        target = BrokerTarget(tuple(nodes))
        assert target.server == nodes[0]
        gone.close()
        assert target.server == nodes[0], "until it is known to have gone"
        target.choose_again()
        assert target.server == nodes[1]


def test_the_current_context_is_not_used_for_another_broker(run, tmp_path):
    context_file(tmp_path, "elsewhere.example:1883")
    assert_done(run("status"))  # its token would be refused here


def test_a_context_by_name_with_another_address_is_refused(run, tmp_path):
    context_file(tmp_path, "elsewhere.example:1883")
    result = run("status", "--context", "x")
    assert result.exit_code == 2
    assert "no server of the context" in result.output


class _Thief(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_GET(self):
        self.seen.append(self.headers.get("authorization"))
        body = json.dumps({"error": "not the leader", "leader_addr": self.server.names}).encode()
        self.send_response(421)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def node():
    """A node that names another one as the leader."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Thief)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    _Thief.seen.clear()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_does_not_follow_to_a_leader_that_nobody_named(node, secrets, tmp_path):
    node.names = "192.0.2.1:1883"
    words = ["status", "-p", str(node.server_port), "--token-file", secrets["ann"]]
    env = {contexts.FILE_VARIABLE: str(tmp_path / "none")}
    result = CliRunner().invoke(penstock, words, env=env)
    assert result.exit_code == 1
    assert "192.0.2.1:1883" in result.output
    assert "--tls" in result.output
    assert _Thief.seen == [f"Bearer {SECRET}"]


# ── Nothing secret in ps ──────────────────────────────────────────────────────────────────────


def every_option(command, path=()):
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every_option(command.get_command(context, name), (*path, name))
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield path, parameter


def test_no_command_takes_a_secret_as_an_argument():
    with_value = (each for _, each in every_option(penstock) if not each.is_flag)
    names = {option for parameter in with_value for option in parameter.opts}
    assert {"--password-file", "--token-file"} <= names
    assert not names & {"--password", "--token", "--secret", "--pass"}


def test_no_option_of_a_command_hides_another():
    seen = set()
    for path, parameter in every_option(penstock):
        for option in parameter.opts:
            assert (path, option) not in seen, (path, option)
            seen.add((path, option))
