"""Asks the kernel to let a thread run soon after it wakes.

The writer thread sleeps several times per commit, for the disk and for the interpreter. Each time
it has little to do, and clients wait for it. But on a busy core it gets its turn only when another
thread has used up a slice of some milliseconds. Since Linux 6.12 a thread may ask for short slices:
it then preempts those with longer ones when it wakes, and gets no more time than they do in the
end. That needs no privilege. Elsewhere nothing changes.
"""

import ctypes
import os
import platform
import struct
import sys

SLICE_NS = 100_000  # the shortest that the kernel takes
NICE_MAX = 19

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # number of the system call
_ATTRIBUTES = struct.Struct("<IIQiIQQQII")  # struct sched_attr: size, policy, flags, nice, ...


def wake_soon(niceness: int = 0) -> bool:
    """Have the calling thread scheduled soon when it wakes; return whether the kernel agreed.

    ``niceness``: how much less of a busy core it shall get, on the scale of ``nice``.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = min(os.getpriority(os.PRIO_PROCESS, 0) + niceness, NICE_MAX)
    # the slice is what a thread with a deadline calls its runtime
    attributes = _ATTRIBUTES.pack(
        _ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0, 0, 0
    )
    try:
        return bool(ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0)
    except (OSError, AttributeError):
        return False
