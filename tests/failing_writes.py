"""Makes single writes of one thread fail, as a full or broken disk would: by a filter in the kernel.

A thread can forbid itself system calls (seccomp), depending on their arguments. The filter lasts as
long as the thread; others are not affected.
"""

import ctypes
import platform
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

PWRITE, WRITEV = {"x86_64": (18, 20), "aarch64": (68, 66)}[platform.machine()]
NOWHERE = 0xFFFFFFFF  # beyond every offset, and no number of a system call
OFFSET_AT = 16 + 3 * 8  # of the fourth argument, in the kernel's description of a call

_SET_SECCOMP, _FILTER, _SET_NO_NEW_PRIVS = 22, 2, 38
_LOAD, _IF_EQUAL, _IF_GREATER_OR_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _program(error: int, at: Sequence[int], beyond: int) -> bytes:
    """Fail ``pwrite`` at one of these offsets, or from an offset on.

    Several pages in a row are written by ``writev``, which has no offset; it fails if ``beyond`` is
    given, as these are never the first pages.
    """
    fails_vectors = WRITEV if beyond < NOWHERE else NOWHERE
    tests = [
        _instruction(_IF_EQUAL, offset, len(at) - number + 1) for number, offset in enumerate(at)
    ]
    return b"".join(
        (
            _instruction(_LOAD, 0),
            _instruction(_IF_EQUAL, fails_vectors, len(tests) + 4),
            _instruction(_IF_EQUAL, PWRITE, 0, len(tests) + 2),
            _instruction(_LOAD, OFFSET_AT),
            *tests,
            _instruction(_IF_GREATER_OR_EQUAL, beyond, 1),
            _instruction(_RETURN, _ALLOW),
            _instruction(_RETURN, _ERRNO | error),
        )
    )


def with_failing_writes(
    error: int, act: Callable[[], T], *, at: Sequence[int] = (), beyond: int = NOWHERE
) -> T:
    """Call ``act`` on a thread whose writes at these offsets of any file end with ``error``."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            _install(_program(error, at, beyond))
            results.append(act())
        except BaseException as failure:  # noqa: BLE001 - raised again below
            errors.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _install(program: bytes) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    buffer = ctypes.create_string_buffer(program)
    described = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    assert prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert prctl(_SET_SECCOMP, _FILTER, described, 0, 0) == 0, ctypes.get_errno()
