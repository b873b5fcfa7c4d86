"""Makes Spark report our errors by their message, without a traceback.

Spark omits tracebacks if an environment variable is set when it writes the error. We set it when a
``PenstockError`` is raised: the process ends with it, so other errors keep their traceback.
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
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


def hide_traceback(call: Callable[P, T]) -> Callable[P, T]:

    @wraps(call)
    def called(*given: P.args, **named: P.kwargs) -> T:
        with _hidden_traceback():
            return call(*given, **named)

    return called


def hide_traceback_of_rows(call: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:

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
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        if spec is not None and str(spec.name).startswith("pyspark."):  # a process of Spark
            os.environ[HIDE_TRACEBACK] = "1"
        raise
