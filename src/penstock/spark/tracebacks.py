"""Errors that Spark repeats begin with their cause.

Spark runs the source and the sink in Python processes of its own, and repeats what they raise as
text: the whole traceback, a thousand characters of it, and the message at its end. Errors that are
meant for the user (:class:`~penstock.errors.PenstockError`) say what is wrong and what to do; where
in our code they were raised helps nobody. Spark leaves tracebacks out if a variable of the
environment says so when the error is written. We set it in the moment we raise such an error: the
process ends with it, so errors of other code, which need their traceback, keep it.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from penstock.errors import PenstockError

P = ParamSpec("P")
T = TypeVar("T")

HIDES_TRACEBACKS: Final = "SPARK_HIDE_TRACEBACK"


def hide_traceback(call: Callable[P, T]) -> Callable[P, T]:
    """Have Spark repeat an error of ours without its traceback."""

    @wraps(call)
    def called(*given: P.args, **named: P.kwargs) -> T:
        with _hidden_traceback():
            return call(*given, **named)

    return called


def hide_traceback_of_rows(call: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Do the same for what is raised while rows are read."""

    @wraps(call)
    def called(*given: P.args, **named: P.kwargs) -> Iterator[T]:
        with _hidden_traceback():
            yield from call(*given, **named)

    return called


@contextmanager
def _hidden_traceback() -> Iterator[None]:
    try:
        yield
    except PenstockError:
        if _is_sparks(sys.modules["__main__"]):
            os.environ[HIDES_TRACEBACKS] = "1"
        raise


def _is_sparks(main: object) -> bool:
    """Tell whether this process is one of Spark's, run as ``python -m pyspark...``."""
    spec = getattr(main, "__spec__", None)
    return spec is not None and str(spec.name).startswith("pyspark.")
