"""Benchmarks are not installed with the package: put the root of the checkout on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))
