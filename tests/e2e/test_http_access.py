"""HTTP pages of a broker with users, asked by curl: who may, who may not, and what browsers get."""

import json
import shutil
import socket
import subprocess
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import pytest

from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Role, Token, User

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

SECRETS = {name: f"{name}-{name}-secret" for name in ("root", "sensor", "watcher", "keeper")}
TOKEN_SECRET = "a" * 32
PASSWORD = "correct horse battery"


class Answer(NamedTuple):
    status: int
    headers: dict
    document: dict


def user(name, *roles):
    return put(User(name, roles, secrets=(sha256(SECRETS[name].encode()).digest(),)))


CHANGES = [
    put(Role("sensors", ("allow publish,read plant/%u/#", "deny publish plant/+/secret"))),
    put(Role("keepers", ("allow manage jobs/#",))),
    user("root", "admin"),
    user("sensor", "sensors"),
    user("watcher", "monitor"),
    user("keeper", "keepers"),
    put(Token("rootstoken", "root", sha256(TOKEN_SECRET.encode()).digest())),
]


class Site:
    """The pages of a broker."""

    def __init__(self, broker):
        self.url = f"http://127.0.0.1:{broker.port}"
        self.broker = broker

    def curl(self, path, *words, user=None, method="GET", body=None):
        command = ["curl", "-sS", "-i", "-X", method, self.url + path, *words]
        if user is not None:
            command += ["-u", f"{user}:{SECRETS.get(user, user)}"]
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body)
            command += ["--data-binary", text]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        head, _, content = shown.replace("\r\n", "\n").partition("\n\n")
        first, *lines = head.splitlines()
        headers = dict(line.lower().split(": ", 1) for line in lines)
        is_json = "json" in headers.get("content-type", "")
        return Answer(int(first.split()[1]), headers, json.loads(content) if is_json else content)


@pytest.fixture(scope="module")
def site():
    with Broker() as broker:
        broker.change_access(*CHANGES)
        yield Site(broker)


ALLOWED = [
    ("root", "GET", "/users"),
    ("root", "GET", "/keys"),
    ("root", "GET", "/cluster"),
    ("root", "GET", "/clients"),
    ("root", "GET", "/queues"),
    ("watcher", "GET", "/clients"),
    ("watcher", "GET", "/metrics"),
    ("watcher", "GET", "/status"),
    ("watcher", "GET", "/cluster"),
    ("keeper", "PUT", "/queues/jobs/print"),
    (None, "GET", "/health"),
    (None, "GET", "/ready"),
    (None, "GET", "/metrics"),  # on loopback
]
DENIED = [
    ("sensor", "GET", "/users"),
    ("sensor", "GET", "/keys"),
    ("sensor", "GET", "/clients"),
    ("sensor", "GET", "/metrics"),
    ("sensor", "GET", "/status"),
    ("sensor", "PUT", "/queues/jobs/print"),
    ("watcher", "GET", "/users"),
    ("watcher", "POST", "/cluster/init"),
    ("watcher", "GET", "/cluster/digests"),
    ("keeper", "PUT", "/queues/plant/a"),
    ("keeper", "DELETE", "/groups?topic=plant&group=g"),
    ("keeper", "DELETE", "/dlq?topic=plant&group=g"),
    (None, "GET", "/users"),  # loopback is administrator only until there is one
    (None, "POST", "/keys"),
]


@pytest.mark.parametrize(("who", "method", "path"), ALLOWED)
def test_pages_are_served_to_who_has_the_action(site, who, method, path):
    body = {} if method == "PUT" else None
    assert site.curl(path, user=who, method=method, body=body).status == 200


@pytest.mark.parametrize(("who", "method", "path"), DENIED)
def test_pages_are_denied_to_others_with_advice(site, who, method, path):
    answer = site.curl(path, user=who, method=method, body={} if method == "PUT" else None)
    assert answer.status == 403
    assert "acl check" in answer.document["advice"]


def test_denials_are_counted_by_door_and_action(site):
    denials = site.broker.server.parts.admission.denials
    before = denials.counts.get(("http", "admin"), 0)
    site.curl("/users", user="sensor")
    assert denials.counts["http", "admin"] == before + 1
    last = denials.of("sensor")[-1]
    assert (last.door, last.action.word) == ("http", "admin")


@pytest.mark.parametrize("user", ["root2", "nobody", "sensor2"])
def test_a_wrong_login_is_401_and_says_how_to_log_in(site, user):
    answer = site.curl("/metrics", user=user)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("basic realm=")
    assert "wrong user name, password or token" in answer.document["error"]


@pytest.mark.parametrize("header", ["Digest x", "Basic !!!", "Basic cm9vdA==", "Basic", "Bearer x"])
def test_malformed_credentials_are_401(site, header):
    assert site.curl("/metrics", "-H", f"Authorization: {header}").status == 401


def test_guessing_is_slowed_down_and_says_when_to_come_back():
    with Broker() as broker:
        broker.change_access(*CHANGES)
        site = Site(broker)
        answers = [site.curl("/metrics", user=f"guess{number}") for number in range(12)]
        assert [answer.status for answer in answers[:10]] == [401] * 10
        assert answers[-1].status == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert site.curl("/health").status == 200


# ── Messages


def test_history_and_publishing_are_judged_by_topic(site):
    path = "/topics/plant/sensor/a"
    assert site.curl(path, user="sensor", method="POST", body="21").status == 200
    assert site.curl(path, user="sensor").document["messages"][0]["payload"] == "21"
    denied = site.curl("/topics/plant/sensor", user="keeper")
    assert denied.status == 403
    assert "may not read" in denied.document["error"]
    other = site.curl("/topics/plant/pump/a", user="sensor", method="POST", body="x")
    assert other.status == 403
    denied = site.curl("/topics/plant/sensor/secret", user="sensor", method="POST", body="x")
    assert denied.status == 403


def test_lists_show_what_the_caller_may_read(site):
    site.curl("/topics/plant/sensor/b", user="sensor", method="POST", body="1")
    site.curl("/topics/office/door", user="root", method="POST", body="1")
    names = {topic["topic"] for topic in site.curl("/topics", user="sensor").document["topics"]}
    assert "plant/sensor/b" in names
    assert "office/door" not in names
    assert "office/door" in str(site.curl("/topics", user="root").document)


def test_what_devices_send_is_shown_as_text(site):
    script = "<script>alert(1)</script>"
    site.curl("/topics/office/page", user="root", method="POST", body=script)
    answer = site.curl("/topics/office/page", user="root")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.document["messages"][-1]["payload"] == script


# ── Tokens


def bearer(text):
    return "-H", f"Authorization: Bearer {text}"


def test_an_api_token_acts_for_its_owner_but_makes_no_secrets(site):
    words = bearer(f"pst_rootstoken_{TOKEN_SECRET}")
    assert site.curl("/users", *words).status == 200
    for path, method, body in (
        ("/users", "POST", {"name": "eve", "password": "long enough password"}),
        ("/users", "POST", {"name": "eve", "generate_secret": True}),
        ("/users/sensor", "PUT", {"password": "long enough password"}),
        ("/users/sensor/secret", "POST", {}),
    ):
        answer = site.curl(path, *words, method=method, body=body)
        assert answer.status == 403
        assert "neither passwords nor tokens" in answer.document["error"]


def test_the_configured_token_stays_an_administrators():
    with Broker(admin={"token": "configured-token-1234"}) as broker:
        broker.change_access(*CHANGES)
        site = Site(broker)
        assert site.curl("/users", *bearer("configured-token-1234")).status == 200
        assert site.curl("/users", *bearer("configured-token-1235")).status == 401
        assert site.curl("/users").status == 403


def test_loopback_is_administrator_until_there_is_one():
    with Broker() as broker:
        site = Site(broker)
        assert site.curl("/users").status == 200
        broker.add_user("pump", "pump-secret")
        assert site.curl("/users").status == 200
        broker.add_user("root", SECRETS["root"], roles=("admin",))
        assert site.curl("/users").status == 403
        assert site.curl("/users", user="root").status == 200


def test_a_bootstrap_token_makes_the_first_administrator_and_nothing_after(tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-for-the-start\n")
    file.chmod(0o600)
    with Broker(auth={"bootstrap_token_file": str(file)}) as broker:
        broker.add_user("pump", "pump-secret")
        site, words = Site(broker), bearer("a-token-for-the-start")
        first = {"name": "ann", "roles": ["admin"], "password": "correct horse battery"}
        wrong = bearer("another-one-entirely")
        assert site.curl("/users", *wrong, method="POST", body=first).status == 401
        made = site.curl("/users", *words, method="POST", body=first)
        assert (made.status, made.document["scram"]) == (200, True)
        assert site.curl("/users", *words).status == 401


@pytest.mark.parametrize(("mode", "text"), [(0o644, "a-token-for-the-start"), (0o600, "short")])
def test_a_bootstrap_token_that_is_no_secret_is_refused(tmp_path, mode, text):
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    with Broker(auth={"bootstrap_token_file": str(file)}) as broker:
        broker.add_user("pump", "pump-secret")
        assert Site(broker).curl("/users", *bearer(text)).status == 401


# ── Browsers


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("-H", "Origin: https://evil.example"), 403),
        (("-H", "Origin: https://evil.example", "-H", "X-Penstock: 1"), 403),
        (("-H", "Origin: null", "-H", "X-Penstock: 1"), 403),
        (("-H", "Origin: {own}"), 403),  # what a form would send
        (("-H", "Origin: {own}", "-H", "X-Penstock: 1"), 200),
        ((), 200),
    ],
)
def test_changes_come_from_tools_or_from_our_own_pages(site, words, status):
    given = [word.format(own=site.url) for word in words]
    path = "/topics/office/csrf"
    assert site.curl(path, *given, user="root", method="POST", body="x").status == status
    assert site.curl("/queues/jobs/a", *given, user="root", method="PUT", body={}).status == status


@pytest.mark.parametrize("path", ["/metrics", "/topics", "/status", "/clients"])
def test_a_name_that_somebody_points_here_is_refused(site, path):
    rebound = ("-H", "Host: evil.example")
    assert site.curl(path, *rebound).status == 403
    assert site.curl(path, "-H", "Host: localhost").status == 200
    both = (*rebound, "-H", "Origin: http://evil.example", "-H", "X-Penstock: 1")
    answer = site.curl("/queues/jobs/b", *both, user="root", method="PUT", body={})
    assert answer.status == 403


@pytest.mark.parametrize("path", ["/metrics", "/topics", "/users"])
def test_who_logs_in_may_call_the_broker_by_any_name(site, path):
    assert site.curl(path, "-H", "Host: broker.example", user="root").status == 200


def test_without_users_credentials_are_no_way_around_the_host(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        words = ("-H", "Host: evil.example")
        assert Site(broker).curl("/topics", *words, user="anybody").status == 403


@pytest.mark.parametrize("path", ["/", "/health", "/users", "/metrics", "/nothing", "/topics"])
def test_every_answer_tells_browsers_to_load_and_frame_nothing(site, path):
    headers = site.curl(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_compressed_and_unbounded_bodies_are_not_read(site):
    path = "/topics/office/bomb"
    packed = site.curl(path, "-H", "Content-Encoding: gzip", user="root", method="POST", body="x")
    assert packed.status == 415
    chunked = ("-H", "Transfer-Encoding: chunked")
    assert site.curl(path, *chunked, user="root", method="POST", body="x").status == 413
    large = site.curl("/users", user="root", method="POST", body="x" * 20_000)
    assert large.status == 413


# ── Several administrators


def test_changes_at_the_same_time_do_not_undo_each_other():
    with Broker() as broker:
        site = Site(broker)
        site.curl("/users", method="POST", body={"name": "ann", "password": PASSWORD})
        bodies = [
            {"roles": ["client"]},
            {"note": "a note"},
            {"quotas": {"connections": 7}},
            {"client_ids": ["ann-*"]},
            {"password": PASSWORD + "!"},  # takes longest
            {"generate_secret": True},
        ]
        with ThreadPoolExecutor() as pool:
            ask = partial(site.curl, "/users/ann", method="PUT")
            answers = list(pool.map(lambda body: ask(body=body), bodies))
        assert [answer.status for answer in answers] == [200] * len(bodies)
        shown = site.curl("/users/ann").document
        assert (shown["roles"], shown["note"]) == (["client"], "a note")
        assert (shown["quotas"], shown["client_ids"]) == ({"connections": 7}, ["ann-*"])
        assert (shown["password"], shown["secrets"]) == (True, 1)


def test_a_user_that_two_administrators_add_at_once_is_added_once():
    with Broker() as broker:
        site = Site(broker)
        with ThreadPoolExecutor() as pool:
            add = partial(site.curl, "/users", method="POST")
            answers = list(pool.map(lambda _: add(body={"name": "ann"}), range(5)))
        assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokens", {"owner": "root"}),
        ("/users/root/invite", {}),
        ("/access/apply", {"document": {"users": {"sensor": {"secrets": ["ab" * 32]}}}}),
    ],
)
def test_an_api_token_finds_no_other_way_to_make_a_secret(site, path, body):
    words = bearer(f"pst_rootstoken_{TOKEN_SECRET}")
    version = site.broker.server.broker.access.version
    assert site.curl(path, *words, method="POST", body=body).status == 403
    assert site.curl("/access/export?hashes=true", *words).status == 403
    assert site.broker.server.broker.access.version == version


def begin_request(site, path, who, length):
    """Send the head of a request; the body follows when the test wants it to."""
    login = b64encode(f"{who}:{SECRETS[who]}".encode()).decode()
    opened = socket.create_connection(("127.0.0.1", site.broker.port), timeout=20)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\n"
    opened.sendall(f"{head}content-length: {length}\r\nexpect: 100-continue\r\n\r\n".encode())
    assert b"100 Continue" in opened.recv(1_000)  # it was judged, and its body is waited for
    return opened


def status_of(opened):
    with opened:
        return int(opened.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("path", ["/topics/plant/late/a", "/users"])
def test_a_request_is_judged_again_when_its_body_is_there(site, path):
    """A slow body would otherwise be a way to keep a right that was taken."""
    SECRETS["late"] = "late-late-secret"
    site.broker.change_access(put(Role("late", ("allow all",))), user("late", "late"))
    body = json.dumps({"name": "made-late", "roles": ["client"]}).encode()
    opened = begin_request(site, path, "late", len(body))
    site.broker.change_access(put(Role("late", ("allow read plant/#",))))
    opened.sendall(body)
    assert status_of(opened) == 403
    assert site.curl("/topics/plant/late/a", user="root").status == 404
    assert site.curl("/users/made-late", user="root").status == 404


def test_a_request_of_a_user_who_is_gone_when_its_body_is_there_is_refused(site):
    SECRETS["late"] = "late-late-secret"
    site.broker.change_access(user("late", "admin"))
    opened = begin_request(site, "/topics/plant/gone/a", "late", 1)
    site.broker.change_access(put(User("late", ("admin",), is_disabled=True)))
    opened.sendall(b"x")
    assert status_of(opened) == 401


@pytest.mark.parametrize("topic", ["", "a", "%23", "$audit/%23", "$dlq/%23"])
@pytest.mark.parametrize("action", ["monitor", "admin"])
def test_a_check_of_an_action_that_is_not_about_topics_takes_any(site, action, topic):
    for name, is_allowed in (("root", True), ("sensor", False)):
        asked = f"/access/check?user={name}&action={action}&topic={topic}"
        assert site.curl(asked, user="root").document["allowed"] is is_allowed
