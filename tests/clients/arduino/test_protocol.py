"""Frames, errors and pauses of the Arduino library: the vectors of all clients, and strangers."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.arduino.parts import Parts
from tests.clients.arduino.vectors import VECTORS

WITHHELD = 0x23
MESSAGES = {0x04, 0x11, 0x13}
TRAILERS = {0x10: 68, 0x11: 68, 0x12: 84, 0x13: 84}
FRAMES = {frame["name"]: frame for frame in VECTORS["frames"]}
TOPIC_MAX = 512 - 16 - 32  # that leaves room for pieces in the buffer


@pytest.fixture
def parts(built: None) -> Iterator[Parts]:
    with Parts() as parts:
        yield parts


@pytest.mark.parametrize("frame", VECTORS["frames"], ids=FRAMES)
def test_headers_are_read_as_written(parts: Parts, frame: dict[str, Any]) -> None:
    command, sequence, topic, payload, trailer = map(
        int, parts.ask("header", bytes.fromhex(frame["hex"])).split()
    )
    assert (command, sequence) == (frame["command"], int(frame["sequence"]))
    assert (topic, payload) == (len(frame["topic"]) // 2, len(frame["payload"]) // 2)
    assert trailer == TRAILERS.get(command, 0)


def stream() -> bytes:
    """All messages of the vectors, each with a sequence of its own: none is a repetition."""
    frames = [f for f in VECTORS["frames"] if f["command"] in {*MESSAGES, WITHHELD}]
    return b"".join(
        bytes.fromhex(f["hex"])[:2] + i.to_bytes(8, "big") + bytes.fromhex(f["hex"])[10:]
        for i, f in enumerate(frames, start=1)
    )


def heard(answer: str) -> tuple[dict[int, tuple[str, str]], list[str]]:
    """What was heard: topic and payload of messages, put together, and the rest."""
    messages: dict[int, tuple[str, str]] = {}
    others = []
    for event in answer.split(";"):
        if not event.startswith("message"):
            others.append(event)
            continue
        _, sequence, topic, offset, _, payload = event.split()
        _, before = messages.get(int(sequence), ("", ""))
        assert int(offset) * 2 == len(before)
        messages[int(sequence)] = (topic, before + payload.replace("-", ""))
    return messages, others


@pytest.mark.parametrize("step", [1, 2, 3, 15, 16, 17, 100, 511, 512, 513, 100_000])
def test_messages_are_read_however_they_are_cut(parts: Parts, step: int) -> None:
    messages, others = heard(parts.ask("stream", stream(), step))
    frames = [f for f in VECTORS["frames"] if f["command"] in {*MESSAGES, WITHHELD}]
    for sequence, frame in enumerate(frames, start=1):
        if frame["command"] in MESSAGES and len(frame["topic"]) // 2 <= TOPIC_MAX:
            assert messages.pop(sequence) == (frame["topic"], frame["payload"])
        else:
            assert any(re.match(rf"lost 1 {sequence} \d+", other) for other in others)
    assert not messages
    assert others[-1] == "up"


@pytest.mark.parametrize("fault", VECTORS["faults"], ids=lambda fault: fault["name"])
def test_what_is_no_broker_is_hung_up_on(parts: Parts, fault: dict[str, str]) -> None:
    assert parts.ask("stream", bytes.fromhex(fault["hex"]), 1).endswith("down")


def expected(error: dict[str, str]) -> str:
    special = {
        "login_failed": "login failed",
        "login_required": "login failed",
        "retention": "lost",
    }
    if error["code"] in special:
        return special[error["code"]]
    if error["do"] in {"sign again", "stop"}:
        return {"stop": "taken over"}.get(error["do"], error["do"])
    return error["kind"].removeprefix("last ")


@pytest.mark.parametrize("error", VECTORS["errors"], ids=lambda error: error["code"])
def test_errors_mean_what_the_broker_means(parts: Parts, error: dict[str, str]) -> None:
    assert parts.ask("text", error["text"]) == expected(error)
    is_answer = error["kind"].endswith("answer")
    by_code = parts.ask("code", error["code"], int(is_answer))
    assert by_code.replace("notice", "farewell") == expected(error).replace("notice", "farewell")


def test_an_error_of_a_newer_broker_refuses_what_it_answers_and_nothing_else(parts: Parts) -> None:
    assert parts.ask("code", "of_tomorrow", 1) == "answer"
    assert parts.ask("code", "of_tomorrow", 0) == "notice"


def test_pauses_between_attempts_grow_and_vary(parts: Parts) -> None:
    longest = [int(pause) for pause in parts.ask("pauses", "l").split()]
    shortest = [int(pause) for pause in parts.ask("pauses", "s").split()]
    assert near(longest, VECTORS["backoff"]["longest_pauses_ms"])
    assert near(shortest, VECTORS["backoff"]["shortest_pauses_ms"])


def near(pauses: list[int], expected: list[int]) -> bool:
    """The real clock runs, too, while the virtual one is moved."""
    return all(
        want - 40 - want // 10 <= pause <= want
        for pause, want in zip(pauses, expected, strict=True)
    )


def strangers(parts: Parts, count: int, seed: int) -> None:
    allocations, connected, received = map(int, parts.ask("strangers", count, seed).split())
    assert allocations == 0
    assert connected > count // 10
    assert received > count // 100


def test_what_strangers_send_breaks_nothing(parts: Parts) -> None:
    strangers(parts, 30_000, 1)


@pytest.mark.slow
def test_what_a_million_strangers_send_breaks_nothing(parts: Parts) -> None:
    strangers(parts, 1_000_000, 2)
