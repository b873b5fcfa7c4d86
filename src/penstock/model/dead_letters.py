"""Topics of dead letters: one for each topic and group, named after both (percent-encoded)."""

from urllib.parse import quote_from_bytes, unquote_to_bytes

PREFIX = b"$dlq/"  # how the names of topics with dead letters begin

REDRIVE = b"redrive"  # the group that records which dead letters were redriven or dropped


def dead_letter_topic(topic: bytes, group: bytes) -> bytes:
    return PREFIX + topic + b"/" + quote_from_bytes(group, safe="").encode()


def origin(letters: bytes) -> tuple[bytes, bytes]:
    topic, _, group = letters.removeprefix(PREFIX).rpartition(b"/")
    return topic, unquote_to_bytes(group)
