"""Environments in which a broker runs at a certain speed."""

import os
from pathlib import Path

__all__ = ["without_kernel"]


def without_kernel(folder: Path) -> dict[str, str]:
    """Variables for a process in which the compiled kernel cannot be imported, as if not built."""
    code = 'import sys\nsys.modules["penstock.kernel.checksum"] = None\n'
    (folder / "sitecustomize.py").write_text(code)
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{path}" if path else str(folder)}
