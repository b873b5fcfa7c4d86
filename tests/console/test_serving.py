"""How the broker serves the console: on every listener, from memory, compressed, for good."""

import gzip
import http.client
import re

import pytest

from penstock.console.files import _version_of, load
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(http_listen=["127.0.0.1:0"]) as broker:
        yield broker


def _get(broker, path, port=0, **headers):
    connection = http.client.HTTPConnection(broker.host, port or broker.port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=named)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def _script(broker):
    _, page = _get(broker, "/console/")
    return re.search(rb'src="([^"]+main\.js)"', page)[1].decode()


@pytest.mark.parametrize("page", ["", "topics", "clients", "why?q=pump-7", "no-such-page"])
def test_every_page_is_the_same_file(broker, page):
    response, body = _get(broker, f"/console/{page}")
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert b'<div id="app">' in body


def test_every_listener_serves_it(broker):
    for address in broker.server.addresses:
        response, _ = _get(broker, "/console/", port=address.port)
        assert response.status == 200


def test_a_browser_at_the_root_is_sent_to_it_and_a_program_is_not(broker):
    response, _ = _get(broker, "/", accept="text/html,application/xhtml+xml")
    assert (response.status, response.headers["location"]) == (302, "/console/")
    response, body = _get(broker, "/", accept="*/*")
    assert response.status == 200
    assert body.startswith(b"Penstock")
    response, _ = _get(broker, "/console")
    assert (response.status, response.headers["location"]) == (302, "/console/")


def test_files_are_kept_for_good_and_the_first_page_is_asked_for_again(broker):
    response, _ = _get(broker, _script(broker))
    assert "immutable" in response.headers["cache-control"]
    response, _ = _get(broker, "/console/")
    assert response.headers["cache-control"] == "no-cache"
    again, body = _get(broker, "/console/", if_none_match=response.headers["etag"])
    assert (again.status, body) == (304, b"")


def test_files_are_sent_compressed_to_those_who_take_it(broker):
    path = _script(broker)
    _, plain = _get(broker, path)
    response, zipped = _get(broker, path, accept_encoding="gzip, br")
    assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped) == plain


def test_the_files_of_another_version_are_not_there(broker):
    path = _script(broker).replace(load().version, "0" * 12)
    response, body = _get(broker, path)
    assert response.status == 404
    assert b"another version" in body


@pytest.mark.parametrize(
    "path", ["../files.py", "%2e%2e/files.py", "vendor/MANIFEST.toml", "app", "..%2f__init__.py"]
)
def test_only_files_of_the_console_are_served(broker, path):
    response, _ = _get(broker, f"/console/{load().version}/{path}")
    assert response.status == 404


def test_the_first_page_names_every_module_so_that_they_are_fetched_at_once(broker):
    _, page = _get(broker, "/console/")
    named = set(re.findall(rb'modulepreload" href="/console/[0-9a-f]+/([^"]+)"', page))
    wanted = {path.encode() for path in load().by_path if path.endswith(".js")}
    assert named == wanted - {b"vendor/uplot.js"}


def test_nothing_but_our_own_scripts_may_run(broker):
    response, page = _get(broker, "/console/")
    policy = response.headers["content-security-policy"]
    for part in (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        "trusted-types 'none'", "report-uri /api/v1/csp-reports",
    ):  # fmt: skip
        assert part in policy.split("; "), part
    assert "unsafe" not in policy
    assert not re.search(rb"<script(?![^>]* src=)|<style|style=|\son[a-z]+=", page)
    for name, value in {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
    }.items():
        assert response.headers[name] == value


def test_the_version_depends_on_every_file():
    found = {"a.js": b"1", "b.js": b"2"}
    versions = {_version_of(files) for files in (found, {**found, "b.js": b"3"}, {"a.js": b"12"})}
    assert len(versions) == 3
