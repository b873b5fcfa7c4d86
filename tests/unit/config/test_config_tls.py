"""``[tls]`` and listeners that encrypt: what is refused, and what follows from it."""

import pytest

from penstock.config.address import Address
from penstock.config.listeners import wanted
from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError

FILES = {"tls.cert": "server.crt", "tls.key": "server.key"}


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ({"tls.cert": "x"}, "tls.key"),
        ({"tls.key": "x"}, "tls.cert"),
        ({"tls.client_ca": "x"}, "tls.client_ca"),
        ({**FILES, "tls.crl": "x"}, "tls.crl"),
        ({**FILES, "tls.client_certs": "required"}, "tls.client_certs"),
        ({"listen": ["tls://127.0.0.1:8883"]}, "listen"),
        ({"http_listen": ["tls://127.0.0.1:8443"]}, "http_listen"),
        ({"listeners": [{"address": "127.0.0.1:1", "tls": "required"}]}, "listeners"),
        ({**FILES, "listeners": [{"address": "127.0.0.1:1", "client_certs": "required"}]},
         "listeners"),
        ({**FILES, "listen": ["tls://127.0.0.1:1", "127.0.0.1:1"]}, "listen"),
        ({**FILES, "tls.min_version": "1.1"}, "tls.min_version"),
        ({**FILES, "cluster.advertise": "tls://broker:1883"}, "cluster.advertise"),
    ],
)  # fmt: skip
def test_what_could_have_no_effect_or_another_is_refused(flags, key):
    with pytest.raises(ConfigProblemsError, match=key):
        load(None, {}, flags)


def test_an_address_with_the_scheme_accepts_nothing_but_tls():
    flags = {**FILES, "listen": ["tls://127.0.0.1:8883", "127.0.0.1:1883"], "http_listen": []}
    only_tls, both = wanted(load(None, {}, flags).config)
    assert only_tls.address == Address("127.0.0.1", 8883)
    assert only_tls.tls_mode(has_certificate=True) == "required"
    assert both.tls_mode(has_certificate=True) == "optional"
    assert both.tls_mode(has_certificate=False) == "off"


def test_on_addresses_that_others_reach_tls_is_required():
    flags = {**FILES, "listen": ["0.0.0.0:1883"], "allow_anonymous": True}
    (settings,) = wanted(load(None, {}, flags).config)
    assert settings.tls_mode(has_certificate=True) == "required"


def test_client_certificates_follow_from_the_section_unless_a_listener_says_otherwise():
    listeners = [{"address": "127.0.0.1:1"}, {"address": "127.0.0.1:2", "client_certs": "off"}]
    flags = {**FILES, "tls.client_ca": "ca.crt", "listeners": listeners}
    default, own = wanted(load(None, {}, flags).config)
    assert default.client_certs_mode("optional") == "optional"
    assert own.client_certs_mode("optional") == "off"
