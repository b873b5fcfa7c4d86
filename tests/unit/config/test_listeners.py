"""Configured addresses are required; of the defaults only the first is."""

from penstock.config.listeners import wanted
from penstock.config.load import load
from penstock.config.schema import Config


def required(config: Config) -> dict[int, bool]:
    return {address.port: is_required for address, is_required in wanted(config)}


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
