"""The shape of JSON payloads: their fields, types and frequency, and what changed. Pure.

Shapes of parts of a topic merge, in any order, into that of the whole. Payloads are untrusted, so
the number, depth and length of fields are bounded; what exceeds that is counted as cut. Fields are
named by paths: ``$.engine.rpm``; ``$.wheels[].psi`` covers all elements of an array.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

FIELDS_MAX: Final = 200
DEPTH_MAX: Final = 6
ELEMENTS_MAX: Final = 10
EXAMPLES_MAX: Final = 3
EXAMPLE_CHARACTERS: Final = 40
KEY_CHARACTERS: Final = 80

# larger integers are valid JSON, but do not fit a range of doubles
NUMBER_MAX: Final = sys.float_info.max
ALWAYS: Final = 0.99  # a field with this share of all messages is expected in each
RISE: Final = 0.1  # a share of nulls or bad messages that rises by more has changed

_KINDS: Final = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class Field(msgspec.Struct):
    """What was seen at one path."""

    count: int = 0
    types: dict[str, int] = {}
    low: float | None = None
    high: float | None = None
    examples: list[str] = []

    @property
    def null_rate(self) -> float:
        return self.types.get("null", 0) / self.count if self.count else 0.0


class Shape(msgspec.Struct):
    """What was seen in one topic; ``cut`` counts ignored values."""

    messages: int = 0
    bad: dict[str, int] = {}
    fields: dict[str, Field] = {}
    cut: int = 0

    def add(self, payload: bytes) -> None:
        self.messages += 1
        document, reason = decoded(payload)
        if reason:
            self.bad[reason] = self.bad.get(reason, 0) + 1
            return
        for path, value in _values(document):
            self._take(path, value)

    def _take(self, path: str, value: object) -> None:
        field = self.fields.get(path)
        if field is None:
            if len(self.fields) >= FIELDS_MAX:
                self.cut += 1
                return
            field = self.fields[path] = Field()
        kind = _KINDS[type(value)]
        field.count += 1
        field.types[kind] = field.types.get(kind, 0) + 1
        if (
            isinstance(value, int | float)
            and kind != "boolean"
            and -NUMBER_MAX <= value <= NUMBER_MAX
        ):
            field.low = value if field.low is None else min(field.low, value)
            field.high = value if field.high is None else max(field.high, value)
        if kind not in {"object", "array", "null"}:
            _exemplify(field, str(value))

    @property
    def bad_rate(self) -> float:
        return sum(self.bad.values()) / self.messages if self.messages else 0.0

    def presence(self, path: str) -> float:
        readable = self.messages - sum(self.bad.values())
        return min(self.fields[path].count / readable, 1.0) if readable else 0.0


def decoded(payload: bytes | None) -> tuple[object, str]:
    if not payload:
        return None, "empty"
    try:
        return msgspec.json.decode(payload), ""
    except RecursionError:
        return None, "nested too deep"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, "not UTF-8" if _is_no_text(payload) else "not JSON"


def _is_no_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return True
    return False


def _values(document: object) -> Iterator[tuple[str, object]]:
    waiting = [("$", document, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if path != "$" or not isinstance(value, dict):
            yield path, value
        if depth >= DEPTH_MAX:
            continue
        if isinstance(value, dict):
            waiting += [
                (f"{path}.{key[:KEY_CHARACTERS]}", v, depth + 1) for key, v in value.items()
            ]
        elif isinstance(value, list):
            waiting += [(f"{path}[]", v, depth + 1) for v in value[:ELEMENTS_MAX]]


def _exemplify(field: Field, text: str) -> None:
    cut = text[:EXAMPLE_CHARACTERS]
    if len(field.examples) < EXAMPLES_MAX and cut not in field.examples:
        field.examples.append(cut)


def merged(shapes: Iterable[Shape]) -> Shape:
    """Merge shapes. The examples that are kept do not depend on the order."""
    whole = Shape()
    for shape in shapes:
        whole.messages += shape.messages
        whole.cut += shape.cut
        _count(whole.bad, shape.bad)
        for path, field in shape.fields.items():
            _merge(whole.fields.setdefault(path, Field()), field)
    kept = sorted(whole.fields, key=lambda path: (-whole.fields[path].count, path))
    whole.cut += sum(whole.fields[path].count for path in kept[FIELDS_MAX:])
    whole.fields = {path: whole.fields[path] for path in sorted(kept[:FIELDS_MAX])}
    return whole


def _merge(into: Field, field: Field) -> None:
    into.count += field.count
    _count(into.types, field.types)
    lows = [each for each in (into.low, field.low) if each is not None]
    highs = [each for each in (into.high, field.high) if each is not None]
    into.low, into.high = min(lows, default=None), max(highs, default=None)
    into.examples = sorted({*into.examples, *field.examples})[:EXAMPLES_MAX]


def _count(into: dict[str, int], counts: dict[str, int]) -> None:
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count


def drift(before: Shape, after: Shape) -> list[str]:
    changes = []
    for path in sorted({*before.fields, *after.fields}):
        was, is_now = before.fields.get(path), after.fields.get(path)
        if was is None:
            changes.append(f"{path} is new")
        elif is_now is None:
            changes.append(f"{path} is gone")
        else:
            changes += [f"{path} {change}" for change in _field_drift(was, is_now)]
    if after.bad_rate > before.bad_rate + RISE:
        changes.append(f"unreadable: {before.bad_rate:.0%} before, {after.bad_rate:.0%} now")
    return changes


def _field_drift(was: Field, is_now: Field) -> Iterator[str]:
    for kind in sorted(set(is_now.types) - set(was.types) - {"null"}):
        if kind == "integer" and "number" in was.types:
            continue  # 21 is a number, as 21.5 is
        yield f"has values of type {kind}; before: {', '.join(sorted(was.types))}"
    if is_now.null_rate > was.null_rate + RISE:
        yield f"is null in {is_now.null_rate:.0%}; before: {was.null_rate:.0%}"


def misfit(expected: Shape, document: object) -> str:
    values = dict(_values(document))
    for path, field in expected.fields.items():
        if path not in values:
            if "[]" not in path and expected.presence(path) >= ALWAYS:
                return f"{path} is missing"
            continue
        kind = _KINDS[type(values[path])]
        if kind not in field.types and not (kind == "integer" and "number" in field.types):
            return f"{path} is of type {kind}"
    return ""
