"""SIGHUP reloads certificates and what can be reloaded of the configuration, all or nothing."""

import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import BrokerProcess

PING, PONG = b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"
PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def reload(broker: BrokerProcess) -> str:
    broker.signal(signal.SIGHUP)
    return broker.line()


def test_what_can_be_reloaded_is_applied_and_the_rest_is_named(start, tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text("")
    broker = start("--config", str(file))
    assert reload(broker) == "Reload (SIGHUP): nothing has changed."
    file.write_text(
        'log.level = "debug"\nlimits.sessions_max = 5\n[admin]\ntoken = "a-secret-of-the-admins"\n'
    )
    assert reload(broker) == "Reload (SIGHUP):"
    lines = sorted(broker.line().split(maxsplit=1)[1].strip() for _ in range(3))
    assert lines[0] == 'log.level = "debug"'
    assert "admin.token = (hidden)" in lines[1]
    assert "limits.sessions_max = 5" in lines[2]
    with socket.create_connection(("127.0.0.1", broker.port), 30) as client:
        client.sendall(PING)
        assert client.recv(100) == PONG
    broker.stop()
    said = broker.log_path.read_text()
    assert '"connected"' in said, "debug lines are logged now"
    assert "a-secret-of-the-admins" not in said


def test_a_wrong_file_changes_nothing(start, tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text("")
    broker = start("--config", str(file))
    file.write_text('log.level = "debug"\nlimits.clients_max = 0\n')
    assert reload(broker).startswith("Reload (SIGHUP) refused, nothing has changed: file ")
    assert "must be 1 to" in broker.log_path.read_text()
    file.unlink()
    while not (line := reload(broker)).startswith("Reload (SIGHUP) refused"):
        pass  # the advice of the first refusal
    assert "cannot be read" in line
    broker.stop()
    assert '"level": "debug"' not in broker.log_path.read_text()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> list[Path]:
    made = [tmp_path_factory.mktemp(name) / "certs" for name in ("first", "second")]
    for directory in made:
        subprocess.run([PENSTOCK, "certs", "dev", str(directory)], check=True, timeout=60)
    return made


def dial(broker: BrokerProcess, authority: Path) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority / "ca.crt"))
    plain = socket.create_connection(("127.0.0.1", broker.port), 30)
    return context.wrap_socket(plain, server_hostname="localhost")


def answers(client: ssl.SSLSocket) -> bool:
    client.sendall(PING)
    return client.recv(100) == PONG


def test_a_certificate_is_replaced_without_dropping_a_connection(start, tmp_path, certificates):
    first, second = certificates
    cert, key = tmp_path / "server.crt", tmp_path / "server.key"

    def install(cert_of: Path, key_of: Path) -> None:
        cert.write_bytes((cert_of / "server.crt").read_bytes())
        key.write_bytes((key_of / "server.key").read_bytes())
        key.chmod(0o600)

    install(first, first)
    broker = start("--tls-cert", str(cert), "--tls-key", str(key))
    with dial(broker, first) as old:
        assert answers(old)
        install(second, first)
        assert "refused, nothing has changed" in reload(broker), "the key is another's"
        with dial(broker, first) as another:
            assert answers(another)
        install(second, second)
        while reload(broker) != "Reload (SIGHUP):":
            pass  # the advice of the refusal
        assert "certificate for" in broker.line()
        with dial(broker, second) as new:
            assert answers(new)
        with pytest.raises(ssl.SSLError):
            dial(broker, first)
        assert answers(old), "connections keep theirs"
