"""Which protocol the first bytes speak; every first byte has an answer."""

import pytest

from penstock.net.detect import Protocol, detect

HTTP_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"]


@pytest.mark.parametrize(
    ("data", "protocol"),
    [
        (b"", None),
        (b"\x10", Protocol.MQTT),
        (b"\x10\x0c\x00\x04MQTT", Protocol.MQTT),
        (b"*1\r\n", Protocol.RESP),
        (b"\x01", Protocol.BINARY),
        (b"\x00\x00\x00\x10", Protocol.QUEUE),
        (b"\x16\x03\x01", Protocol.TLS),
        (b"PING\r\n", Protocol.RESP),
        (b"get / HTTP/1.1", Protocol.RESP),
        (b"GETS", Protocol.RESP),
        (b"\x20\x02\x00\x00", Protocol.UNKNOWN),
        (b"\xc3\xa9", Protocol.UNKNOWN),
        (b"1", Protocol.UNKNOWN),
        (b"\r\n", Protocol.UNKNOWN),
    ],
)
def test_first_bytes_tell_the_protocol(data, protocol):
    assert detect(data) is protocol


@pytest.mark.parametrize("method", HTTP_METHODS)
def test_an_http_method_is_known_at_its_space_and_not_before(method):
    for end in range(1, len(method) + 1):
        assert detect(method[:end].encode()) is None
    assert detect(f"{method} ".encode()) is Protocol.HTTP


@pytest.mark.parametrize("first", range(256))
def test_eight_bytes_always_decide(first):
    assert detect(bytes([first]) * 8) is not None
