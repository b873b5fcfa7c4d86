"""MQTT.js, unmodified: in Node, in a real browser, and behind a reverse proxy.

``make test`` fetches it; Debian's ``chromium`` and ``nginx-light`` are used where they are. What is
absent is skipped.
"""

import contextlib
import json
import queue
import shutil
import socket
import subprocess
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest

from penstock.testing import Broker
from tests.conformance.wire_client import wait_until
from tests.tls.authority import Authority, needs_openssl

HERE = Path(__file__).parent / "mqtt_js"
BUNDLE = HERE / "node_modules/mqtt/dist/mqtt.min.js"
TIMEOUT_S = 60
FILES = {
    "/page.html": ("text/html", HERE / "page.html"),
    "/exchange.js": ("text/javascript", HERE / "exchange.js"),
    "/mqtt.min.js": ("text/javascript", BUNDLE),
}

pytestmark = pytest.mark.skipif(
    not BUNDLE.exists(), reason="MQTT.js is not installed: npm install in tests/interop/mqtt_js"
)


def expected(topic):
    sizes = [(0, 1, 0), (1, 1000, 1), (2, 100_000, 2), (3, 20, 1)]
    return {"granted": [2], "seen": [[f"{topic}/{name}", size, qos] for name, size, qos in sizes]}


# ── in Node ───────────────────────────────────────────────────────────────────────────────────


def in_node(url, topic, version=4, *more):
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    command = [node, "run.js", url, topic, str(version), *map(str, more)]
    done = subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("url", ["mqtt://{}", "ws://{}", "ws://{}/mqtt"])
def test_in_node(broker, unique, url, version):
    address = f"127.0.0.1:{broker.port}"

    assert in_node(url.format(address), unique, version) == expected(unique)


@needs_openssl
@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
def test_in_node_encrypted(tmp_path, unique, scheme):
    authority = Authority(tmp_path)
    with Broker(tls=authority.server()._asdict()) as broker:
        url = f"{scheme}://localhost:{broker.port}/mqtt"
        assert in_node(url, unique, 4, authority.cert) == expected(unique)


# ── in a browser ──────────────────────────────────────────────────────────────────────────────


class Pages(BaseHTTPRequestHandler):
    """The page and its scripts; what the page posts is put into a queue."""

    def __init__(self, results, *arguments):
        self.results = results
        super().__init__(*arguments)

    def do_GET(self):
        kind, path = FILES.get(self.path.partition("?")[0], ("", None))
        body = path.read_bytes() if path else b""
        self.send_response(200 if path else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments):
        pass


@contextlib.contextmanager
def pages():
    """A web server with the page: its origin, and what the page reports."""
    results = queue.SimpleQueue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, results))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", results
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def browser(url, profile):
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("chromium is not installed")
    flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
    quiet = "--disable-background-networking --disable-component-update --disable-extensions"
    command = [chromium, *flags.split(), *quiet.split(), f"--user-data-dir={profile}", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def in_browser(page, results, profile, **asked):
    with browser(f"{page}/page.html?{urlencode(asked)}", profile):
        return results.get(timeout=TIMEOUT_S)


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_in_a_browser(tmp_path, unique, version):
    with pages() as (page, results), Broker(http={"allowed_origins": [page]}) as broker:
        url = f"ws://127.0.0.1:{broker.port}/mqtt"
        seen = in_browser(page, results, tmp_path, url=url, topic=unique, version=version)
        assert seen == expected(unique)


@pytest.mark.slow
def test_a_page_of_another_origin_does_not_get_in(broker, tmp_path, unique):
    with pages() as (page, results):
        url = f"ws://127.0.0.1:{broker.port}/mqtt"
        seen = in_browser(page, results, tmp_path, url=url, topic=unique, version=4)
        assert set(seen) == {"error"}
    assert broker.metrics()['penstock_disconnects_total{reason="origin_refused"}'] >= 1


# ── behind a reverse proxy ────────────────────────────────────────────────────────────────────

NGINX = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port};
{location}
    }}
}}
"""


def location_of_the_manual(port):
    """What docs/operating/security.md tells operators to write."""
    manual = Path(__file__).parents[2] / "docs/operating/security.md"
    text = manual.read_text().split("```nginx\n")[1].split("```")[0]
    assert "http://127.0.0.1:1883" in text
    return text.replace("127.0.0.1:1883", f"127.0.0.1:{port}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.fixture
def proxy(broker, tmp_path):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    port, settings = free_port(), tmp_path / "nginx.conf"
    location = location_of_the_manual(broker.port)
    settings.write_text(NGINX.format(directory=tmp_path, port=port, location=location))
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen([nginx, "-p", tmp_path, "-c", settings], stderr=output)
    try:
        wait_until(lambda: is_open(port) or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "output").read_text()
        yield port
    finally:
        process.terminate()
        process.wait()


def test_behind_a_reverse_proxy(proxy, unique):
    assert in_node(f"ws://127.0.0.1:{proxy}/mqtt", unique) == expected(unique)
