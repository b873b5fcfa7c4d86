"""Cursors: the last key of a list, in a form that nobody should read.

A cursor says which list it is of, so one of another list is refused and not misunderstood. It
grants nothing: whoever makes one up asks for a part of a list that they may see anyway.
"""

import base64
from typing import TypeVar

import msgspec

from penstock.api.problems import Problem

_Key = TypeVar("_Key")


def cursor_of(of: str, key: object) -> str:
    """``key``: anything msgspec knows, tuples and bytes above all; ``of``: name of the list."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode((of, key))).rstrip(b"=").decode()


def key_of(of: str, cursor: str, kind: type[_Key]) -> _Key | None:
    """The key in a cursor that a request has; None if it has none."""
    if not cursor:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        found, key = msgspec.msgpack.decode(data, type=tuple[str, msgspec.Raw])
        if found == of:
            return msgspec.msgpack.decode(key, type=kind)
    except (ValueError, msgspec.DecodeError):
        pass
    advice = f"take it from `next` of an answer to {of}, with the same parameters"
    raise Problem(400, "invalid_cursor", "the cursor is not of this list", advice)
