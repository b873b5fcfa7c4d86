"""Dead letters, made by workers that fail, redriven and deleted one by one and by reason."""

import pytest
from tests.api_kit import ApiClient
from tests.conformance.wire_client import wait_until

from penstock.client import connect
from penstock.testing import Broker

MAIL = {"topic": "mail/out", "group": "send"}


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


@pytest.fixture
def worker(broker):
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.create_group("mail/out", "send")
        client.configure_group("mail/out", "send", max_deliveries=1)
        yield client


def done(answer):
    assert answer.status == 200, answer
    return answer.document


def bury(worker, *reasons, **headers):
    """A dead letter for each reason; its payload is its number."""
    for number, reason in enumerate(reasons):
        worker.produce("mail/out", b"letter %d" % number, headers=headers or None)
        worker.nack(worker.poll("mail/out", "send"), reason=reason)
    buried(worker, len(reasons))


def buried(worker, count):
    """A failed message becomes a dead letter soon after its worker was answered."""
    wait_until(lambda: len(list(worker.dead_letters("mail/out", "send"))) == count)


def letters(api, **query):
    return done(api.get("dlq/letters", **MAIL, **query))["items"]


def waiting(worker):
    return [job.payload for job in worker.poll("mail/out", "send", max=100)]


def test_letters_are_shown_from_an_offset_on_with_how_many_there_are(api, worker):
    bury(worker, "a", "b", "c")
    found = done(api.get("dlq/letters", **MAIL, offset=1, limit=1))
    assert [letter["reason"] for letter in found["items"]] == ["b"]
    assert (found["letters"], found["letters_topic"]) == (3, "$dlq/mail/out/send")
    rest = done(api.get("dlq/letters", **MAIL, cursor=found["next"]))
    assert [letter["reason"] for letter in rest["items"]] == ["c"]


def test_groups_are_listed_with_the_reasons_of_their_letters(api, worker):
    bury(worker, "smtp 550", "smtp 550", "full")
    (found,) = done(api.get("dlq"))["items"]
    assert (found["topic"], found["group"], found["letters"]) == ("mail/out", "send", 3)
    assert found["reasons"] == [
        {"reason": "smtp 550", "letters": 2},
        {"reason": "full", "letters": 1},
    ]
    assert found["oldest"] is not None
    assert found["newest"] is not None
    assert not found["redriving"]
    (group,) = done(api.get("groups"))["items"]
    assert group["dead_letters"] == 3
    assert "dead_letters" in [mark["code"] for mark in group["attention"]]


def test_a_letter_tells_its_story(api, worker):
    bury(worker, "smtp 550", to=b"ann")
    (letter,) = letters(api)
    assert (letter["topic"], letter["topic_offset"], letter["attempts"]) == ("mail/out", 0, 1)
    assert (letter["reason"], letter["signed"]) == ("smtp 550", False)
    assert letter["headers"] == [{"name": "to", "value": "ann"}]
    assert letter["payload"] == {"text": "letter 0"}
    assert (letter["payload_bytes"], letter["cut"]) == (8, False)


def test_a_long_payload_is_cut_between_characters_and_bytes_are_in_base64(api, worker):
    worker.produce("mail/out", ("x" + "ä" * 1000).encode())
    worker.produce("mail/out", b"\xff\x00")
    for _ in range(2):
        worker.nack(worker.poll("mail/out", "send", max=1))
    buried(worker, 2)
    long, raw = letters(api)
    assert long["cut"]
    assert long["payload_bytes"] == 2001
    assert long["payload"]["text"] == "x" + "ä" * 511
    assert raw["payload"] == {"base64": "/wA="}


def test_letters_come_in_pages_and_by_reason(api, worker):
    bury(worker, *["even", "odd"] * 4)
    first = done(api.get("dlq/letters", **MAIL, limit=5))
    rest = done(api.get("dlq/letters", **MAIL, limit=5, cursor=first["next"]))
    assert [letter["offset"] for letter in first["items"] + rest["items"]] == list(range(8))
    assert rest["next"] is None
    assert [letter["offset"] for letter in letters(api, reason="odd")] == [1, 3, 5, 7]


def test_chosen_letters_are_redriven_and_the_others_stay(api, worker):
    bury(worker, *["no"] * 5)
    told = done(api.post("dlq/redrive", MAIL | {"offsets": [1, 3], "dry_run": True}))
    assert (told["matched"], told["moved"], told["left"]) == (2, 0, 5)
    assert [letter["offset"] for letter in told["first"]] == [1, 3]
    assert waiting(worker) == []
    told = done(api.post("dlq/redrive", MAIL | {"offsets": [1, 3]}))
    assert (told["matched"], told["moved"], told["left"]) == (2, 2, 3)
    assert waiting(worker) == [b"letter 1", b"letter 3"]
    assert [letter["offset"] for letter in letters(api)] == [0, 2, 4]


def test_letters_are_redriven_by_reason_at_most_so_many(api, worker):
    bury(worker, "a", "b", "a", "a")
    told = done(api.post("dlq/redrive", MAIL | {"reason": "a", "max": 2}))
    assert (told["moved"], told["left"], told["complete"]) == (2, 2, False)
    assert waiting(worker) == [b"letter 0", b"letter 2"]
    assert [letter["reason"] for letter in letters(api)] == ["b", "a"]


def test_without_a_choice_the_oldest_go(api, worker):
    bury(worker, *["no"] * 3)
    assert done(api.post("dlq/redrive", MAIL | {"max": 1}))["left"] == 2
    assert waiting(worker) == [b"letter 0"]
    assert done(api.post("dlq/redrive", MAIL))["left"] == 0
    assert done(api.get("dlq"))["items"] == []


def test_chosen_letters_are_deleted_for_good(api, broker, worker):
    bury(worker, *["no"] * 4)
    told = done(api.post("dlq/delete", MAIL | {"offsets": [0, 2]}))
    assert (told["moved"], told["left"]) == (2, 2)
    broker.restart(kill=True)
    again = ApiClient(broker.port)
    assert [letter["offset"] for letter in letters(again)] == [1, 3]
    assert waiting(worker) == []


def test_redrive_of_all_after_some_were_deleted_counts_what_is_there(api, worker):
    bury(worker, *["no"] * 6)
    done(api.post("dlq/delete", MAIL | {"offsets": [0, 2, 3]}))
    assert worker.redrive("mail/out", "send", max=2) == 2
    assert [letter["offset"] for letter in letters(api)] == [5]
    assert done(api.get("dlq"))["items"][0]["letters"] == 1
    assert worker.redrive("mail/out", "send") == 1
    assert waiting(worker) == [b"letter 1", b"letter 4", b"letter 5"]


def test_letters_are_redriven_once_even_if_asked_twice(api, worker):
    bury(worker, "no")
    assert done(api.post("dlq/redrive", MAIL | {"offsets": [0]}))["moved"] == 1
    assert done(api.post("dlq/redrive", MAIL | {"offsets": [0]}))["moved"] == 0
    assert waiting(worker) == [b"letter 0"]


@pytest.mark.parametrize("kill", [False, True])
def test_what_was_redriven_is_there_once_after_a_restart(api, broker, worker, kill):
    bury(worker, *["no"] * 3)
    done(api.post("dlq/redrive", MAIL | {"offsets": [1]}))
    broker.restart(kill=kill)
    again = ApiClient(broker.port)
    assert [letter["offset"] for letter in letters(again)] == [0, 2]
    assert waiting(worker) == [b"letter 1"]


def test_more_letters_than_one_commit_takes_are_moved(api, worker):
    worker.produce_many("mail/out", [b"%d" % number for number in range(600)])
    worker.nack(worker.poll("mail/out", "send", max=600), reason="no")
    buried(worker, 600)
    offsets = list(range(0, 600, 2))
    told = done(api.post("dlq/delete", MAIL | {"offsets": offsets}))
    assert (told["moved"], told["left"], len(told["first"])) == (300, 300, 20)


def test_offsets_go_alone_and_are_limited(api, worker):
    bury(worker, "no")
    for wrong in ({"offsets": [0], "reason": "no"}, {"offsets": list(range(1001))}):
        refused = api.post("dlq/redrive", MAIL | wrong)
        assert (refused.status, refused.document["code"]) == (400, "invalid_body")
    assert len(letters(api)) == 1


def test_a_group_without_letters_is_told_from_no_group(api, worker):
    assert done(api.post("dlq/redrive", MAIL))["matched"] == 0
    other = {"topic": "mail/out", "group": "nobody"}
    assert api.post("dlq/redrive", other).status == 404


def test_what_was_moved_is_in_the_audit_log(api, worker):
    bury(worker, "no", "no")
    done(api.post("dlq/redrive", MAIL | {"offsets": [0]}))
    done(api.post("dlq/delete", MAIL | {"offsets": [1]}))
    notes = [record["note"] for record in done(api.get("audit", action="group"))["items"]]
    assert notes[:2] == ["chosen dead letters deleted", "chosen dead letters redriven"]
