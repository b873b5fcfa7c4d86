"""Clients of a cluster of three: any node tells of those at the others, explains and ends them."""

import pytest

from penstock.client import ClientError, connect
from tests.e2e.cluster_processes import until
from tests.e2e.test_api_cluster import api, cluster, done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("trio")) as made:
        yield made


def client_at(trio, number, name, **options):
    port = int(trio.address(number).rpartition(":")[2])
    return connect("127.0.0.1", port, name, **{"keep_alive": 0} | options)


def told_by_all(trio, path, **query):
    """What each node answers, all of them complete."""
    found = {number: done(api(trio, number).get(path, **query)) for number in trio.running}
    assert all(one["incomplete"] == [] for one in found.values())
    return found


def pages(trio, number, path, **query):
    cursor = None
    while True:
        page = done(api(trio, number).get(path, cursor=cursor, **query))
        assert page["incomplete"] == []
        yield from page["items"]
        if (cursor := page["next"]) is None:
            return


def test_events_of_all_nodes_are_listed_by_any_page_by_page(trio):
    for number in trio.running:
        for name in ("a", "b"):
            client_at(trio, number, f"guest-{name}{number}").close()

    def listed(number, limit):
        found = pages(trio, number, "events", kind="connected", limit=limit)
        return [event for event in found if (event.get("client_id") or "").startswith("guest-")]

    every = listed(1, 100)
    assert sorted((event["client_id"], event["node"]) for event in every) == sorted(
        (f"guest-{name}{number}", number) for number in trio.running for name in ("a", "b")
    )
    assert [event["at"] for event in every] == sorted((e["at"] for e in every), reverse=True)
    assert all(listed(number, 2) == every for number in trio.running)


def test_a_client_is_explained_by_any_node(trio):
    with client_at(trio, 2, "pump-2"):
        for found in told_by_all(trio, "why/client", client_id="pump-2").values():
            assert found["fate"] == "connected"
            assert found["summary"].startswith("pump-2 is connected from 127.0.0.1:")
            assert [fact["code"] for fact in found["facts"]].count("connected") == 1

    def is_told(number):
        found = done(api(trio, number).get("why/client", client_id="pump-2"))
        codes = [fact["code"] for fact in found["facts"]]
        return found["fate"] == "client_disconnect" and codes.count("client_disconnect") == 1

    for number in trio.running:
        until(lambda number=number: is_told(number))


def test_a_message_is_explained_by_any_node_for_receivers_of_all(trio):
    with client_at(trio, 1, "one") as one, client_at(trio, 2, "two", clean_session=False) as two:
        one.subscribe([("plant/1", 1)])
        two.subscribe([("plant/1", 1)])
        with client_at(trio, 3, "") as publisher:
            publisher.publish("plant/1", b"x", qos=1)
            publisher.ping()
        for client in (one, two):
            assert [delivery.payload for delivery in client.receive()] == [b"x"]
        # the client acknowledges when it is asked for the next message

        def is_told(found):
            fates = {row["name"]: row["fate"] for row in found["receivers"]}
            return fates == {"one": "in_flight", "two": "in_flight"}

        def message(number):
            return done(api(trio, number).get("why/message", topic="plant/1", offset=0))

        for number in trio.running:
            until(lambda number=number: is_told(message(number)))
            lines = [fact["text"] for fact in message(number)["facts"]]
            assert len(lines) == len(set(lines)) == 3, lines
            assert message(number)["summary"].endswith("So for 1 other receiver.")
        for found in told_by_all(trio, "why/topic", topic="plant/1").values():
            assert found["summary"].endswith(("2 clients (one, two).", "2 clients (two, one)."))
            assert found["receivers_total"] == 2


def test_sessions_and_subscriptions_of_all_nodes_are_listed_by_any(trio):
    opened = []
    try:
        for number in trio.running:
            for place, clean in enumerate((True, False)):
                name = f"sub-{number}{place}"
                opened.append(client_at(trio, number, name, clean_session=clean, version=4))
                opened[-1].subscribe([("floor/+", 1), ("floor/2", 0)])
        names = sorted(f"sub-{number}{place}" for number in (1, 2, 3) for place in (0, 1))

        def ids(path, number, **query):
            return [row["client_id"] for row in pages(trio, number, path, **query)]

        for number in trio.running:
            until(lambda number=number: ids("sessions", number, prefix="sub-", limit=2) == names)
            found = pages(trio, number, "subscriptions", topic="floor/2", limit=5)
            kept = [(row["client_id"], row["filter"]) for row in found]
            assert kept == [(name, text) for name in names for text in ("floor/+", "floor/2")]
            assert ids("subscriptions", number, client_id="sub-20") == ["sub-20"] * 2
            nodes = {row["client_id"]: row["node"] for row in pages(trio, number, "sessions")}
            assert all(nodes[name] == int(name[4]) for name in names)
    finally:
        for client in opened:
            client.close()


def test_a_client_is_kicked_by_way_of_any_node(trio):
    for number, asked in ((1, 2), (2, 3), (3, 3)):
        with client_at(trio, number, "kicked") as client:
            kicked = done(api(trio, asked).delete("clients", {"client_id": "kicked"}))
            assert (kicked["connections"], kicked["incomplete"]) == (1, [])
            with pytest.raises(ClientError):
                client.receive()
    refused = api(trio, 1).delete("clients", {"client_id": "nobody"})
    assert (refused.status, refused.document["code"]) == (404, "not_found")


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_session_is_ended_by_way_of_any_node(trio, is_clean):
    with client_at(trio, 2, "ended", clean_session=is_clean, version=4) as client:
        client.subscribe([("plant/9", 1)])
        tried = done(api(trio, 1).delete("sessions", {"client_id": "ended", "dry_run": True}))
        assert (tried["connected"], tried["subscriptions"]) == (True, 1)
        assert done(api(trio, 3).delete("sessions", {"client_id": "ended"})) == tried | {
            "dry_run": False
        }
        with pytest.raises(ClientError):
            client.receive()
    until(lambda: not any(map(_items, told_by_all(trio, "sessions", prefix="ended").values())))
    refused = api(trio, 1).delete("sessions", {"client_id": "ended"})
    assert (refused.status, refused.document["code"]) == (404, "not_found")
    audit = done(api(trio, 1).get("audit", limit=20))["items"]
    assert any(row["node"] == 2 and "ended" in str(row) for row in audit)


def _items(page):
    return page["items"]


def test_a_node_that_is_gone_is_named_in_every_list(tmp_path):
    with cluster(tmp_path) as made:
        gone = next(number for number in made.running if number != made.leader())
        asked = next(number for number in made.running if number != gone)
        made.kill(gone)
        one = {"node": gone, "reason": "not_reached"}
        for path, query in (
            ("events", {}),
            ("sessions", {}),
            ("subscriptions", {"topic": "a"}),
            ("why/client", {"client_id": "a"}),
            ("why/message", {"topic": "a", "offset": 0}),
            ("why/topic", {"topic": "a"}),
        ):
            until(lambda p=path, q=query: done(api(made, asked).get(p, **q))["incomplete"] == [one])
        kicked = done(api(made, asked).delete("clients", {"client_id": "a"}))
        assert (kicked["connections"], kicked["incomplete"]) == (0, [one])
        refused = api(made, asked).delete("sessions", {"client_id": "a"})
        assert (refused.status, refused.document["code"]) == (503, "not_reached")
