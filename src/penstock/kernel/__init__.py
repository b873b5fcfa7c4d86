"""The hottest code, compiled: a second form of what stands elsewhere in Python.

A broker spends most of its time in a few loops: find the frames of a chunk, look up their routes,
hand the bytes on, put messages into columns, encode them. This package has these loops in Cython
(``*.pyx``), built by the installation where a C compiler is there. Where none is, everything works
the same, only slower.

**The Python form is the specification.** It stays in the module that it belongs to, which takes
the compiled form if there is one::

    if not TYPE_CHECKING and kernel.is_compiled:
        from penstock.kernel.columns import Batch

So types are checked against the Python form, and property tests (``tests/kernel``) prove that
both do the same. ``PENSTOCK_SPEED=interpreted`` in the environment chooses the Python form.
"""

import os
from importlib import import_module

SPEED_VARIABLE = "PENSTOCK_SPEED"
INTERPRETED = "interpreted"
COMPILED = "compiled"

# all or nothing: half a kernel would be a third speed, which nobody tests
PARTS = (
    "checksum",
    "columns",
    "connection_state",
    "entries",
    "fields",
    "flusher",
    "jobs",
    "names",
    "output_queue",
    "publishes",
    "resp",
    "routes",
    "sockets",
)


def _problem() -> str:
    """Why the compiled form is not used; empty if it is."""
    if os.environ.get(SPEED_VARIABLE) == INTERPRETED:
        return f"{SPEED_VARIABLE}={INTERPRETED} is set"
    try:
        for part in PARTS:
            import_module(f"{__name__}.{part}")
    except ImportError as error:
        return f"the compiled kernel was not built here ({error})"
    return ""


problem = _problem()
is_compiled = not problem
speed = COMPILED if is_compiled else INTERPRETED
described = speed if is_compiled else f"{speed}: {problem}"  # for people
