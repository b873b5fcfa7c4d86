"""What ``penstock doctor`` says about the installation and the machine, whatever the findings are.

The installation is what every broker of this Python shares: which form of the hot code it runs,
and on which libraries. The machine is what one broker finds here: the flush time of its disk,
open files, free ports. Nothing is left behind: the file whose flush is timed has no name.
"""

import errno
import os
import platform
import resource
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from statistics import median

import lmdb
import msgspec

from penstock import __version__, kernel
from penstock.cli.doctor_checks import Finding, slow, weak, wrong
from penstock.config.address import Address, parse_listen
from penstock.config.listeners import wanted
from penstock.config.schema import Config
from penstock.limits import FILES_BESIDE_CLIENTS

FLUSHES = 20
FLUSHES_S_MAX = 1.0  # on a slow disk a few tell enough
FLUSH_BYTES = b"\0" * 4096
SLOW_FLUSH_MS = 20.0  # a rotating disk; every SSD that is not overloaded needs a tenth of it
FREE, IN_USE = "free", "in use"
UNKNOWN = "of unknown speed"  # a running broker that does not say


# ── the installation ──────────────────────────────────────────────────────────────────────────


class Installation(msgspec.Struct, frozen=True):
    """The program, the speed at which it runs, and what it runs on."""

    version: str
    speed: str
    problem: str  # why it is not compiled; empty if it is
    python: str
    executable: str
    lmdb: str
    event_loop: str

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("Penstock", f"{self.version}, {kernel.described}"),
            ("Python", f"{self.python} at {self.executable}"),
            ("LMDB", self.lmdb),
            ("event loop", self.event_loop),
        ]


def installation() -> Installation:
    return Installation(
        version=__version__,
        speed=kernel.speed,
        problem=kernel.problem,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        executable=sys.executable,
        lmdb=f"{'.'.join(map(str, lmdb.version()))} (py-lmdb {lmdb.__version__})",
        event_loop=f"uvloop {version}" if (version := _uvloop_version()) else "asyncio",
    )


def installation_findings() -> Iterator[Finding]:
    if not kernel.is_compiled:
        yield slow(f"the broker runs interpreted: {kernel.problem}", _compiling())
    if not _uvloop_version():
        yield slow("the event loop is that of asyncio", "pip install uvloop")


def _uvloop_version() -> str:
    try:
        return metadata.version("uvloop")
    except metadata.PackageNotFoundError:
        return ""


def _compiling() -> str:
    if os.environ.get(kernel.SPEED_VARIABLE) == kernel.INTERPRETED:
        return f"unset {kernel.SPEED_VARIABLE}"
    lacking = [
        *([] if _has_compiler() else ["a C compiler (gcc)"]),
        *([] if _has_headers() else ["Python's headers (python3-dev)"]),
    ]
    first = f"install {' and '.join(lacking)}; then" if lacking else "the C compiler is here:"
    # pip keeps what it built, and would install the wheel without the kernel once more
    again = "pip install --force-reinstall --no-cache-dir and what you installed it from"
    return f"{first} install Penstock again: {again}; in a clone: make kernel"


def _has_compiler() -> bool:
    configured = str(sysconfig.get_config_var("CC") or "cc")  # as in "gcc -pthread"
    return any(shutil.which(name) for name in (configured.split(maxsplit=1)[0], "cc"))


def _has_headers() -> bool:
    return (Path(sysconfig.get_path("include")) / "Python.h").is_file()


# ── the machine, as one broker finds it ───────────────────────────────────────────────────────


class Machine(msgspec.Struct, frozen=True):
    """What a broker with this configuration may use here."""

    open_files_max: int | None  # None: no limit
    flush_ms: float | None  # median; None if it could not be measured
    flushed_in: str
    ports: dict[str, str]  # by address; none if the broker runs, and has them
    running: str  # the speed of the broker that runs on this data; empty if none does

    def rows(self) -> list[tuple[str, str]]:
        files = "no limit" if self.open_files_max is None else f"{self.open_files_max:,} at most"
        took = "not measured" if self.flush_ms is None else f"{self.flush_ms:.2f} ms"
        ports = ", ".join(f"{address} {state}" for address, state in self.ports.items())
        return [
            *([("running", self.running)] if self.running else []),
            ("open files", files),
            ("flush", f"{took} in {self.flushed_in}"),
            ("ports", ports or "not looked at: the broker runs"),
        ]


def machine(config: Config, running: str) -> Machine:
    """``running``: the speed of the broker that runs on this data; empty if none does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    data = Path(config.data).absolute()
    folder = next(path for path in (data, *data.parents) if path.is_dir())
    return Machine(
        open_files_max=None if hard == resource.RLIM_INFINITY else hard,
        flush_ms=_flush_ms(folder),
        flushed_in=str(folder),
        ports={} if running else {str(a): _state(a) for a in _addresses(config)},
        running=running,
    )


def machine_findings(config: Config, found: Machine) -> Iterator[Finding]:
    yield from _ports(config, found)
    if found.running and found.running not in (kernel.speed, UNKNOWN):
        what = f"the running broker is {found.running}, this command is {kernel.speed}"
        yield slow(what, f"restart it, or look for {kernel.SPEED_VARIABLE} in its environment")
    clients_max, files = config.limits.clients_max, found.open_files_max
    if files is not None and files < clients_max + FILES_BESIDE_CLIENTS:
        what = f"{files:,} open files are too few for {clients_max:,} clients"
        yield weak(what, "raise the limit (ulimit -Hn, LimitNOFILE=), or lower limits.clients_max")
    if found.flush_ms is not None and found.flush_ms > SLOW_FLUSH_MS:
        what = f"a flush takes {found.flush_ms:.0f} ms in {found.flushed_in}"
        yield slow(f"{what}: every acknowledgement waits for one", "use a local SSD for the data")


def _ports(config: Config, found: Machine) -> Iterator[Finding]:
    """A port of the defaults may be taken: the broker skips it."""
    optional = {str(each.address) for each in wanted(config) if not each.is_required}
    for address, state in found.ports.items():
        if state == IN_USE and address not in optional:
            what = f"{address} is in use by another program: the broker does not start"
            yield wrong(what, "stop it, or choose another port with --listen")
        elif state not in (FREE, IN_USE):
            yield wrong(f"{address} cannot be listened on: {state}", "choose another address")


def _addresses(config: Config) -> list[Address]:
    peers = [parse_listen(config.cluster.peer_listen)] if config.cluster.peer_listen else []
    return [each.address for each in wanted(config)] + peers


def _state(address: Address) -> str:
    """Free, in use, or what the system says."""
    try:
        for family, kind, protocol, _, target in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the listener
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(target)
    except OSError as error:
        return IN_USE if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return FREE


def _flush_ms(folder: Path) -> float | None:
    took: list[float] = []
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            while len(took) < FLUSHES and sum(took) < FLUSHES_S_MAX:
                file.write(FLUSH_BYTES)
                started = time.perf_counter()
                os.fdatasync(file.fileno())
                took.append(time.perf_counter() - started)
    except OSError:  # another user's directory, or a full disk
        return None
    return median(took) * 1000
