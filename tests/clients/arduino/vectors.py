"""The vectors that all clients share."""

import json
from typing import Any

from tests.clients.arduino.driver import LIBRARY

VECTORS: dict[str, Any] = json.loads((LIBRARY.parent / "vectors.json").read_text())
