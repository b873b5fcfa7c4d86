"""Payloads as the API shows and takes them."""

import msgspec


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes: as ``text`` if they can be shown as such, else in ``base64``."""

    text: str | None = None
    base64: str | None = None


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """A header of a message. What is not UTF-8 is in base64, and ``is_base64`` says so."""

    name: str
    value: str
    is_base64: bool = False
