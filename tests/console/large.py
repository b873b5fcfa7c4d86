"""A large broker, and how smoothly a page of it is scrolled: for tests and for the benchmark."""

import json
import socket
import urllib.request

from penstock.wire.mqtt import encode
from tests.console.seed import device
from tests.e2e.cluster_processes import until

__all__ = ["NODES_MAX", "ask", "make_clients", "make_topics", "scroll"]

TOPICS, IN_ONE_LEVEL = 100_000, 50_000
CLIENTS, AT_ONCE = 10_000, 500
NODES_MAX = 2_000
SCROLLS = 60

SCROLL = """async ([selector, steps]) => {
  const box = document.querySelector(selector);
  const times = [];
  let before = performance.now();
  for (let at = 0; at < steps; at += 1) {
    box.scrollTop += 997;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - before);
    before = now;
  }
  return times;
}"""


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=30) as got:
        return json.load(got)


def make_topics(port):
    """All by one connection, QoS 0: the journal takes them as fast as the disk does."""
    names = [f"wide/{at:05}" for at in range(IN_ONE_LEVEL)]
    names += [f"deep/{at // 100:03}/{at % 100:02}" for at in range(TOPICS - IN_ONE_LEVEL)]
    with device(port, "maker") as maker:
        for name in names[:-1]:
            maker.client.publish(name, b"1", 0)
        maker.publish(names[-1], b"1")
    until(lambda: len(ask(port, "topics?prefix=deep/499/9&limit=20")["items"]) == 10)


def make_clients(port):
    """Persistent sessions, whose clients then go away."""
    for first in range(0, CLIENTS, AT_ONCE):
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(AT_ONCE)]
        for at, one in enumerate(sockets, first):
            one.sendall(encode.connect(b"device-%05d" % at, clean_session=False))
        for one in sockets:
            assert one.recv(4) == encode.connack(session_present=False, return_code=0)
            one.sendall(b"\xe0\x00")
            one.close()


def scroll(window, selector):
    """Scroll far, frame by frame; how long the frames took, sorted."""
    times = sorted(window.page.evaluate(SCROLL, [selector, SCROLLS]))
    assert window.nodes() <= NODES_MAX
    return times
