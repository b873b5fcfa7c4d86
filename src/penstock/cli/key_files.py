"""The files of a device's key: a C header for the firmware, and JSON for Python.

Only their owner can read them. They never overwrite others unless that is requested: the secret
would be lost. A rotated key stays valid for a while, so its files are renamed to include its id.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import msgspec

from penstock.errors import PenstockError

_BYTES_PER_ROW = 12


class DeviceKeyPair(msgspec.Struct, frozen=True):
    """What a device, or a Python client, needs to sign."""

    device: str
    key_id: int
    topics: str
    public_key: bytes
    secret_key: bytes

    def __repr__(self) -> str:
        """Keep the secret out of tracebacks."""
        return f"DeviceKeyPair(device={self.device!r}, key_id={self.key_id})"

    def c_arrays(self) -> str:
        return dedent("""\
            static const uint32_t DEVICE_KEY_ID = {key_id};

            static const uint8_t DEVICE_SECRET_KEY[64] = {{
            {secret_key}
            }};

            static const uint8_t DEVICE_PUBLIC_KEY[32] = {{
            {public_key}
            }};
            """).format(
            key_id=self.key_id,
            secret_key="\n".join(_c_rows(self.secret_key)),
            public_key="\n".join(_c_rows(self.public_key)),
        )

    def header(self) -> str:
        warning = f"// The key that {self.device} signs with. Keep this file secret."
        return f"#pragma once\n\n{warning}\n\n#include <stdint.h>\n\n{self.c_arrays()}"

    def json(self) -> str:
        document = msgspec.structs.asdict(self) | {
            "public_key": self.public_key.hex(),
            "secret_key": self.secret_key.hex(),
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _c_rows(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), _BYTES_PER_ROW):
        row = data[start : start + _BYTES_PER_ROW]
        yield "    " + "".join(f"0x{byte:02x}, " for byte in row).rstrip(" ")


class KeyFiles:
    """The files of one device; checked before the key exists."""

    def __init__(
        self, directory: Path, device: str, *, force: bool, replaced: int | None = None
    ) -> None:
        """Check that the files can be written; ``replaced`` is the key whose files may exist."""
        self.paths = _paths(directory, device)
        self.set_aside: tuple[Path, ...] = ()  # where the files of the replaced key go
        self._force = force
        taken = [path for path in self.paths if os.path.lexists(path)]
        if taken and replaced is not None and _key_id(self.paths[1]) == replaced:
            self.set_aside = _paths(directory, f"{device}.{replaced}")
            taken = [path for path in self.set_aside if os.path.lexists(path)]
        if taken and not force:
            what = f"{taken[0]} exists, and may contain the only copy of a secret"
            advice = "choose another directory with --out, or overwrite it with --force"
            raise PenstockError(what, advice)

    @property
    def names(self) -> list[str]:
        return [str(path) for path in self.paths]

    def write(self, key: DeviceKeyPair) -> None:
        for path, aside in zip(self.paths, self.set_aside, strict=False):
            if os.path.lexists(path):
                path.rename(aside)
        for path, text in zip(self.paths, (key.header(), key.json()), strict=True):
            if self._force:
                path.unlink(missing_ok=True)  # overwriting would keep its mode
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)


def _paths(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}_keys.h", directory / f"{name}.key.json"


def _key_id(path: Path) -> int | None:
    try:
        document = msgspec.json.decode(path.read_bytes())
        return int(document["key_id"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None
