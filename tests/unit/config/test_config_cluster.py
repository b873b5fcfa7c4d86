"""A node of a cluster: what it must be told, and what would not work and is refused with advice."""

import pytest

from penstock.config.cluster import (
    advertised,
    advertised_peer,
    cluster_secret,
    cluster_secrets,
)
from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError
from penstock.config.schema import Cluster, Config
from penstock.errors import ConfigError

SECRET = "correct-horse-battery"
NODE = {"cluster.node_id": 1, "cluster.peer_listen": "127.0.0.1:7700"}
ABROAD = {
    "cluster.node_id": 1,
    "cluster.peer_listen": "10.0.0.1:7700",
    "listen": "10.0.0.1:1883",
    "allow_anonymous": True,
    "cluster.secret": SECRET,
}


def loaded(**changes):
    flags = {name.replace("__", "."): value for name, value in changes.items()}
    return load(None, {}, NODE | flags).config


def problem(flags):
    with pytest.raises(ConfigProblemsError) as caught:
        load(None, {}, flags)
    return str(caught.value)


def test_broker_without_peer_listen_stands_alone():
    cluster = Config().cluster
    assert (cluster.node_id, cluster.peer_listen) == (0, "")


def test_node_on_loopback_needs_only_a_number_and_an_address():
    config = loaded()
    assert str(advertised_peer(config)) == "127.0.0.1:7700"
    assert str(advertised(config)) == "127.0.0.1:1883"


def test_node_tells_others_the_addresses_that_it_was_given_for_them():
    config = load(
        None,
        {},
        ABROAD
        | {
            "cluster.peer_listen": "0.0.0.0:7700",
            "listen": "0.0.0.0:1883",
            "cluster.advertise_peer": "a.example:7701",
            "cluster.advertise": "a.example:1884",
        },
    ).config
    assert str(advertised_peer(config)) == "a.example:7701"
    assert str(advertised(config)) == "a.example:1884"


@pytest.mark.parametrize(
    ("flags", "key", "advice"),
    [
        ({"cluster.peer_listen": "127.0.0.1:7700"}, "cluster.node_id", "node_id = 1"),
        ({"cluster.node_id": 1}, "cluster.node_id", "--peer-listen"),
        ({"cluster.advertise": "a:1"}, "cluster.advertise", "--peer-listen"),
        (NODE | {"durability": "interval"}, "durability", 'durability = "sync"'),
        (NODE | {"listen": "127.0.0.1:7700"}, "cluster.peer_listen", "change its port"),
        (NODE | {"cluster.peer_listen": "127.0.0.1:0"}, "cluster.peer_listen", "choose one"),
        (NODE | {"cluster.tls_cert": "c"}, "cluster.tls_key", "all three"),
        (ABROAD | {"cluster.secret": ""}, "cluster.peer_listen", "--cluster-secret-file"),
        (ABROAD | {"cluster.secret_file": "f"}, "cluster.secret_file", "keep one"),
        (ABROAD | {"cluster.peer_listen": "0.0.0.0:7700"}, "cluster.advertise_peer", "HOST:7700"),
        (ABROAD | {"listen": "[::]:1883"}, "cluster.advertise", "--advertise HOST:1883"),
        (ABROAD | {"listen": "127.0.0.1:1883"}, "cluster.advertise", "--advertise HOST:1883"),
    ],
)
def test_what_would_not_work_is_refused_with_what_to_write(flags, key, advice):
    said = problem(flags)
    assert f"{key}: " in said
    assert advice in said
    assert SECRET not in said


@pytest.mark.parametrize(
    "credentials",
    [
        {"cluster.secret": SECRET},
        {"cluster.secret_file": "f"},
        {"cluster.tls_cert": "c", "cluster.tls_key": "k", "cluster.tls_ca": "a"},
    ],
)
def test_node_that_others_can_reach_starts_with_any_credential(credentials):
    assert load(None, {}, ABROAD | {"cluster.secret": ""} | credentials).config.cluster.node_id == 1


def test_secret_comes_from_the_environment_and_is_never_shown():
    config = load(None, {"PENSTOCK_CLUSTER_SECRET": SECRET}, {}).config
    assert cluster_secret(config.cluster) == SECRET.encode()
    assert SECRET not in repr(config)


def secret_file(tmp_path, text, mode=0o600):
    file = tmp_path / "secret"
    file.write_text(text)
    file.chmod(mode)
    return Cluster(secret_file=str(file))


def test_secret_of_a_file_is_taken_without_the_end_of_its_line(tmp_path):
    assert cluster_secret(secret_file(tmp_path, SECRET + "\n")) == SECRET.encode()


def test_no_secret_is_empty():
    assert cluster_secret(Cluster()) == b""


@pytest.mark.parametrize(
    ("text", "mode", "advice"),
    [
        (SECRET, 0o644, "chmod 600"),
        ("short", 0o600, "/dev/urandom"),
        ("two words of a secret", 0o600, "/dev/urandom"),
        ("nön-ascii-characters", 0o600, "/dev/urandom"),
        ("x" * 300, 0o600, "/dev/urandom"),
    ],
)
def test_file_that_will_not_do_is_refused_without_showing_it(tmp_path, text, mode, advice):
    with pytest.raises(ConfigError, match="secret_file") as caught:
        cluster_secret(secret_file(tmp_path, text, mode))
    assert advice in str(caught.value)
    assert text not in str(caught.value)


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        cluster_secret(Cluster(secret_file=str(tmp_path / "none")))


def test_a_second_line_is_another_secret_that_is_accepted(tmp_path):
    settings = secret_file(tmp_path, f"{SECRET}\n\n  {SECRET}-before \n")
    assert cluster_secrets(settings) == (SECRET.encode(), f"{SECRET}-before".encode())
    assert cluster_secret(settings) == SECRET.encode()


@pytest.mark.parametrize("text", [f"{SECRET}\nshort", f"{SECRET}\n{SECRET}\n{SECRET}"])
def test_every_line_must_be_a_secret_and_two_are_enough(tmp_path, text):
    with pytest.raises(ConfigError, match="16 to 256 ASCII characters"):
        cluster_secrets(secret_file(tmp_path, text))
