"""The API at any node of three: what others know is put together, changes are made by the leader."""

import signal
from base64 import b64encode
from contextlib import ExitStack, contextmanager

import pytest

from penstock.client import connect
from penstock.wire.queue._generated.queue_pb2 import StagedBlock
from tests.api_kit import ApiClient
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MAIL = {"topic": "mail/out", "group": "send"}
POST = {"topic": "post/out", "group": "carry"}


@contextmanager
def cluster(directory):
    with nodes(directory, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        code, said = made.command(1, "init", *options)
        assert code == 0, said
        made.leader()
        until(lambda: all(reaches_all(made, number) for number in made.running))
        yield made


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    """Three nodes without users, for all tests that leave them so."""
    with cluster(tmp_path_factory.mktemp("trio")) as made:
        yield made


def api(trio, number, **headers):
    port = int(trio.address(number).rpartition(":")[2])
    return ApiClient(port, **headers)


def reaches_all(trio, number):
    """Whether a node has links to all others, and they answer."""
    answer = api(trio, number).get("groups")
    return answer.status == 200 and answer.document["incomplete"] == []


def followers(trio):
    leader = trio.leader()
    return [number for number in trio.running if number != leader]


def done(answer, status=200):
    assert answer.status == status, answer
    return answer.document


def test_a_change_asked_of_a_follower_is_made_by_the_leader(trio):
    one, other = followers(trio)
    made = done(api(trio, one).post("groups", {"topic": "by/follower", "group": "g"}))
    assert made["topic"] == "by/follower"
    until(lambda: done(api(trio, other).get("groups", topic="by/follower"))["items"])
    asked = {"topic": "by/follower", "group": "g", "max_deliveries": 3}
    done(api(trio, other).ask("PATCH", "groups", asked))

    def everywhere():
        found = [
            done(api(trio, number).get("groups", topic="by/follower"))["items"]
            for number in trio.running
        ]
        return all(len(items) == 1 and items[0]["max_deliveries"] == 3 for items in found)

    until(everywhere)


def test_a_refusal_of_the_leader_comes_back_as_it_is(trio):
    one, _ = followers(trio)
    refused = api(trio, one).delete("groups", topic="no/such", group="g")
    assert (refused.status, refused.document["code"]) == (404, "not_found")
    refused = api(trio, one).ask("PATCH", "queues", {"topic": "$SYS/x", "burst": 1})
    assert refused.status == 400
    assert refused.headers["content-type"] == "application/problem+json"


def test_workers_and_holders_of_all_nodes_are_told_by_any(trio):
    leader, (one, _) = trio.leader(), followers(trio)
    with connect(trio.addresses) as client:
        for number in range(3):
            client.produce("mail/out", b"%d" % number)
        client.poll("mail/out", "send", max=2)

        def held():
            found = api(trio, one).get("groups/pending", **MAIL)
            items = found.document["items"] if found.status == 200 else []
            return [item["address"] for item in items if item["node"] == leader]

        addresses = until(lambda: len(held()) == 2 and held())
        assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_clients_of_all_nodes_are_listed_by_any_page_by_page(trio):
    with ExitStack() as stack:
        for name in ("a", "b", "c", "d", "e"):
            number = 1 + ord(name) % 3
            port = int(trio.address(number).rpartition(":")[2])
            stack.enter_context(connect("127.0.0.1", port, f"dev-{name}"))
        for number in trio.running:
            seen, cursor = [], None
            while True:
                page = done(api(trio, number).get("clients", prefix="dev-", limit=2, cursor=cursor))
                assert page["incomplete"] == []
                seen += [(row["client_id"], row["node"]) for row in page["items"]]
                cursor = page["next"]
                if cursor is None:
                    break
            assert seen == [(f"dev-{name}", 1 + ord(name) % 3) for name in "abcde"]


def test_dead_letters_are_redriven_by_way_of_a_follower(trio):
    one, _ = followers(trio)
    with connect(trio.addresses) as client:
        client.create_group("post/out", "carry")
        client.configure_group("post/out", "carry", max_deliveries=1)
        for number in range(3):
            client.produce("post/out", b"%d" % number)
        client.nack(client.poll("post/out", "carry", max=3), reason="no stamp")

        def letters():
            answer = api(trio, one).get("dlq/letters", **POST)
            return answer.document.get("items", []) if answer.status == 200 else []

        until(lambda: len(letters()) == 3)
        moved = done(api(trio, one).post("dlq/redrive", POST | {"offsets": [1]}))
        assert (moved["moved"], moved["left"]) == (1, 2)
        assert [job.payload for job in client.poll("post/out", "carry", wait_s=10)] == [b"1"]


def test_who_asks_for_current_state_sees_at_any_node_what_another_acknowledged(trio):
    one, other = followers(trio)
    for number in range(20):
        made = api(trio, one).post("groups", {"topic": f"current/{number}", "group": "g"})
        assert made.status == 200, made
        listed = done(api(trio, other).get("groups", topic=f"current/{number}", current="true"))
        assert [group["group"] for group in listed["items"]] == ["g"]


def test_each_node_tells_what_it_sees_itself_and_has_the_digests_of_the_others(trio):
    seen = [done(api(trio, number).get("cluster/status")) for number in trio.running]
    assert [one["status"]["node_id"] for one in seen] == list(trio.running)
    assert {one["status"]["leader"] for one in seen} == {trio.leader()}
    while not (states := states_at_one_index(trio)):
        pass  # another entry came before they were asked
    assert len(states) == 1


def states_at_one_index(trio):
    """The digests of the nodes that have applied no more than the one that has applied most."""
    seen = [done(api(trio, number).get("cluster/status")) for number in trio.running]
    index = max(one["status"]["applied"] for one in seen)
    made = [api(trio, n).get("cluster/digests", index=index).document for n in trio.running]
    return {str(one["state"]) for one in made if one.get("index") == index}


def test_what_is_too_large_for_a_question_between_nodes_is_sent_to_the_leader(trio):
    roles = {f"role-{n}": {"rules": ["allow publish a"], "note": "x" * 900} for n in range(300)}
    asked = {"document": {"roles": roles}}
    answer = api(trio, followers(trio)[0]).post("access/apply", asked)
    assert (answer.status, answer.document["code"]) == (421, "not_leader")
    assert answer.document["leader_addr"] == trio.address(trio.leader())
    assert done(api(trio, trio.leader()).post("access/apply", asked))["changes"]


def test_any_node_tells_which_may_be_stopped_as_the_leader_sees_it(trio):
    leader, (one, _) = trio.leader(), followers(trio)
    seen = done(api(trio, one).get("cluster"))
    assert (seen["node"], seen["leader"], seen["healthy"]) == (one, leader, True)
    by_number = {member["node"]: member for member in seen["members"]}
    assert by_number[one]["this"]
    assert by_number[leader]["role"] == "leader"
    assert all(member["lag"] is not None for member in seen["members"])
    assert by_number[one]["may_stop"] == {"safe": True, "text": "yes, 2 of 3 stay"}


def test_removal_is_tried_without_being_done(trio):
    one, other = followers(trio)
    told = done(api(trio, one).delete("cluster/members", node=other, dry_run=1))
    assert (told["voters"], told["tolerates"], told["dry_run"]) == (2, 0, True)
    assert len(told["cluster"]["members"]) == 3
    assert api(trio, one).delete("cluster/members", node=9).status == 404


def test_leadership_is_handed_over_by_way_of_a_follower(trio):
    one, other = followers(trio)
    done(api(trio, one).post("cluster/transfer", {"to": other}))
    until(lambda: trio.leader() == other)
    assert done(api(trio, one).get("cluster"))["leader"] == other
    asked = {"action": "cluster", "current": "true"}
    until(
        lambda: (
            f"transfer leadership to node {other}"
            in [entry["note"] for entry in api(trio, one).get("audit", **asked).document["items"]]
        )
    )


def test_sinks_are_told_by_any_node_with_what_is_staged(trio):
    block = StagedBlock(lots=[{"topic": "table", "payloads": [b"row"]}]).SerializeToString()
    with connect(trio.addresses) as client:
        client.stage("job", 0, "p", 0, block)
        client.commit_stage("job", 0, [("p", 1)])
        client.stage("job", 1, "p", 0, block)
    for number in trio.running:
        found = done(api(trio, number).get("sinks"))
        (sink,) = found["items"]
        assert (sink["sink"], sink["epoch"], sink["staged_parts"]) == ("job", 0, 1)
        assert found["incomplete"] == []


def test_users_are_judged_again_where_the_change_is_made(tmp_path):
    with cluster(tmp_path) as made:
        for names in (MAIL, POST):
            done(api(made, 1).post("groups", names))
        judge_again(made)


def judge_again(trio):
    one, other = followers(trio)
    secret = {"generate_secret": True}
    root = done(api(trio, one).post("users", {"name": "root", "roles": ["admin"]} | secret))
    as_root = ["root", root["secret"]]
    until(lambda: asked_by(trio, one, *as_root).get("session").status == 200)
    rules = ["allow manage mail/#", "allow monitor"]
    asked = {"name": "mailing", "rules": rules}
    done(asked_by(trio, other, *as_root).ask("PUT", "roles", asked))
    mailer = done(
        asked_by(trio, one, *as_root).post(
            "users", {"name": "mailer", "roles": ["mailing"]} | secret
        )
    )
    login = ["mailer", mailer["secret"]]
    until(lambda: asked_by(trio, one, *login).get("session").status == 200)
    changed = {"max_deliveries": 9}
    done(asked_by(trio, one, *login).ask("PATCH", "groups", MAIL | changed))
    refused = asked_by(trio, one, *login).ask("PATCH", "groups", POST | changed)
    assert (refused.status, refused.document["code"]) == (403, "forbidden")
    assert refused.document["advice"]
    asked = {"action": "group", "current": "true"}
    latest = done(asked_by(trio, other, *as_root).get("audit", **asked))["items"][0]
    assert latest["user"] == "mailer"
    assert latest["node"] == trio.leader(), "the change was made there"
    groups = done(asked_by(trio, one, *login).get("groups"))
    assert groups["incomplete"] == []
    done(asked_by(trio, one, *as_root).ask("PATCH", "users", {"name": "mailer", "disabled": True}))
    until(lambda: asked_by(trio, one, *login).get("groups").status == 401)


def asked_by(trio, number, user, secret):
    basic = b64encode(f"{user}:{secret}".encode()).decode()
    return api(trio, number, authorization=f"Basic {basic}")


def test_a_node_that_does_not_answer_is_named_and_not_waited_for(tmp_path):
    with cluster(tmp_path) as made:
        leader = made.leader()
        hung = followers(made)[0]
        asked = next(number for number in made.running if number not in {leader, hung})
        made.running[hung].signal(signal.SIGSTOP)
        try:
            found = done(api(made, asked).get("groups"))
            (missing,) = found["incomplete"]
            assert missing["node"] == hung
            assert missing["reason"] in {"too_slow", "not_reached"}
        finally:
            made.running[hung].signal(signal.SIGCONT)
        made.kill(leader)
        gone = until(lambda: done(api(made, asked).get("groups"))["incomplete"])
        assert {"node": leader, "reason": "not_reached"} in gone
