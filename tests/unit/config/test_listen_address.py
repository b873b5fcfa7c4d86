"""Addresses to listen on."""

import pytest

from penstock.config.address import Address, parse_listen


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:1883", "127.0.0.1", 1883),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("localhost:65535", "localhost", 65_535),
        ("[::1]:1883", "::1", 1883),
        ("[::]:1", "::", 1),
        (" broker.example:1883 ", "broker.example", 1883),
    ],
)
def test_host_and_port_are_read(text, host, port):
    assert parse_listen(text) == Address(host, port)
    assert str(parse_listen(text)) == text.strip()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1883", 'has no host: write "127.0.0.1:1883"'),
        (":1883", 'write "0.0.0.0:1883" for all interfaces'),
        ("*:1883", 'write "0.0.0.0:1883" for all interfaces'),
        ("localhost", "has no port: write host:port"),
        ("localhost:", "has no port"),
        ("localhost:mqtt", "has no port"),
        ("localhost:-1", "has no port"),
        ("localhost:٣", "has no port"),
        ("", "has no port"),
        ("localhost:65536", "the port must be at most 65535"),
        ("::1:1883", 'in brackets, as in "[::1]:1883"'),
        ("[localhost]:1883", "brackets are only for IPv6 addresses"),
        ("[127.0.0.1]:1883", "brackets are only for IPv6 addresses"),
        ("mqtt://localhost:1883", "omit scheme"),
        ("a b:1883", "omit scheme, path and spaces"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_write(text, complaint):
    with pytest.raises(ValueError) as caught:
        parse_listen(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("localhost.example", False),
    ],
)
def test_only_what_surely_stays_on_this_machine_is_loopback(host, loopback):
    assert Address(host, 1883).is_loopback is loopback
