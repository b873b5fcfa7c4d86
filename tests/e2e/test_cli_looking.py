"""``penstock topics``, ``read``, ``clients`` and ``status`` against a running broker."""

import json

import pytest
from click.testing import CliRunner

from penstock import __version__, kernel
from penstock.cli import penstock
from penstock.client import Credentials, TlsOptions, connect
from penstock.testing import Broker
from tests.conformance.wire_client import wait_until
from tests.e2e.access_kit import Kit


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        with connect(own.host, own.port) as client:
            for number in range(6):
                client.publish(f"plant/{number % 2}", b"%d" % number, qos=1)
            client.publish("other", b"line 1\nline 2", qos=1)
        with connect(own.host, own.port, "sleeper", clean_session=False) as client:
            client.subscribe([("plant/#", 1)])
        wait_until(lambda: sessions_away(own) == 1)  # a DISCONNECT is not answered
        yield own


def sessions_away(broker):
    result = CliRunner().invoke(penstock, ["status", "--json", "-p", str(broker.port)])
    return json.loads(result.stdout)["numbers"]["away"]


@pytest.fixture
def run(broker):
    def run_command(*words):
        return CliRunner().invoke(penstock, [*words, "-p", str(broker.port)])

    return run_command


def lines(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def items(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["items"]


def test_read_prints_what_matching_topics_hold_in_the_order_of_the_journal(run):
    assert lines(run("read", "plant/+")) == [f"plant/{n % 2} {n}" for n in range(6)]
    assert lines(run("read", "other")) == [r"other line 1\nline 2"]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--from", "earliest", "-n", "2"], [0, 1]),
        (["--from", "2"], [4, 5]),
        (["--last", "1"], [4, 5]),
        (["--since", "99999d"], range(6)),
        (["--since", "0"], []),
    ],
)
def test_read_begins_where_it_is_told(run, options, numbers):
    found = [json.loads(line) for line in lines(run("read", "plant/#", "--json", *options))]
    assert [message["payload"] for message in found] == list(map(str, numbers))
    assert all({"topic", "offset", "sequence", "time"} < message.keys() for message in found)


def test_read_says_that_there_is_no_such_topic(run):
    result = run("read", "plantt/#")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no topic matches plantt/#" in result.stderr


def test_topics_are_listed_by_prefix(run):
    head, *rows = lines(run("topics", "plant/"))
    assert head.split() == ["TOPIC", "MESSAGES", "BYTES", "OFFSETS", "GROUPS"]
    assert [row.split()[:3] for row in rows] == [["plant/0", "3", "3"], ["plant/1", "3", "3"]]
    assert [topic["name"] for topic in items(run("topics", "--json"))] == [
        "other",
        "plant/0",
        "plant/1",
    ]


@pytest.mark.parametrize(
    ("topic_filter", "names"),
    [
        ("plant/#", ["plant/0", "plant/1"]),
        ("other/#", ["other"]),
        ("+/1", ["plant/1"]),
        ("#", ["other", "plant/0", "plant/1"]),
    ],
)
def test_topics_are_listed_by_filter(run, topic_filter, names):
    found = items(run("topics", topic_filter, "--json"))
    assert [topic["name"] for topic in found] == names


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [("none", "no topic begins with none"), ("none/+", "no topic matches none/+")],
)
def test_topics_says_what_it_was_asked_for_if_there_are_none(run, wanted, answer):
    assert lines(run("topics", wanted)) == [f"{answer}; penstock topics lists all"]


def test_topics_of_an_empty_journal_says_how_to_make_one():
    with Broker() as own:
        result = CliRunner().invoke(penstock, ["topics", "-p", str(own.port)])
    assert lines(result) == ["no topics; penstock pub TOPIC MESSAGE creates one"]


@pytest.mark.parametrize("command", ["read", "sub", "topics"])
def test_a_name_of_redis_is_hinted_at_by_its_topic(run, command):
    result = run(command, "user#42")
    assert result.exit_code == 2
    assert "'user%2342'" in result.stderr


def test_clients_are_listed_by_any_protocol_and_by_prefix(run, broker):
    with (
        connect(broker.host, broker.port, "pump-7") as client,
        connect([f"{broker.host}:{broker.port}"]) as worker,
    ):
        client.subscribe([("a", 1), ("b", 1)])
        worker.stats()
        found = items(run("clients", "--json"))
        assert {(one["client_id"], one["protocol"], one["version"]) for one in found} == {
            ("pump-7", "mqtt", "5"),
            ("", "queue", ""),
        }
        (pump,) = items(run("clients", "pump", "--json"))
        assert (pump["subscriptions"], pump["persistent"]) == (2, False)
        assert pump["address"].startswith("127.0.0.1:")
        assert (pump["user"], pump["encrypted"]) == ("", False)
        assert lines(run("clients", "--limit", "1"))[-1].startswith("... and more")
    assert lines(run("clients", "nobody")) == ["there are no such clients"]


@pytest.mark.parametrize(
    ("url", "version", "shown"), [("mqtt", 4, "mqtt/3.1.1"), ("ws", 5, "mqtt/5,ws")]
)
def test_clients_are_listed_with_their_version_and_whether_by_websocket(
    run, broker, url, version, shown
):
    with connect(f"{url}://{broker.host}:{broker.port}", client_id="browser", version=version):
        _, row = lines(run("clients", "browser"))
    assert row.split()[2] == shown


def test_clients_are_listed_with_their_users_and_whether_they_are_encrypted(tmp_path):
    certs = tmp_path / "certs"
    assert CliRunner().invoke(penstock, ["certs", "dev", str(certs)]).exit_code == 0
    pair = {"tls.cert": str(certs / "server.crt"), "tls.key": str(certs / "server.key")}
    with Broker(data=tmp_path / "data", **pair) as own:
        kit = Kit(own)
        kit.say("users", "add", "root", "--admin")
        secret = kit.ask("users", "add", "ann", "--role", "client")["secret"]
        login = Credentials("ann", secret)
        tls = TlsOptions(ca_file=str(certs / "ca.crt"))
        with connect("localhost", own.port, "wall", tls=tls, credentials=login):
            found = CliRunner().invoke(penstock, ["clients", "--json", "-p", str(own.port)])
            (wall,) = items(found)
            assert (wall["client_id"], wall["user"], wall["encrypted"]) == ("wall", "ann", True)
            head, row = lines(CliRunner().invoke(penstock, ["clients", "-p", str(own.port)]))
            shown = dict(zip(head.split(), row.split(), strict=False))
            assert (shown["USER"], shown["TLS"]) == ("ann", "yes")


def test_sessions_whose_clients_are_away_are_listed(run):
    (session,) = items(run("clients", "--away", "--json"))
    assert (session["client_id"], session["persistent"], session["address"]) == (
        "sleeper",
        True,
        None,
    )


def test_status_tells_how_the_broker_is(run):
    found = json.loads(run("status", "--json").stdout)
    assert (found["version"], found["health"]["ready"]) == (__version__, True)
    assert found["storage"]["messages"] == 7
    assert found["numbers"]["away"] == 1
    shown = run("status").stdout
    assert "ready" in shown
    assert found["speed"] == kernel.speed
    assert f"Penstock {__version__}, {kernel.speed}, up " in shown
    assert "7 messages" in shown
