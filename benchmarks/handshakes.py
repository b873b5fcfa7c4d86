"""TLS handshakes a second, and per second of the broker's CPU time, next to Mosquitto.

    python -m benchmarks.handshakes [--rounds 3] [--seconds 3] [--clients 4]

The clients are ``openssl s_time``: full handshakes, one after the other. On a small machine they
are the bottleneck, since a client computes as much as a broker; compare the figures per CPU second.
Brokers alternate; the figures are medians.
"""

import argparse
import os
import re
import subprocess
import time
from pathlib import Path
from statistics import median
from tempfile import gettempdir

from benchmarks.brokers import Broker, MosquittoTlsBroker, PenstockBroker
from benchmarks.certificates import CERT, KEY

SETTINGS = {"tls.cert": CERT, "tls.key": KEY}
COUNT = re.compile(r"(\d+) connections in [\d.]+s")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(kind: type[Broker], seconds: int, clients: int) -> tuple[float, float]:
    """Handshakes a second, and per CPU second beyond what an idle broker uses."""
    settings = SETTINGS if kind is PenstockBroker else {}
    with kind.running(Path(gettempdir()), settings=settings) as broker:
        before = cpu_s(broker.pid)
        time.sleep(1)
        idle = cpu_s(broker.pid) - before
        command = f"openssl s_time -connect 127.0.0.1:{broker.port} -new -time {seconds} -tls1_3"
        started, before = time.monotonic(), cpu_s(broker.pid)
        running = [
            subprocess.Popen(command.split(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for _ in range(clients)
        ]
        said = [one.communicate()[0].decode() for one in running]
        elapsed = time.monotonic() - started
        used = cpu_s(broker.pid) - before - idle * elapsed
    count = sum(int(COUNT.findall(text)[0]) for text in said)
    return count / elapsed, count / max(used, 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    kinds = (PenstockBroker, MosquittoTlsBroker)
    found: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind in kinds:
            found[kind.name].append(measure(kind, options.seconds, options.clients))
    rates = {name: [median(column) for column in zip(*rows, strict=True)]
             for name, rows in found.items()}  # fmt: skip
    for name, (per_s, per_cpu_s) in rates.items():
        print(f"{name:<16} {per_s:>8,.0f}/s {per_cpu_s:>8,.0f} per CPU second")
    ours, theirs = (rates[kind.name] for kind in kinds)
    print(f"{'ratio':<16} {ours[0] / theirs[0]:>8.2f}x  {ours[1] / theirs[1]:>8.2f}x")


if __name__ == "__main__":
    main()
