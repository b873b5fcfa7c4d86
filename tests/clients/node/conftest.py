"""The client for Node, built once; without Node and its compiler its tests are skipped."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "clients/node"


def missing() -> str:
    """What has to be installed before the client can be built; nothing, if that is empty."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (PACKAGE / "node_modules/typescript").is_dir():
        return "its tools are not there: npm install --prefix clients/node"
    return ""


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the built client; several workers build it one after the other."""
    if reason := missing():
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    with (PACKAGE / "node_modules/.build-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_stale():
            subprocess.run(["node", "build.mjs"], cwd=PACKAGE, check=True, timeout=120)
    return PACKAGE


def is_stale() -> bool:
    built = PACKAGE / "dist/index.js"
    sources = [*(PACKAGE / "src").glob("*.ts"), PACKAGE / "tsconfig.json", PACKAGE / "build.mjs"]
    newest = max(source.stat().st_mtime for source in sources)
    return not built.exists() or built.stat().st_mtime < newest
