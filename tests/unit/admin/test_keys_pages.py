"""``/keys``: registered, revoked and rotated while the broker runs, by administrators only."""

import asyncio
from types import SimpleNamespace

import pytest
from asking import Api, Current

from penstock.admin import guard
from penstock.errors import StorageFull
from penstock.obs.log import Throttle, ThrottledLogger
from penstock.trust import keys as trust_keys
from penstock.trust.keys import KEY_ID_MAX, KeyRing
from penstock.trust.signatures import key_pair

NOW = 1_700_000_000_000
DAY_S = 24 * 3600
TOKEN = "correct-horse-battery"


class MemoryBook(Current):
    """A key ring and a clock; each change takes a turn of the loop, like a commit."""

    def __init__(self):
        self.ring = KeyRing()
        self.now_ms = NOW
        self.error = None
        self.one_at_a_time = asyncio.Lock()
        self.changes = []  # ids of the keys of each change

    def keys(self):
        return self.ring.all()

    def next_key_id(self):
        return self.ring.next_id()

    def wall_ms(self):
        return self.now_ms

    async def store_keys(self, *keys):
        self.changes.append([key.id for key in keys])
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        for key in keys:
            self.ring.put(key)


@pytest.fixture
def book():
    return MemoryBook()


@pytest.fixture
def api(view, book):
    return Api(view, book)


def public_key(number=0):
    return key_pair(bytes([number]) * 32).public_key.hex()


def addition(number=0, **fields):
    return {"device": "pump", "topics": "plant/*", "public_key": public_key(number)} | fields


# ── What can be done


def test_key_is_registered_under_an_id_of_the_brokers_choice(api, book):
    answer = api.ask("POST", "/keys", addition())
    assert answer.status == 200
    assert answer.document == {
        "id": 1,
        "device": "pump",
        "topics": "plant/*",
        "public_key": public_key(),
        "state": "active",
        "created": "2023-11-14T22:13:20.000+00:00",
        "expires": None,
        "revoked": None,
        "successor": None,
    }
    assert book.ring.get(1).public_key.hex() == public_key()
    assert api.ask("GET", "/keys").document == {"keys": [answer.document]}


def test_key_may_bring_its_id_and_an_end(api, book):
    api.ask("POST", "/keys", addition(key_id=KEY_ID_MAX, expires_s=DAY_S))
    assert book.ring.get(KEY_ID_MAX).expires_ms == NOW + DAY_S * 1000
    book.now_ms += DAY_S * 1000
    assert api.ask("GET", "/keys").document["keys"][0]["state"] == "expired"


def test_revoking_and_enabling_can_be_repeated(api, book):
    api.ask("POST", "/keys", addition())
    for _ in range(2):
        assert api.ask("POST", "/keys/1/revoke").document["state"] == "revoked"
        book.now_ms += 1
    assert book.ring.get(1).revoked_ms == NOW, "the first revocation stands"
    for _ in range(2):
        assert api.ask("POST", "/keys/1/enable").document["state"] == "active"


@pytest.mark.parametrize("before", [[], ["/keys/1/revoke"]], ids=["lapsed", "revoked too"])
def test_expired_key_cannot_be_enabled(api, book, before):
    api.ask("POST", "/keys", addition(expires_s=DAY_S))
    for path in before:
        api.ask("POST", path)
    book.now_ms += DAY_S * 1000
    key = book.ring.get(1)
    answer = api.ask("POST", "/keys/1/enable")
    assert answer.status == 409
    assert "expired at 2023-11-15T22:13:20" in answer.document["error"]
    assert "keys new pump" in answer.document["advice"]
    assert book.ring.get(1) == key


def test_rotation_registers_a_successor_and_ends_the_old_key_after_the_overlap(api, book):
    api.ask("POST", "/keys", addition())
    answer = api.ask("POST", "/keys/1/rotate", {"public_key": public_key(1), "overlap_s": 60})
    assert answer.document["key"]["id"] == answer.document["previous"]["successor"] == 2
    assert answer.document["key"]["public_key"] == public_key(1)
    assert book.ring.get(1).expires_ms == NOW + 60_000
    assert book.ring.get(2).topics == "plant/*"
    assert book.changes == [
        [1],
        [2, 1],
    ]  # one commit: a kill leaves both keys as they were, or none


def test_keys_added_at_once_get_different_ids(api, book):
    async def all_at_once():
        requests = [api.ask_soon("POST", "/keys", addition(number)) for number in range(5)]
        return await asyncio.gather(*requests)

    ids = [answer.document["id"] for answer in asyncio.run(all_at_once())]
    assert sorted(ids) == [1, 2, 3, 4, 5]
    assert len(book.ring) == 5


# ── What cannot


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 400, "invalid request body"),
        (b"[]", 400, "invalid request body"),
        (b"\xff", 400, "invalid request body"),
        ({"device": "pump"}, 400, "topics"),
        (addition(colour="red"), 400, "colour"),
        (addition(public_key="zz"), 400, "hexadecimal"),
        (addition(public_key="00" * 32), 400, "not an Ed25519 public key"),
        (addition(public_key=public_key()[2:]), 400, "32 bytes, not 31"),
        (addition(device="../pump"), 400, "device name"),
        (addition(topics="a/#/b"), 400, "a/#/b"),
        (addition(key_id=0), 400, "key id"),
        (addition(key_id=KEY_ID_MAX + 1), 400, "key id"),
        (addition(expires_s=-1), 400, "expires_s"),
        (addition(topics="x" * 20_000), 413, "too large"),
    ],
)
def test_key_that_cannot_be_registered_is_refused_with_advice(api, book, body, status, error):
    answer = api.ask("POST", "/keys", body)
    assert answer.status == status
    assert error in answer.document["error"]
    assert answer.document["advice"]
    assert len(book.ring) == 0


def test_taken_id_and_known_public_key_are_refused(api, book):
    api.ask("POST", "/keys", addition(key_id=7))
    assert (
        "key 7 exists already" in api.ask("POST", "/keys", addition(1, key_id=7)).document["error"]
    )
    api.ask("POST", "/keys/7/revoke")
    answer = api.ask("POST", "/keys", addition())
    assert (answer.status, len(book.ring)) == (409, 1)
    assert "as key 7" in answer.document["error"]


def test_number_of_keys_is_bounded(api, book, monkeypatch):
    monkeypatch.setattr("penstock.admin.keys.KEYS_MAX", 1)
    assert trust_keys.KEYS_MAX > 1
    assert api.ask("POST", "/keys", addition()).status == 200
    assert api.ask("POST", "/keys", addition(1)).status == 409


@pytest.mark.parametrize("what", ["revoke", "enable", "rotate"])
def test_key_that_is_not_there_is_not_found(api, what):
    body = {"public_key": public_key(), "overlap_s": 1}
    answer = api.ask("POST", f"/keys/9/{what}", body)
    assert answer.status == 404
    assert "no key 9" in answer.document["error"]


def test_only_a_key_in_force_without_successor_can_be_rotated(api, book):
    rotation = {"public_key": public_key(1), "overlap_s": 60}
    api.ask("POST", "/keys", addition())
    api.ask("POST", "/keys/1/revoke")
    assert api.ask("POST", "/keys/1/rotate", rotation).status == 409
    api.ask("POST", "/keys/1/enable")
    assert api.ask("POST", "/keys/1/rotate", rotation).status == 200
    again = api.ask("POST", "/keys/1/rotate", rotation | {"public_key": public_key(2)})
    assert "already has a successor, key 2" in again.document["error"]
    assert len(book.ring) == 2


def test_storage_that_fails_is_said_and_nothing_changes(api, book):
    book.error = StorageFull("the disk has no room", "make some")
    answer = api.ask("POST", "/keys", addition())
    assert answer.status == 503
    assert answer.document == {"error": "the disk has no room", "advice": "make some"}


def test_other_methods_are_refused(api):
    assert api.ask("DELETE", "/keys").status == 405
    assert api.ask("GET", "/keys/1/revoke").status == 405


def test_without_a_book_there_is_no_page(view):
    assert Api(view, None).ask("GET", "/keys").status == 404


# ── Who may do it

REQUESTS = [
    ("GET", "/keys", None),
    ("POST", "/keys", addition()),
    ("POST", "/keys/1/revoke", None),
    ("POST", "/keys/1/enable", None),
    ("POST", "/keys/1/rotate", {"public_key": public_key(1), "overlap_s": 1}),
]
every_request = pytest.mark.parametrize(
    "asked", REQUESTS, ids=lambda asked: f"{asked[0]}_{asked[1]}"
)


@every_request
@pytest.mark.parametrize("client", ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7", None, "nobody"])
def test_without_a_token_other_machines_are_refused(api, book, asked, client):
    answer = api.ask(*asked, client=client)
    assert answer.status == 403
    assert "admin.token" in answer.document["advice"]
    assert len(book.ring) == 0


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_without_a_token_this_machine_is_the_administrator(api, client):
    assert api.ask("GET", "/keys", client=client).status == 200


@every_request
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": TOKEN},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer \xff"},
    ],
)
def test_with_a_token_it_must_be_right_even_on_this_machine(view, book, asked, headers):
    answer = Api(view, book, TOKEN).ask(*asked, **headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in str(answer)
    assert len(book.ring) == 0


@pytest.fixture
def logged(monkeypatch):
    """What the log would hold; a broker's clock that stands still."""
    lines = []
    logger = SimpleNamespace(log=lambda _level, event, **values: lines.append((event, values)))
    monkeypatch.setattr(guard, "_log", ThrottledLogger(logger, Throttle(2), lambda: 0.0))
    return lines


@pytest.mark.parametrize(("given", "why"), [({"authorization": "Bearer guess"}, "wrong"), ({}, "missing")])  # fmt: skip
def test_refused_administrator_is_logged_without_the_token(view, book, logged, given, why):
    Api(view, book, TOKEN).ask("GET", "/keys", client="192.0.2.7", **given)
    assert logged == [
        (
            "administrator_refused",
            {"client": "192.0.2.7", "path": "/keys", "why": f"the administrator token is {why}"},
        )
    ]


def test_refusals_do_not_flood_the_log_and_success_is_not_in_it(view, book, logged):
    api = Api(view, book, TOKEN)
    for _ in range(5):
        assert api.ask("GET", "/keys").status == 401
    api.ask("GET", "/keys", authorization=f"Bearer {TOKEN}")
    assert len(logged) == 2


def test_with_the_right_token_any_machine_may_ask_by_any_name(view, book):
    api = Api(view, book, TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}", "host": "broker.example"}
    assert api.ask("POST", "/keys", addition(), client="192.0.2.7", **headers).status == 200


@every_request
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1884"])
def test_web_pages_are_refused_token_or_not(view, book, asked, origin):
    for token in ("", TOKEN):
        headers = {"authorization": f"Bearer {TOKEN}", "origin": origin}
        assert Api(view, book, token).ask(*asked, **headers).status == 403
    assert len(book.ring) == 0


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:1883",
        "e_vil.example",
        "evil.example:port",
        "evil.example, localhost",
        "evil.example/@127.0.0.1",
        "[::1].evil.example",
        "[",
        "",
    ],
)
def test_web_page_that_renamed_itself_to_us_learns_nothing(api, host):
    assert api.ask("GET", "/keys", host=host).status == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1883", "127.0.0.1", "192.0.2.1:1883", "[::1]", "[::1]:1883"]
)
def test_whoever_asks_by_address_is_answered(api, host):
    assert api.ask("GET", "/keys", host=host).status == 200
