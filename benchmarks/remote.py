"""Clients as if they were on another machine: the broker's core receives what they send.

On the loopback device the sender does the receiver's part of TCP, in its own ``send``. A generator
that writes message by message then spends most of its time on work that belongs to the broker, and
its core is the limit long before the broker's is. From a network card the packets would arrive at
the broker's machine. Linux can do the same here: with receive packet steering (RPS) the loopback
device hands every packet to one core.

Steering is a property of the device, so the run moves to a network namespace, which has a loopback
device of its own: nothing else on the machine notices. That takes root.
"""

import os
import shutil
import sys

from benchmarks.brokers import BrokerError
from benchmarks.machine import Cores

__all__ = ["enter"]

INSIDE = "BENCHMARKS_REMOTE"
"""Set in the environment of a run that is inside the namespace."""

# The directory in /sys shows the devices of the namespace that mounted it.
SCRIPT = """\
mount -t sysfs sysfs /sys && ip link set lo up &&
echo "$1" >/sys/class/net/lo/queues/rx-0/rps_cpus && shift && exec "$@"
"""


def enter(cores: Cores) -> None:
    """Begin the run again in a namespace of its own; returns in there. Raises BrokerError."""
    if os.environ.get(INSIDE):
        return
    if cores.broker is None:
        raise BrokerError("--remote needs two cores, one for the broker and one for its clients")
    if os.geteuid() != 0:
        raise BrokerError("--remote needs root, for a network namespace. Try it with sudo.")
    missing = [name for name in ("unshare", "ip", "mount") if shutil.which(name) is None]
    if missing:
        raise BrokerError(f"--remote needs {', '.join(missing)}: install util-linux and iproute2")
    mask = f"{1 << cores.broker:x}"
    command = ["unshare", "--net", "--mount", "sh", "-c", SCRIPT, "sh", mask]
    command += [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
    sys.stdout.flush()
    os.execvpe(command[0], command, {**os.environ, INSIDE: mask})
