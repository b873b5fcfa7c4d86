"""Declarations of operations: a method of a resource, with its path, its action and its types.

To add an operation:

1. Write its answer as a Struct in ``documents/FAMILY.py``; a list has ``items``, ``next`` and
   ``incomplete``.
2. Write a class, and the operation as a method of it::

       class ReaderPages(Resource):
           @operation("GET", "readers", Action.MONITOR)
           async def list(self, call: Call, query: ReaderQuery) -> Readers:
               \"\"\"List the readers of topics. The rest of the docstring is the description.\"\"\"

   ``query`` (a subclass of :class:`Query`) and ``body`` (a Struct with ``forbid_unknown_fields``,
   or bytes as they come) are left out if there are none. ``call`` knows who asks:
   ``call.require(Action.READ, topic)``, ``call.may(…)``; ``await call.read(function, …)`` reads the
   journal in a thread. ``self.parts`` has what the resource needs of the broker. Refuse with
   :class:`~penstock.api.problems.Problem`; a PenstockError becomes one. ``paging`` cuts lists.
3. List the class in ``RESOURCES`` of :mod:`penstock.api.resources`, and run
   ``python -m tests.generate``.

The route, the checks, the OpenAPI document and the reference page follow from that. The action is
checked before the handler runs; None: the handler judges the topics that it touches.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from penstock.api.documents.common import Query
from penstock.api.parts import Parts
from penstock.limits import KIB
from penstock.trust.rules import Action

JSON = "application/json"
BODY_BYTES_MAX = 64 * KIB

_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[object]])


class Resource:
    """A family of operations. Subclasses have a method for each."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


class Operation(NamedTuple):
    """One operation: a method on a path of ``/api/v1``."""

    method: str
    path: str
    action: Action | None
    media_type: str  # of the answer
    body_bytes_max: int
    is_public: bool  # even for those who have not logged in
    name: str = ""  # of the handler
    summary: str = ""
    description: str = ""
    query: type[Query] | None = None
    body: type[msgspec.Struct] | type[bytes] | None = None
    answer: Any = None  # a Struct; None: the answer has no body, or is no JSON

    @property
    def is_change(self) -> bool:
        return self.method != "GET"

    @property
    def family(self) -> str:
        return self.path.partition("/")[0].partition(".")[0]

    @property
    def id(self) -> str:
        return "_".join([self.method.lower(), *re.findall(r"[a-z0-9]+", self.path)])


def operation(
    method: str,
    path: str,
    action: Action | None,
    *,
    media_type: str = JSON,
    body_bytes_max: int = BODY_BYTES_MAX,
    is_public: bool = False,
) -> Callable[[_Handler], _Handler]:
    """Declare a method of a resource as an operation."""
    declared = Operation(method, path, action, media_type, body_bytes_max, is_public)

    def declare(handler: _Handler) -> _Handler:
        handler.__dict__[_DECLARED] = declared
        return handler

    return declare


_DECLARED = "declared_operation"


def operations_of(resource: type[Resource]) -> list[Operation]:
    """The operations of a resource, in the order of its text."""
    methods = inspect.getmembers(resource, lambda member: hasattr(member, _DECLARED))
    found = [_described(method) for _, method in methods]
    lines = {name: method.__code__.co_firstlineno for name, method in methods}
    return sorted(found, key=lambda operation: lines[operation.name])


def _described(handler: Any) -> Operation:
    declared: Operation = getattr(handler, _DECLARED)
    types = get_type_hints(handler, include_extras=True)
    summary, _, description = (inspect.getdoc(handler) or "").partition("\n\n")
    answer = types.get("return")
    return declared._replace(
        name=handler.__name__,
        summary=" ".join(summary.split()),
        description=description,
        query=types.get("query"),
        body=types.get("body"),
        answer=answer if _is_struct(answer) else None,
    )


def _is_struct(kind: Any) -> bool:
    origin = getattr(kind, "__origin__", kind)  # of ``Page[Row]`` it is Page
    return isinstance(origin, type) and issubclass(origin, msgspec.Struct)
