"""The pages answer for the broker, in JSON, and hide nothing."""

import asyncio
import json
from platform import python_version
from typing import NamedTuple

import pytest

from penstock import kernel
from penstock.admin.app import create_app


class Answer(NamedTuple):
    status: int
    headers: dict
    body: bytes


PAGES = ("/health", "/ready", "/metrics", "/topics", "/keys", "/queues", "/groups", "/dlq")


def ask(view, path, method="GET"):
    """Put one request to the application, without a socket."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "server": ("192.0.2.1", 1883),
        "client": ("192.0.2.2", 50_000),
    }
    asyncio.run(create_app(view)(scope, receive, send))
    start, *bodies = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(b.get("body", b"") for b in bodies))


def test_health_is_ok_while_the_loop_turns(view):
    """A broker that is not ready is still healthy: a restart would not help."""
    view.readiness = (False, "storage full")
    answer = ask(view, "/health")
    assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})


def test_ready_says_yes(view):
    answer = ask(view, "/ready")
    assert (answer.status, json.loads(answer.body)) == (200, {"status": "ready"})


@pytest.mark.parametrize("why_not", ["storage full", "storage failing", "shutting down"])
def test_ready_says_no_and_why(view, why_not):
    view.readiness = (False, why_not)
    answer = ask(view, "/ready")
    assert answer.status == 503
    assert json.loads(answer.body) == {"status": "not ready", "reason": why_not}


def test_metrics_are_prometheus_text(view):
    answer = ask(view, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    build = f'{{python="{python_version()}",speed="{kernel.speed}",version="9.8.7"}}'
    assert f"penstock_build_info{build} 1.0\n".encode() in answer.body


def test_the_index_names_the_pages_and_how_to_connect(view):
    answer = ask(view, "/")
    line = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/plain")
    assert line.count("\n") == 1
    protocols = ("MQTT 5 and 3.1.1", "RESP", "binary", "queue protocol", "HTTP")
    for part in ("9.8.7", *protocols, "1883", *PAGES):
        assert part in line


def test_an_unknown_page_is_404_in_json(view):
    answer = ask(view, "/nothing")
    assert (answer.status, json.loads(answer.body)) == (404, {"error": "Not Found"})


def test_another_method_is_405_in_json_and_names_the_allowed_ones(view):
    answer = ask(view, "/health", method="POST")
    assert (answer.status, json.loads(answer.body)) == (405, {"error": "Method Not Allowed"})
    assert "GET" in answer.headers["allow"]


def test_the_pages_answer_head_requests(view):
    assert ask(view, "/health", method="HEAD").status == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_answers_about_this_moment_are_not_cached(view, path):
    assert ask(view, path).headers["cache-control"] == "no-store"
