"""``penstock certs``: real certificates, tried with Python's TLS."""

import json
import shlex
import ssl
import stat
import subprocess

import pytest
from click.testing import CliRunner

from penstock.cli import dev_certs, penstock


def run(*arguments):
    return CliRunner().invoke(penstock, ["certs", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certs") / "new"
    result = run("dev", directory, "broker.example", "10.0.0.7", "--client", "ann")
    assert result.exit_code == 0, result.output
    return directory, result.output


def server_context(directory, **options):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, **options)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    return context


def handshake(server, client, name):
    """Both ends over memory; returns them once both are done."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        waiting = [end for end in ends if not advance(end)]
        if not waiting:
            return ends
    raise AssertionError("no end of the handshake")


def advance(end):
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "broker.example", "10.0.0.7"])
def test_the_server_certificate_is_valid_for_its_names(made, name):
    directory, _ = made
    client = ssl.create_default_context(cafile=directory / "ca.crt")
    handshake(server_context(directory), client, name)


def test_the_server_certificate_is_refused_for_another_name(made):
    directory, _ = made
    client = ssl.create_default_context(cafile=directory / "ca.crt")
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        handshake(server_context(directory), client, "elsewhere.example")


def test_a_client_certificate_names_its_user(made):
    directory, _ = made
    server = server_context(directory, cafile=directory / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=directory / "ca.crt")
    client.load_cert_chain(directory / "ann.crt", directory / "ann.key")
    _, accepted = handshake(server, client, "localhost")
    assert accepted.getpeercert()["subject"] == ((("commonName", "ann"),),)


def test_a_client_certificate_cannot_be_a_server(made):
    directory, _ = made
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "ann.crt", directory / "ann.key")
    client = ssl.create_default_context(cafile=directory / "ca.crt")
    client.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(context, client, "localhost")


def test_only_their_owner_can_read_the_keys(made):
    directory, _ = made
    keys = sorted(directory.glob("*.key"))
    assert [key.name for key in keys] == ["ann.key", "ca.key", "server.key"]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert all("P-256" in shown(key) for key in keys)


def shown(key):
    text = subprocess.run(
        ["openssl", "pkey", "-in", key, "-noout", "-text_pub"], capture_output=True, check=True
    )
    return text.stdout.decode()


def test_nothing_but_certificates_and_keys_is_left(made):
    directory, _ = made
    kinds = {path.suffix for path in directory.iterdir()}
    assert kinds == {".crt", ".key"}


def test_the_printed_command_names_the_files(made):
    directory, output = made
    line = next(line for line in output.splitlines() if "penstock serve" in line)
    words = shlex.split(line)
    assert words[words.index("--tls-cert") + 1] == str(directory / "server.crt")
    assert words[words.index("--tls-key") + 1] == str(directory / "server.key")
    assert words[words.index("--tls-client-ca") + 1] == str(directory / "ca.crt")


def test_existing_files_are_kept_unless_forced(tmp_path):
    assert run("dev", tmp_path).exit_code == 0
    before = (tmp_path / "ca.key").read_bytes()
    refused = run("dev", tmp_path)
    assert refused.exit_code == 1
    assert "exists" in refused.output
    assert "--force" in refused.output
    assert (tmp_path / "ca.key").read_bytes() == before
    (tmp_path / "ca.key").chmod(0o644)
    assert run("dev", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "ca.key").read_bytes() != before
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


def test_forcing_does_not_write_through_a_link(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / "server.key").symlink_to(elsewhere)
    assert run("dev", tmp_path, "--force").exit_code == 0
    assert elsewhere.read_text() == "mine"


def test_more_clients_are_signed_by_the_same_authority(tmp_path):
    assert run("dev", tmp_path).exit_code == 0
    assert run("client", tmp_path, "bob", "carl").exit_code == 0
    chain = ["openssl", "verify", "-CAfile", tmp_path / "ca.crt", tmp_path / "bob.crt"]
    subprocess.run([*chain, tmp_path / "carl.crt"], check=True, capture_output=True)
    assert run("client", tmp_path, "bob").exit_code == 1


def test_clients_need_an_authority(tmp_path):
    result = run("client", tmp_path, "bob")
    assert result.exit_code == 1
    assert "penstock certs dev" in result.output


@pytest.mark.parametrize("host", ["a b", "ü.example", "x,DNS:evil", "x\n[subject]", "h:1883", ""])
def test_what_is_no_host_name_is_refused(tmp_path, host):
    result = run("dev", tmp_path / "new", host)
    assert result.exit_code == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../x", "ca", "server", "a/b", "%u", "a\nb", ""])
def test_what_is_no_user_name_is_refused(tmp_path, name):
    result = run("dev", tmp_path / "new", "--client", name)
    assert result.exit_code == 1
    assert not (tmp_path / "new").exists()


def test_without_openssl_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("dev", tmp_path / "new")
    assert result.exit_code == 1
    assert "install it" in result.output
    assert not (tmp_path / "new").exists()


def test_show_tells_names_and_expiry(made):
    directory, _ = made
    (shown,) = json.loads(run("show", directory / "server.crt", "--json").output)["certificates"]
    assert shown["subject"] == "CN=localhost"
    assert shown["names"] == ["localhost", "127.0.0.1", "::1", "broker.example", "10.0.0.7"]
    assert shown["days_left"] in {89, 90}
    assert not shown["is_authority"]
    assert "90 days left" in (text := run("show", directory / "server.crt").output) or "89" in text
    assert "localhost, 127.0.0.1, ::1" in text


def test_show_reads_a_chain_of_certificates(made, tmp_path):
    directory, _ = made
    chain = tmp_path / "chain.pem"
    chain.write_bytes(b"".join((directory / name).read_bytes() for name in ("ann.crt", "ca.crt")))
    found = dev_certs.read_certificates(chain, 0)
    assert [certificate.is_authority for certificate in found] == [False, True]
    assert found[0].purposes == ["TLS Web Client Authentication"]


def test_show_never_prints_a_key(made):
    directory, _ = made
    result = run("show", directory / "ca.key")
    assert result.exit_code == 1
    assert "private key" in result.output
    assert (directory / "ca.key").read_text().splitlines()[1] not in result.output
