"""The fields of a stream entry as a message, and a message as fields.

An entry must make sense to readers of every protocol, and a reader of the stream must get back what
was added, byte for byte and in order. So:

=============================  ====================================================================
the field ``payload`` alone    is the payload: a plain message
``payload`` and others         its value is the payload, the others are headers
no ``payload``                 the payload is a JSON object of the fields (flag FIELDS)
=============================  ====================================================================

What JSON cannot hold (bytes that are not UTF-8, a name that occurs twice) is kept in the headers
as well, exactly; the JSON then has question marks for such bytes, and the last of the equal names.

``payload`` among others comes first when it is read. If it was elsewhere, or occurred more than
once, an empty header of that name marks the position of the one that became the payload.

Most entries have the same few names, ordinary text as values, and arrive with others like them. For
such names the parts of the JSON around the values are kept (``_parts``), and values are put between
them as they are; only those that need an escape are encoded. ``kernel/fields.pyx`` is the compiled
form.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock import kernel
from penstock.model.message import FLAG_FIELDS, Extras, Signature

PAYLOAD = b"payload"  # the field that is the payload of the message
Headers = tuple[tuple[bytes, bytes], ...]
_MARK = (PAYLOAD, b"")
REPLACEMENT = "\ufffd"
_PLAIN = bytes(byte if 0x20 <= byte < 0x7F else ord("?") for byte in range(256))
_AS_IS = bytes(range(0x20, 0x7F)).replace(b'"', b"").replace(b"\\", b"")  # need no escape in JSON
_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder(dict[str, str]).decode


SHAPES_MAX = 256  # sets of names whose parts are remembered
SHAPE_BYTES_MAX = 1_024  # of names, for their parts to be remembered


class Content(NamedTuple):
    """What entries with the same names come to."""

    payloads: list[bytes]
    extras: list[Extras | None] | None  # none if no message has any
    is_fields: bool


def contents(fields: Sequence[bytes], last_values: list[bytes]) -> Content:
    """The messages of entries that differ in their last value; ``fields`` are names and values."""
    names, values = fields[::2], fields[1::2]
    if len(last_values) > 1:
        return _run_contents(names, values, last_values)
    return column_contents(tuple(names), [*[[value] for value in values[:-1]], last_values])


def column_contents(names: tuple[bytes, ...], columns: list[list[bytes]]) -> Content:
    """The messages of entries with the same names; ``columns[i][n]`` is value ``i`` of entry ``n``.

    Entries whose values are not text are encoded alone.
    """
    if names == (PAYLOAD,):
        return Content(columns[0], None, is_fields=False)
    is_short = sum(map(len, names)) <= SHAPE_BYTES_MAX
    parts = _parts(names) if is_short else _parts.__wrapped__(names)
    if parts is None:
        rows = zip(*columns, strict=True)
        return _joined([_run_contents(names, values, [values[-1]]) for values in rows])
    payloads = filled(parts, columns)
    if payloads is not None:
        return Content(payloads, None, is_fields=True)
    rows = zip(*columns, strict=True)
    return _joined([_row_content(parts, names, values) for values in rows])


def _row_content(
    parts: tuple[bytes, ...], names: Sequence[bytes], values: tuple[bytes, ...]
) -> Content:
    if not _is_plain(values):
        try:
            values = tuple([_to_json(value.decode())[1:-1] for value in values])
        except UnicodeDecodeError:
            return _run_contents(names, values, [values[-1]])
    payload = b"".join(chain.from_iterable(zip(parts, (*values, b""), strict=True)))
    return Content([payload], None, is_fields=True)


def filled(parts: tuple[bytes, ...], columns: list[list[bytes]]) -> list[bytes] | None:
    """The parts with the values of each entry between them; None if a value needs an escape."""
    if not _is_plain(chain.from_iterable(columns)):
        return None
    template = _template(parts)
    return [template % values for values in zip(*columns, strict=True)]


@lru_cache(SHAPES_MAX)
def _template(parts: tuple[bytes, ...]) -> bytes:
    return b"%b".join([part.replace(b"%", b"%%") for part in parts])


def _is_plain(values: Iterable[bytes]) -> bool:
    """Whether values are in JSON as they are; most are, and to see that costs little."""
    return not b"".join(values).translate(None, _AS_IS)


def _joined(found: list[Content]) -> Content:
    payloads = [one.payloads[0] for one in found]
    extras = [None if one.extras is None else one.extras[0] for one in found]
    has_extras = any(one is not None for one in extras)
    return Content(payloads, extras if has_extras else None, is_fields=found[0].is_fields)


def _run_contents(
    names: Sequence[bytes], values: Sequence[bytes], last_values: list[bytes]
) -> Content:
    if PAYLOAD not in names:
        return _json_contents(names, values, last_values)
    if len(names) == 1:
        return Content(last_values, None, is_fields=False)
    return _payload_contents(names, values, last_values)


@lru_cache(SHAPES_MAX)
def _parts(names: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """The JSON of entries with these names before, between and after the values.

    None if the JSON would not be exact.
    """
    if PAYLOAD in names or len(set(names)) < len(names):
        return None
    try:
        texts = [_to_json(name.decode()) for name in names]
    except UnicodeDecodeError:
        return None
    first, *others = texts
    return (b'{%b:"' % first, *[b'",%b:"' % text for text in others], b'"}')


def fields_of(payload: bytes, flags: int, extras: Extras | None) -> list[bytes]:
    if flags & FLAG_FIELDS:
        if extras is not None and extras.headers:
            return list(chain.from_iterable(extras.headers))
        pairs = _from_json(payload).items()
        return [text.encode() for pair in pairs for text in pair]
    if extras is None:
        return [PAYLOAD, payload]
    signed = _signature_fields(extras.signature) if extras.signature else []
    return _unmarked(payload, extras.headers) + signed


def _payload_contents(
    names: Sequence[bytes], values: Sequence[bytes], last_values: list[bytes]
) -> Content:
    position = names.index(PAYLOAD)
    before = list(zip(names[:-1], values[:-1], strict=True))
    if position or PAYLOAD in names[1:]:
        before[position : position + 1] = [_MARK]
    else:
        del before[0]
    if position == len(names) - 1:
        extras: list[Extras | None] = [Extras(headers=tuple(before))] * len(last_values)
        return Content(last_values, extras, is_fields=False)
    return Content(
        [values[position]] * len(last_values),
        [Extras(headers=(*before, (names[-1], value))) for value in last_values],
        is_fields=False,
    )


def _unmarked(payload: bytes, headers: Headers) -> list[bytes]:
    """Payload and headers as fields; the payload goes where the first header of its name says."""
    fields = list(headers)
    position = next((n for n, (name, _) in enumerate(fields) if name == PAYLOAD), None)
    if position is not None and fields[position] == _MARK:
        fields[position] = (PAYLOAD, payload)
    else:
        fields.insert(0, (PAYLOAD, payload))
    return list(chain.from_iterable(fields))


def _texts(values: list[bytes]) -> Iterable[bytes]:
    """Values as JSON strings; most need no escaping, which costs little."""
    if _is_plain(values):
        return [b'"%b"' % value for value in values]
    return [_to_json(value.decode()) for value in values]


def _json_contents(
    names: Sequence[bytes], values: Sequence[bytes], last_values: list[bytes]
) -> Content:
    before = list(zip(names[:-1], values[:-1], strict=True))
    try:
        head = _json_head({n.decode(): v.decode() for n, v in before}, names[-1].decode())
        payloads = [b"%b%b}" % (head, text) for text in _texts(last_values)]
    except UnicodeDecodeError:
        is_exact = False
    else:
        is_exact = len(set(names)) == len(names)
    if is_exact:
        return Content(payloads, None, is_fields=True)
    head = _json_head({_shown(n): _shown(v) for n, v in before}, _shown(names[-1]))
    payloads = [b"%b%b}" % (head, _to_json(_shown(value))) for value in last_values]
    headers = [(*before, (names[-1], value)) for value in last_values]
    return Content(payloads, [Extras(found) for found in headers], is_fields=True)


def _json_head(before: dict[str, str], name: str) -> bytes:
    before.pop(name, None)
    members = [b"%b:%b," % (_to_json(other), _to_json(value)) for other, value in before.items()]
    return b"{%b%b:" % (b"".join(members), _to_json(name))


def _shown(text: bytes) -> str:
    shown = text.decode(errors="replace")
    return text.translate(_PLAIN).decode() if REPLACEMENT in shown else shown


def _signature_fields(signature: Signature) -> list[bytes]:
    fields = [b"key_id", b"%d" % signature.key_id]
    fields += [b"signature", signature.signature.hex().encode()]
    if signature.version > 1:
        fields += [b"signed_ms", b"%d" % signature.signed_ms]
        fields += [b"nonce", signature.nonce.hex().encode()]
    return fields


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.fields import filled
