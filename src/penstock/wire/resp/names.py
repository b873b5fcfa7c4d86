"""Names of channels and streams, and their topics.

Redis accepts any bytes in a name. A topic is UTF-8 without ``#``, ``+`` and NUL, in every protocol.
So what a topic cannot contain is escaped, and Redis clients see their own spelling: the channel
``user#42`` is the topic ``user%2342`` to all others.

=================  =====================
in a name          in the topic
=================  =====================
``#``              ``%23``
``+``              ``%2B``
NUL                ``%00``
a byte FF that     ``%xFF``
is not UTF-8
``%23``, ``%xFF``  ``%2523``, ``%25xFF``
=================  =====================

Different names have different topics. A percent sign that begins none of these stands for itself.
"""

import codecs
import re

# names without any of these are topics
_ODD = re.compile(rb"[#+%\x00\x80-\xff]")

# an escape, or an escaped escape, to any depth
_ESCAPE = re.compile(rb"%((?:25)*(?:23|2B|00|x[0-9A-F]{2}))")

_ESCAPES = ((b"#", b"%23"), (b"+", b"%2B"), (b"\0", b"%00"))


def _escape_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join([f"%x{byte:02X}" for byte in wrong]), error.end


codecs.register_error("penstock-name", _escape_bytes)


def topic_of(name: bytes) -> bytes:
    if _ODD.search(name) is None:
        return name
    topic = _ESCAPE.sub(rb"%25\1", name)
    for byte, escape in _ESCAPES:
        topic = topic.replace(byte, escape)
    return topic if topic.isascii() else topic.decode(errors="penstock-name").encode()


def name_of(topic: bytes) -> bytes:
    if b"%" not in topic:
        return topic
    name = _ESCAPE.sub(_unescaped, topic)
    return name if topic_of(name) == topic else topic  # escapes for bytes that are UTF-8 together


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code.startswith(b"25"):
        return b"%" + code[2:]
    return bytes.fromhex(code.removeprefix(b"x").decode())
