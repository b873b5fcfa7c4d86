"""Access changes in a cluster: leaders are killed in the middle of them, and users race for ids."""

import base64
import http.client
import json
import threading
import urllib.error
import urllib.request
from hashlib import sha256
from itertools import count

import pytest
from click.testing import CliRunner

from penstock.cli import penstock, waiting
from penstock.trust.passwords import hash_password
from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.conformance.wire_client import WireClient, connect_packet
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SECRET = "a-secret-of-20-bytes"
PASSWORD = "correct horse battery"
USERS = {
    name: {"roles": [role], "secrets": [sha256(SECRET.encode()).hexdigest()]}
    for name, role in (("root", "admin"), ("ann", "client"), ("bob", "client"))
}
UNAVAILABLE = 3
NOT_AUTHORIZED = 5


def ask(node, path, body=None):
    """Ask a page as root; return its status and document, 0 if the node does not answer."""
    return ask_at(f"{node.host}:{node.http_port}", path, body)


def ask_at(address, path, body=None):
    url = f"http://{address}{path}"
    login = base64.b64encode(f"root:{SECRET}".encode()).decode()
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"authorization": f"Basic {login}"})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}
    except (OSError, ValueError, http.client.HTTPException):  # killed in the middle of its answer
        return 0, {}


def begin(made):
    options = [f"--node={made.as_option(number)}" for number in made.running]
    assert made.command(1, "init", *options)[0] == 0
    made.leader()  # later, who leads may be a secret: there are users
    users = {"document": {"users": USERS}}

    def leading():
        nodes_asked = made.running.values()
        return next(
            (node for node in nodes_asked if ask(node, "/access/apply", users)[0] == 200), None
        )

    return until(leading)


def pair(number):
    """A change of two rows that belong together."""
    rules = {"rules": [f"allow read t/{number}"]}
    return {"document": {"roles": {f"a{number}": rules, f"b{number}": rules}}}


def exported(node):
    _, found = ask(node, "/access/export")
    return found.get("document", {}).get("roles", {}), found.get("version")


def test_leaders_killed_in_the_middle_of_changes_lose_none_and_halve_none(tmp_path):
    with nodes(tmp_path, 3) as made:
        begin(made)
        acknowledged, over = [], threading.Event()

        def work():
            for number in count():
                if over.is_set():
                    return
                for node in list(made.running.values()):  # whoever leads
                    status, _ = ask(node, "/access/apply", pair(number))
                    if status == 200:
                        acknowledged.append(number)
                        break

        worker = threading.Thread(target=work)
        worker.start()
        try:
            for _ in range(2):
                enough = len(acknowledged) + 5
                until(lambda enough=enough: len(acknowledged) >= enough)
                killed = made.leader()
                made.kill(killed)
                made.leader()
                made.start(killed)
            enough = len(acknowledged) + 3
            until(lambda: len(acknowledged) >= enough)
        finally:
            over.set()
            worker.join()
        made.leader()
        until(lambda: len({str(exported(node)) for node in made.running.values()}) == 1)
        roles, version = exported(made.running[1])
        assert version
        assert {f"{kind}{number}" for kind in "ab" for number in acknowledged} <= roles.keys()
        assert {name[1:] for name in roles if name[0] == "a"} == {
            name[1:] for name in roles if name[0] == "b"
        }


def connected(address, name, client_id="pump"):
    """Present a client id as a user; return the connection and the code of its CONNACK."""
    host, port = address.split(":")
    client = WireClient(host, int(port))
    client.send(connect_packet(client_id, clean=False, username=name, password=SECRET.encode()))
    return client, client.receive()[3]


def code_of(address, name, client_id="pump"):
    client, code = connected(address, name, client_id)
    client.__exit__()
    return code


def code_with_quorum(address, name):
    """The code of a CONNACK when the node has a leader again; without one nobody can log in."""
    codes = [UNAVAILABLE]

    def is_judged():
        codes.append(code_of(address, name))
        return codes[-1] != UNAVAILABLE

    until(is_judged)
    return codes[-1]


@pytest.fixture
def as_root(tmp_path, monkeypatch):
    """Commands log in as root."""
    file = tmp_path / "password"
    file.write_text(SECRET)
    file.chmod(0o600)
    monkeypatch.setenv("PENSTOCK_USER", "root")
    monkeypatch.setenv("PENSTOCK_PASSWORD_FILE", str(file))


def kept(address):
    """What must be the same at every node: the book and the audit log."""
    _, book = ask_at(address, "/access/export")
    _, log = ask_at(address, "/topics/%24audit%2Faccess?limit=1000")
    return book, [message["payload"] for message in log.get("messages", ())]


def test_a_node_that_gets_a_snapshot_has_users_owners_and_the_audit_log(tmp_path, as_root):
    settings = ("--set", "cluster.log_kept_entries=10", "--set", "auth.anonymous=deny")
    settings += ("--set", "journal.block_bytes=4096")  # so that the log is folded soon
    with nodes(tmp_path, 1, *settings) as made:
        begin(made)
        assert code_of(made.address(1), "ann") == 0
        for number in range(40):  # more entries than are kept
            assert ask(made.running[1], "/access/apply", pair(number))[0] == 200
        # Until then the log itself would do.
        until(lambda: made.status(1)["first_index"] > 1, patience_s=150)
        made.start(2, *settings)
        code, said = made.command(2, "join", "--to", made.address(1), "--timeout", "60s")
        assert code == 0, said
        expected = kept(made.address(1))
        assert len(expected[1]) > 40
        until(lambda: kept(made.address(2)) == expected)
        assert "store_replaced" in made.running[2].log_path.read_text()
        assert code_of(made.address(2), "bob") == NOT_AUTHORIZED
        assert code_of(made.address(2), "ann") == 0

        code, said = made.command(1, "compare", "--json")
        assert code == 0, said
        found = json.loads(said)
        assert (found["is_equal"], len(found["nodes"])) == (True, 2)
        assert found["nodes"][0]["state"]["access"] == found["nodes"][1]["state"]["access"]


def test_a_node_that_is_cut_off_keeps_its_clients_and_takes_no_logins(tmp_path, as_root):
    with nodes(tmp_path, 3, "--set", "auth.stale_s=1s") as made:
        begin(made)
        until(lambda: all(exported(node)[1] for node in made.running.values()))
        cut = next(number for number in made.running if number != made.leader())
        client, code = connected(made.address(cut), "ann")
        assert code == 0
        for number in sorted(set(made.running) - {cut}):
            made.kill(number)
        refused = 'penstock_logins_total{door="mqtt",outcome="no_quorum"}'

        def is_refused():
            code = code_of(made.address(cut), "bob", "other")
            return code == UNAVAILABLE and made.running[cut].metric(refused)

        until(is_refused)
        client.ping()
        for number in {1, 2, 3} - {cut}:
            made.start(number, "--set", "auth.stale_s=1s")
        made.leader()
        until(lambda: code_of(made.address(cut), "bob", "other") == 0)
        client.ping()
        disabled = {"users": {"ann": {**USERS["ann"], "disabled": True}}}
        until(
            lambda: any(
                ask(node, "/access/apply", {"document": disabled})[0] == 200
                for node in made.running.values()
            )
        )
        client.expect_close()  # what it missed is in force as soon as it is applied
        client.__exit__()
        assert code_of(made.address(cut), "ann") != 0


def test_two_users_who_present_a_client_id_at_two_nodes_at_once_get_one_owner(tmp_path):
    with nodes(tmp_path, 3) as made:
        begin(made)
        until(lambda: all(exported(node)[1] for node in made.running.values()))
        ready = threading.Barrier(2)
        found = {}

        def enter(name, number):
            ready.wait()
            found[name] = connected(made.address(number), name)

        racers = [threading.Thread(target=enter, args=pair) for pair in (("ann", 1), ("bob", 2))]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert sorted(code for _, code in found.values()) == [0, NOT_AUTHORIZED]
        owner = next(name for name, (_, code) in found.items() if code == 0)
        other = "bob" if owner == "ann" else "ann"
        found[owner][0].ping()  # it was not taken over
        made.kill(made.leader())
        made.leader()
        for number in made.running:  # the owner is known everywhere, and to the next leader
            assert code_with_quorum(made.address(number), other) == NOT_AUTHORIZED
        assert code_with_quorum(made.address(next(iter(made.running))), owner) == 0
        for one, _ in found.values():
            one.__exit__()


def test_a_login_at_a_node_that_does_not_lead_makes_the_verifier_for_all(tmp_path):
    text = hash_password(PASSWORD.encode(), bytes(16))
    with nodes(tmp_path, 3) as made:
        leader = begin(made)
        user = {"document": {"users": {"eve": {"roles": ["client"], "password": text}}}}
        assert ask(leader, "/access/apply", user)[0] == 200
        other = next(node for node in made.running.values() if node is not leader)
        login = connect_packet("eve", username="eve", password=PASSWORD.encode())

        def logged_in():
            with WireClient(other.host, other.port) as client:
                client.send(login)
                return client.receive()[3] == 0

        until(logged_in)
        until(lambda: ask(leader, "/users/eve")[1].get("scram"))
        until(lambda: challenge(leader) == challenge(other))


def challenge(node):
    """What a node shows to who begins to log in, without the nonce."""
    first = v5.connect("", auth_method="SCRAM-SHA-256", auth_data=b"n,,n=nobody,r=abcdefgh")
    with Client5(node.host, node.port) as client:
        client.send(first)
        return client.take().properties["auth_data"][0].partition(b",")[2]


def test_a_change_that_waits_for_all_nodes_names_those_that_lack_it(tmp_path, as_root, monkeypatch):
    with nodes(tmp_path, 3) as made:
        begin(made)
        leader = made.leader()

        def changed(word):
            words = ["users", word, "ann", "--wait-all", "--server", made.address(leader)]
            return CliRunner().invoke(penstock, words)

        result = changed("disable")
        assert (result.exit_code, "all 3 nodes have it" in result.stderr) == (0, True)
        lost = leader % 3 + 1
        made.kill(lost)
        monkeypatch.setattr(waiting, "PATIENCE_S", 0.5)
        result = changed("enable")
        assert result.exit_code == 1
        assert f"these lack it: {lost}" in result.output


def test_a_node_that_is_cut_off_does_not_say_that_there_is_nothing_to_change(tmp_path):
    with nodes(tmp_path, 3) as made:
        begin(made)
        until(lambda: all(exported(node)[1] for node in made.running.values()))
        same = {"document": {"users": USERS}}
        leader = made.leader()
        assert ask(made.running[leader], "/access/apply", same)[0] == 200
        cut = leader % 3 + 1
        for number in {1, 2, 3} - {cut}:
            made.kill(number)
        assert ask(made.running[cut], "/access/apply", same)[0] in {0, 409, 503}
