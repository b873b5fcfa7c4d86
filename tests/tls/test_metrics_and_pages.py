"""What administrators see of TLS: metrics, ``/tls``, and reloading by HTTP."""

import json
import shutil
import urllib.error
import urllib.request

import pytest

from penstock.testing import Broker
from tests.tls.authority import needs_openssl
from tests.tls.wire import connect

pytestmark = needs_openssl


@pytest.fixture
def broker(authority, server_files, tmp_path):
    files = {name: shutil.copy(getattr(server_files, name), tmp_path) for name in ("cert", "key")}
    with Broker(tls=files) as running:
        yield running


def ask(broker, context, path, method="GET"):
    request = urllib.request.Request(f"https://localhost:{broker.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_certificate_is_shown_and_replaced(broker, context, authority):
    status, shown = ask(broker, context, "/tls")
    assert status == 200
    assert shown["names"] == ["localhost", "127.0.0.1"]
    assert shown["valid_until"] == "2049-12-31 23:59 UTC"
    new, settings = authority.server(), broker.server.config.tls
    shutil.copy(new.cert, settings.cert)
    status, answer = ask(broker, context, "/tls/reload", "POST")
    assert (status, answer["error"].endswith(f"certificate {settings.cert}")) == (409, True)
    assert "stays in use" in answer["advice"]
    shutil.copy(new.key, settings.key)
    status, answer = ask(broker, context, "/tls/reload", "POST")
    assert status == 200
    assert answer["changes"]
    assert answer["fingerprint_sha256"] != shown["fingerprint_sha256"]


def test_handshakes_reloads_and_expiry_are_metrics(broker, context):
    with connect(broker, context) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(64) == b"+PONG\r\n"
    ask(broker, context, "/tls/reload", "POST")
    metrics = broker.metrics()
    assert metrics['penstock_tls_handshakes_total{version="TLSv1.3"}'] == 2
    assert metrics['penstock_tls_handshakes_total{version="TLSv1.2"}'] == 0
    assert metrics['penstock_tls_reloads_total{outcome="unchanged"}'] == 1
    listener = next(iter(broker.server.config.listen))
    expires_s = metrics[f'penstock_tls_certificate_expires_seconds{{listener="{listener}"}}']
    assert expires_s == broker.server.certificates.expires_s() > 25 * 365 * 24 * 3600


def test_without_a_certificate_there_is_no_page_and_no_expiry():
    with Broker() as broker:
        assert broker.server.certificates is None
        names = [name for name in broker.metrics() if "certificate_expires" in name]
        assert names == []
