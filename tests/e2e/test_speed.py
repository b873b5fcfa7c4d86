"""A broker says at which speed it runs, and why if it is the slower one."""

import json
import platform

import pytest

from penstock import __version__, kernel
from tests.e2e.speeds import without_kernel

NOT_BUILT = "the compiled kernel was not built here"


@pytest.fixture(params=["compiled", "interpreted", "not built"])
def case(request, tmp_path, monkeypatch):
    """The speed of brokers that are started now, and the beginning of its reason."""
    monkeypatch.delenv(kernel.SPEED_VARIABLE, raising=False)
    if request.param == "compiled":
        if not kernel.is_compiled:
            pytest.skip(kernel.problem)
        return kernel.COMPILED, ""
    if request.param == "interpreted":
        monkeypatch.setenv(kernel.SPEED_VARIABLE, kernel.INTERPRETED)
        return kernel.INTERPRETED, "PENSTOCK_SPEED=interpreted is set"
    for name, value in without_kernel(tmp_path).items():
        monkeypatch.setenv(name, value)
    return kernel.INTERPRETED, NOT_BUILT


def test_greeting_log_status_and_metrics_say_the_speed(case, start):
    speed, why = case
    broker = start()
    (line,) = [line for line in broker.greeting.splitlines() if line.startswith("  speed ")]
    shown = line.removeprefix("  speed").strip()
    assert shown == speed if not why else shown.startswith(f"{speed}: {why}")
    assert ("penstock doctor" in shown) == bool(why)
    assert broker.json("/status")[1]["speed"] == speed
    labels = f'python="{platform.python_version()}",speed="{speed}",version="{__version__}"'
    assert f"penstock_build_info{{{labels}}} 1.0\n" in broker.page("/metrics")[1]
    lines = [json.loads(line) for line in broker.log_path.read_text().splitlines()]
    (started,) = [line for line in lines if line["event"] == "started"]
    assert started["speed"].startswith(f"{speed}: {why}" if why else speed)
