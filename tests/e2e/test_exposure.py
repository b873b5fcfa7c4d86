"""Who can reach a broker: what it takes to start, and what the greeting says about it."""

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from tests.e2e.process import BrokerProcess, serve_command

WORLD = ("--listen", "0.0.0.0:0", "--http-listen", "127.0.0.1:0")
CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
PENSTOCK = Path(sys.executable).with_name("penstock")


def connack(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as opened:
        opened.sendall(CONNECT)
        return opened.recv(4)


def port_of(broker: BrokerProcess) -> int:
    found = re.search(r"0\.0\.0\.0:(\d+)", broker.greeting)
    assert found is not None
    return int(found[1])


def test_the_printed_command_makes_a_reachable_broker_start(start, tmp_path):
    data = tmp_path / "data"
    command = serve_command(data, *WORLD, listen=False)
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    found = re.search(r"penstock (users add NAME --admin --data \S+)", refused.stderr)
    assert found is not None
    advised = shlex.split(found[1].replace("NAME", "ann"))
    added = subprocess.run(
        [PENSTOCK, *advised, "--secret"], capture_output=True, text=True, timeout=60, check=False
    )
    assert added.returncode == 0, added.stderr
    broker = start(*WORLD, listen=False)
    said = broker.greeting
    local, reachable = f"127.0.0.1:{broker.http_port}", f"0.0.0.0:{port_of(broker)}"
    who = f"clients    at {local}: without a password (role local); at {reachable}: log in"
    assert who in said
    assert f"look       http://{local}/console/" in said
    assert "tls        off: what clients on other machines send can be read on the way" in said
    assert re.search(r"access     version \d+: 1 user, 1 administrator", said)
    # The listener is reachable, so not even this machine is local there.
    assert connack(port_of(broker)) == b"\x20\x02\x00\x05"
    broker.stop()
    assert "clear_text_logins" in broker.log_path.read_text()


def test_a_node_yet_to_join_starts_and_serves_nobody_from_elsewhere(start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret of the cluster".replace(" ", "-"))
    secret.chmod(0o600)
    node = ("--node-id", "1", "--peer-listen", "127.0.0.2:0", "--advertise-peer", "127.0.0.1:1")
    broker = start(
        *WORLD, *node, "--advertise", "127.0.0.1:2", "--cluster-secret-file", str(secret),
        listen=False,
    )  # fmt: skip
    assert "nobody else until penstock users add NAME --admin --data " in broker.greeting
    assert connack(port_of(broker)) == b"\x20\x02\x00\x05"


def test_a_bootstrap_token_lets_a_reachable_broker_start_and_serve_nobody_yet(start, tmp_path):
    token = tmp_path / "token"
    token.write_text("pst-bootstrap-token-of-this-test-0123456789")
    token.chmod(0o600)
    broker = start(*WORLD, "--set", f"auth.bootstrap_token_file={token}", listen=False)
    assert connack(port_of(broker)) == b"\x20\x02\x00\x05"


def test_the_greeting_names_encrypted_pages_where_nothing_else_is_accepted(start, tmp_path):
    data, certs = tmp_path / "data", tmp_path / "certs"
    for command in (
        ("users", "add", "ann", "--admin", "--secret", "--data", data),
        ("certs", "dev", certs),
    ):
        subprocess.run([PENSTOCK, *command], capture_output=True, timeout=60, check=True)
    pair = ("--tls-cert", str(certs / "server.crt"), "--tls-key", str(certs / "server.key"))
    ports = ("--listen", "0.0.0.0:0", "--http-listen", "0.0.0.0:0")
    said = start(*ports, *pair, listen=False).greeting
    assert "clients    must log in\n" in said
    assert "tls        localhost, 89 days left" in said
    assert re.search(r"look       https://localhost:\d+/console/", said)
