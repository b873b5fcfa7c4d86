"""The vendored library is the release that it says it is, unmodified."""

import hashlib
import re

from tests.clients.arduino.driver import LIBRARY

VENDOR = LIBRARY / "src" / "vendor"


def test_monocypher_is_unmodified():
    pinned = dict(
        re.findall(
            r"^\| (\S+\.[ch]) \| `(\w{64})`", (VENDOR / "PROVENANCE.md").read_text(), re.MULTILINE
        )
    )
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in VENDOR.glob("*.[ch]")
    }
    assert found == pinned
    assert pinned["monocypher.c"].startswith("57eb914f")
    assert pinned["monocypher.h"].startswith("c494da71")
