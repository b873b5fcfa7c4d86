"""A node may shorten its log between two requests of ``penstock cluster compare``."""

import json
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from penstock.cli.admin_client import AdminClient
from penstock.cli.cluster_compare import compared
from penstock.cli.connection import BrokerTarget
from penstock.cluster.status import ClusterStatus, MemberStatus
from penstock.config.address import Address

APPLIED = 100


class Pages:
    """The pages of a node at rest, which removes ``removed`` entries after it told its status."""

    def __init__(self, node_id, removed=0):
        self.node_id = node_id
        self.first_index = 1
        self._removed = removed

    def answer(self, path, query):
        if path == "/api/v1/cluster/status":
            told, self.first_index = self.first_index, self._removed + 1
            seen = {"node_id": self.node_id, "applied": APPLIED, "first_index": told}
            return {"status": seen}
        first = max(int(query["log_first"][0]), self.first_index)
        found = {"node_id": self.node_id, "index": int(query["index"][0]), "state": {"groups": "g"}}
        return {**found, "log_first": first, "log": f"entries from {first} on"}


@contextmanager
def serving(pages):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            content = json.dumps(pages.answer(url.path, parse_qs(url.query))).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_log_that_is_shortened_meanwhile_is_compared_again_and_not_called_different():
    nodes = [Pages(1), Pages(2, removed=57), Pages(3)]
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(node)) for node in nodes]
        members = tuple(
            MemberStatus(id=node.node_id, client_addr=f"127.0.0.1:{port}")
            for node, port in zip(nodes, ports, strict=True)
        )
        broker = AdminClient(BrokerTarget((Address("127.0.0.1", ports[0]),)))
        found = compared(broker, ClusterStatus(node_id=1, members=members))
    assert (found.is_equal, found.differences, found.index) == (True, (), APPLIED)
    assert [node["log_first"] for node in found.nodes] == [58, 58, 58]
