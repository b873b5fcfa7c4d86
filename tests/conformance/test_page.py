"""The list of statements, the markers and the page agree, and nothing is left unproven."""

from collections import Counter

import pytest

from tests.conformance.page import TITLES, markdown, proofs, statements, verdict
from tests.generate import PAGES

COUNTS = {
    "1.5": 3, "2.2": 2, "2.3": 7, "3.1": 42, "3.2": 7, "3.3": 18, "3.6": 1, "3.8": 11, "3.9": 2,
    "3.10": 9, "3.12": 1, "3.14": 4, "4.1": 2, "4.3": 5, "4.4": 1, "4.5": 2, "4.6": 6, "4.7": 8,
    "4.8": 2, "6.0": 4, "7.0": 2, "7.1": 2,
}  # fmt: skip
"""Normative statements per section, counted in the standard itself."""


def test_the_list_has_every_statement_of_the_standard_once():
    ids = [statement.id for statement in statements()]
    assert len(set(ids)) == len(ids) == 141
    assert Counter(statement.section for statement in statements()) == COUNTS
    assert COUNTS.keys() == TITLES.keys()


def test_every_statement_says_whom_it_binds():
    assert {statement.binds for statement in statements()} == {"server", "client", "both"}


def test_every_id_in_a_marker_is_a_statement():
    assert proofs().keys() <= {statement.id for statement in statements()}


def test_every_statement_is_proven_or_says_why_it_cannot_be():
    proven = proofs()
    missing = [s.id for s in statements() if verdict(s, proven) == "no"]
    assert not missing, f"no test carries {missing}; add @pytest.mark.proves to one that fails them"


def test_no_statement_is_both_proven_and_excused():
    excused = {statement.id for statement in statements() if statement.not_applicable}
    assert not excused & proofs().keys()


def test_the_page_is_among_the_generated_ones():
    """``tests/test_generated.py`` compares them all with the disk; ``make docs`` writes them."""
    assert ("docs/reference/mqtt-3.1.1.md", markdown) in PAGES


@pytest.mark.parametrize("sub_protocol", ["mqtt", "mqttv3.1"])
def test_a_web_socket_is_not_agreed_to_while_the_page_says_there_is_none(
    own_broker, dial, sub_protocol
):
    client = dial(at=own_broker())
    lines = [
        "GET /mqtt HTTP/1.1", "Host: broker", "Upgrade: websocket", "Connection: Upgrade, close",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Sec-WebSocket-Protocol: {sub_protocol}", "", "",
    ]  # fmt: skip
    client.send("\r\n".join(lines).encode())
    answer = client.socket.recv(4_096)
    assert answer.startswith(b"HTTP/1.1 ")
    assert not answer.startswith(b"HTTP/1.1 101")
