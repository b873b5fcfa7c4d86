"""Builds the client for Node, once; several processes build it one after the other."""

import fcntl
import shutil
import subprocess
from pathlib import Path

__all__ = ["PACKAGE", "build_node_client", "node_missing"]

PACKAGE = Path(__file__).parents[3] / "clients/node"
BUILD_S = 120


def node_missing() -> str:
    """What has to be installed before the client can be built; nothing, if that is empty."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (PACKAGE / "node_modules/typescript").is_dir():
        return "its tools are not there: npm install --prefix clients/node"
    return ""


def build_node_client() -> None:
    with (PACKAGE / "node_modules/.build-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_stale():
            subprocess.run(["node", "build.mjs"], cwd=PACKAGE, check=True, timeout=BUILD_S)


def _is_stale() -> bool:
    built = PACKAGE / "dist/index.js"
    sources = [*(PACKAGE / "src").glob("*.ts"), PACKAGE / "tsconfig.json", PACKAGE / "build.mjs"]
    newest = max(source.stat().st_mtime for source in sources)
    return not built.exists() or built.stat().st_mtime < newest
