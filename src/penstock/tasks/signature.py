"""Calls as JSON, typed by the annotations of the function.

A job's payload is one JSON object: the arguments by the names of their parameters. So a job can be
read by people and written by any program, and an argument that a later version adds with a default
is no break. Both ends check it against the annotations (``msgspec``): the sender before it sends,
since a mistake is best told to whoever makes it, and the worker, since others send, too.

Only what was given is sent. Defaults are the worker's, and can be changed there.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, get_type_hints

import msgspec

from penstock.client.errors import ArgumentError

T = TypeVar("T")

_KINDS: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "a positional-only parameter has no name in JSON",
    inspect.Parameter.VAR_POSITIONAL: "take a list instead of *{name}",
    inspect.Parameter.VAR_KEYWORD: "take a dict instead of **{name}",
}  # of parameters that cannot be sent, and what to do


class Signature(Generic[T]):
    """The parameters and the result of a task."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Raises ArgumentError if calls of the function cannot be written as JSON."""
        if not inspect.isfunction(function):
            raise ArgumentError(f"{function!r} is no function", "write @app.task above a def")
        self._signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
        self._name = function.__qualname__
        fields = [self._field(one, hints) for one in self._signature.parameters.values()]
        returned = hints.get("return", Any)
        returned = Any if returned is object else returned
        try:
            arguments = msgspec.defstruct(
                "Arguments", fields, kw_only=True, forbid_unknown_fields=True
            )
            msgspec.json.schema_components([arguments, returned])  # knows what is not for JSON
            self._arguments = msgspec.json.Decoder(arguments)
            self._result: msgspec.json.Decoder[T] = msgspec.json.Decoder(returned)
        except TypeError as error:
            raise ArgumentError(
                f"the annotations of {self._name} are not for JSON: {error}",
                "use str, int, float, bool, None, list, dict, datetime, UUID, bytes, Enum,"
                " dataclasses, TypedDict or msgspec.Struct",
            ) from None

    def _field(self, parameter: inspect.Parameter, hints: dict[str, Any]) -> tuple[str, Any, Any]:
        name = parameter.name
        if parameter.kind in _KINDS:
            what = f"{self._name} has the parameter {parameter}"
            raise ArgumentError(what, _KINDS[parameter.kind].format(name=name))
        annotation = hints.get(name, Any)
        if parameter.default is inspect.Parameter.empty:
            return name, annotation, msgspec.NODEFAULT
        default = parameter.default
        return name, annotation, msgspec.field(default_factory=lambda: default)

    @property
    def required(self) -> list[str]:
        """Parameters without a default."""
        empty = inspect.Parameter.empty
        return [one.name for one in self._signature.parameters.values() if one.default is empty]

    def encode(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> bytes:
        """Raises TypeError if the call has not the parameters, ArgumentError for their types."""
        try:
            given = self._signature.bind(*arguments, **keywords).arguments
        except TypeError as error:
            raise TypeError(f"{self._name}() {error}") from None
        try:
            body = msgspec.json.encode(given)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._unfit(error) from None
        self.decode(body)
        return body

    def decode(self, body: bytes) -> dict[str, Any]:
        """Raises ArgumentError."""
        try:
            found = self._arguments.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unfit(error) from None
        return {name: getattr(found, name) for name in found.__struct_fields__}

    def encode_result(self, value: object) -> bytes:
        """Raises ArgumentError."""
        try:
            return msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            what = f"the result of {self._name} is not for JSON: {error}"
            raise ArgumentError(what, "return something simpler, or convert it") from None

    def decode_result(self, body: bytes) -> T:
        """Raises ArgumentError."""
        try:
            return self._result.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"the result of {self._name} is not what its annotation says: {error}"
            raise ArgumentError(what, "do worker and caller run the same code?") from None

    def _unfit(self, error: Exception) -> ArgumentError:
        return ArgumentError(
            f"the arguments do not fit {self._name}{self._signature}: {error}",
            "a job is one JSON object: the arguments by the names of the parameters",
        )
