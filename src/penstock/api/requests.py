"""From the query and the body of a request to the structs that an operation declares.

Whatever is unknown is refused: ignoring a misspelt ``offset`` would answer another question.
"""

import re
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.inspect import BoolType, ListType, StructType, type_info
from starlette.requests import Request

from penstock.api.documents.common import FieldFault, Query
from penstock.api.problems import Problem
from penstock.obs.printable import printable

_Query = TypeVar("_Query", bound=Query)

_WHERE = re.compile(r" - at `\$\.?(.*)`\Z")
_FLAGS = {"": True, "1": True, "true": True, "0": False, "false": False}


class _Names(NamedTuple):
    all: tuple[str, ...]
    lists: frozenset[str]
    flags: frozenset[str]


@cache
def _names(kind: type[Query]) -> _Names:
    info = type_info(kind)
    assert isinstance(info, StructType)
    types = {field.encode_name: _bare(field.type) for field in info.fields}
    return _Names(
        tuple(types),
        frozenset(name for name, found in types.items() if isinstance(found, ListType)),
        frozenset(name for name, found in types.items() if isinstance(found, BoolType)),
    )


def _bare(found: Any) -> Any:
    return _bare(found.type) if isinstance(found, msgspec.inspect.Metadata) else found


def read_query(request: Request, kind: type[_Query]) -> _Query:
    """The parameters of a request. A list is a name repeated; a bare flag is true."""
    names = _names(kind)
    _check_known(request, names)
    values: dict[str, object] = {}
    for name in request.query_params:
        given = request.query_params.getlist(name)
        if name in names.lists:
            values[name] = given
        elif len(given) > 1:
            raise _invalid(name, "is given more than once")
        elif name in names.flags:
            values[name] = _flag(name, given[0])
        else:
            values[name] = given[0]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(*_fault(error), advice=_accepted(names)) from None


def check_no_query(request: Request) -> None:
    _check_known(request, _Names((), frozenset(), frozenset()))


def _check_known(request: Request, names: _Names) -> None:
    unknown = [name for name in request.query_params if name not in names.all]
    if unknown:
        shown = printable(unknown[0])
        raise Problem(
            400,
            "unknown_parameter",
            f"unknown parameter {shown}",
            _accepted(names),
            fields=[FieldFault(shown, "is unknown")],
        )


def _flag(name: str, text: str) -> bool:
    found = _FLAGS.get(text.lower())
    if found is None:
        raise _invalid(name, "must be true or false")
    return found


def _accepted(names: _Names) -> str:
    if not names.all:
        return "this operation takes no parameters"
    return f"this operation takes {', '.join(names.all)}"


def body_of(body: bytes, kind: Any) -> msgspec.Struct:
    """What a body in JSON says."""
    try:
        found: msgspec.Struct = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        name, detail = _fault(error)
        raise _invalid(name, detail, "invalid_body", _fields(kind)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "invalid_body", f"no JSON: {error}", _fields(kind)) from None
    return found


def _fields(kind: type[msgspec.Struct]) -> str:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return f"send a JSON object with {', '.join(names)}" if names else "send an empty JSON object"


def _fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """Which field, and what is wrong with it."""
    text = str(error)
    where = _WHERE.search(text)
    return (where[1], text[: where.start()]) if where else ("", text)


def _invalid(name: str, detail: str, code: str = "invalid_parameter", advice: str = "") -> Problem:
    text = printable(f"{name}: {detail}" if name else detail)
    return Problem(400, code, text, advice, fields=[FieldFault(printable(name), printable(detail))])
