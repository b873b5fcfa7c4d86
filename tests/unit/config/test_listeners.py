"""Listening sockets: which addresses are required, and what a listener's settings mean."""

from ipaddress import ip_network

import pytest

from penstock.config.address import Address
from penstock.config.listeners import ListenerSettings, wanted
from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError
from penstock.config.schema import Config


def required(config: Config) -> dict[int, bool]:
    return {one.address.port: one.is_required for one in wanted(config)}


def test_of_the_usual_ports_only_the_first_is_required():
    assert required(Config()) == {1883: True, 6379: False, 7600: False, 9091: False}


def test_chosen_addresses_are_required():
    flags = {"listen": "127.0.0.1:1,127.0.0.1:6379", "http_listen": "127.0.0.1:9091"}
    assert required(load(None, {}, flags).config) == {1: True, 6379: True, 9091: True}


def test_whoever_chooses_listen_gets_no_http_listen_beside_it():
    assert required(load(None, {}, {"listen": "127.0.0.1:1"}).config) == {1: True}
    environ = {"PENSTOCK_LISTEN": "127.0.0.1:2"}
    assert required(load(None, environ, {}).config) == {2: True}


def test_a_chosen_http_listen_is_required_beside_the_usual_ports():
    found = required(load(None, {}, {"http_listen": "127.0.0.1:3"}).config)
    assert found == {1883: True, 6379: False, 7600: False, 3: True}


TABLE = """
[[listeners]]
address = "0.0.0.0:8883"
tls = "required"
client_certs = "optional"
protocols = ["mqtt", "http"]
user = "legacy"
proxy = true
trusted = ["10.0.0.0/8", "192.0.2.1"]
[[listeners]]
address = "127.0.0.1:7"
[tls]
cert = "server.crt"
key = "server.key"
client_ca = "ca.crt"
"""


def loaded(tmp_path, text):
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    return load(str(file), {}, {}).config


def test_a_table_becomes_the_settings_of_one_listener(tmp_path):
    config = loaded(tmp_path, TABLE)
    first, second = wanted(config)
    assert first == ListenerSettings(
        address=Address("0.0.0.0", 8883),
        tls="required",
        client_certs="optional",
        protocols=frozenset({"mqtt", "http"}),
        user="legacy",
        proxy=True,
        trusted=(ip_network("10.0.0.0/8"), ip_network("192.0.2.1/32")),
    )
    assert second == ListenerSettings(address=Address("127.0.0.1", 7))


def test_tables_replace_the_default_addresses_but_not_chosen_ones(tmp_path):
    assert loaded(tmp_path, TABLE).listen == ()
    config = loaded(tmp_path, 'listen = ["127.0.0.1:5"]' + TABLE)
    assert [str(one.address) for one in wanted(config)] == [
        "127.0.0.1:5",
        "0.0.0.0:8883",
        "127.0.0.1:7",
    ]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("tls = 'off'", "line 1: listeners[0]: a listener needs an address"),
        ("address = '0.0.0.0:1'\nproxy = true", "line 3: listeners[0].proxy: a listener that"),
        (
            "address = '127.0.0.1:1'\ntrusted = ['10.0.0.0/8']",
            "line 3: listeners[0].trusted: has no effect",
        ),
        (
            "address = '127.0.0.1:1'\nproxy = true\ntrusted = ['10.0.0.1/8']",
            'line 4: listeners[0].trusted: "10.0.0.1/8" is not an address range',
        ),
        (
            "address = '127.0.0.1:1'\ntls = 'off'\nclient_certs = 'required'",
            "line 4: listeners[0].client_certs: clients show certificates in TLS",
        ),
        ("address = '127.0.0.1:1'\nuser = 'a b'", 'line 3: listeners[0].user: "a b" is not a user'),
        (
            "address = '127.0.0.1:1'\nprotocols = ['amqp']",
            "line 3: listeners[0].protocols: must be mqtt, http, resp, binary or queue",
        ),
        (
            "address = '127.0.0.1:1'\n[[listeners]]\naddress = '127.0.0.1:1'",
            "line 4: listeners[1].address: 127.0.0.1:1 is listed twice",
        ),
    ],
)
def test_a_mistake_in_a_table_is_reported_with_its_line(tmp_path, table, fault):
    with pytest.raises(ConfigProblemsError) as caught:
        loaded(tmp_path, "[[listeners]]\n" + table)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("host", "proxy", "modes"),
    [
        ("127.0.0.1", False, ("off", "optional")),
        ("0.0.0.0", False, ("off", "required")),
        ("127.0.0.1", True, ("off", "required")),
    ],
)
def test_a_certificate_makes_encryption_required_where_others_can_connect(host, proxy, modes):
    settings = ListenerSettings(address=Address(host, 1), proxy=proxy)
    assert tuple(settings.tls_mode(has_certificate=has) for has in (False, True)) == modes
    chosen = ListenerSettings(address=Address(host, 1), tls="optional")
    assert chosen.tls_mode(has_certificate=True) == "optional"
