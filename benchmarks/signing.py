"""Signed publishes, created before the measurement, and how fast the library verifies them.

``python -m benchmarks.signing FILE [COUNT]`` writes frames for ``mqload -m binary-signed -x secure
-f FILE`` and prints the key to register with the broker. A benchmark run creates its own, with
enough frames for one measurement, and registers the key with each fresh broker.

The signature (Ed25519, version 1) is over the topic and the payload, so the payload cannot carry a
send time; otherwise it is the generator's payload. Signing is the publisher's work and is not
measured.

The broker is compared with :class:`BareVerification`: a process on the broker's core that verifies
the same signatures one after the other and does nothing else. This is the upper bound for a broker
on one core.
"""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, NamedTuple

import nacl.bindings
import nacl.signing

from benchmarks.brokers import TrustedKey
from benchmarks.generator import GeneratorError, Load
from benchmarks.machine import pinned

__all__ = ["BareVerification", "SignedFrames", "write_frames"]

SIGNED_PUBLISH = 0x10
HEADER = struct.Struct("!BBQHI")
STAMP = struct.Struct("=QII")
"""The generator's payload: send time (none here), publisher, sequence."""

SIGNATURE_BYTES = 64
KEY_ID = 7
TOPIC = b"secure/t0"
TOPICS = "secure/*"
PAYLOAD_BYTES = 100
FRAMES_PER_S = 40_000
"""Twice what a current core verifies, so that the frames do not run out."""


class SignedFrames(NamedTuple):
    """A file of frames, and the key that verifies them."""

    path: Path
    key: TrustedKey


def write_frames(path: Path, count: int, seed: int) -> SignedFrames:
    """Write ``count`` signed publishes, numbered from 0; the key follows from ``seed``."""
    key = nacl.signing.SigningKey(seed.to_bytes(32, "big"))
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with fresh.open("wb") as file:
        file.writelines(_frame(key, sequence) for sequence in range(count))
    fresh.replace(path)  # atomically: another run may be reading it
    return SignedFrames(path, TrustedKey(KEY_ID, bytes(key.verify_key), TOPICS))


def _frame(key: nacl.signing.SigningKey, sequence: int) -> bytes:
    payload = STAMP.pack(0, 0, sequence) + _FILLER
    header = HEADER.pack(1, SIGNED_PUBLISH, sequence + 1, len(TOPIC), len(payload))
    signature = key.sign(TOPIC + payload).signature
    return header + TOPIC + payload + signature + KEY_ID.to_bytes(4, "big")


_FILLER = bytes(ord("a") + at % 26 for at in range(STAMP.size, PAYLOAD_BYTES))


def read_signed(path: Path) -> Iterator[bytes]:
    """Yield signature and signed bytes of each frame, as the library expects them."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        *_, topic, payload = HEADER.unpack_from(data, at)
        begin = at + HEADER.size
        end = begin + topic + payload
        yield data[end : end + SIGNATURE_BYTES] + data[begin:end]
        at = end + SIGNATURE_BYTES + 4


class BareVerification:
    """The other side of the signed workload: the library alone, on the broker's core."""

    name: ClassVar[str] = "bare verify"

    @classmethod
    def program(cls) -> str | None:
        return sys.executable

    @classmethod
    def version(cls) -> str:
        return f"PyNaCl {version('PyNaCl')}"

    @classmethod
    def run(cls, frames: SignedFrames, seconds: float, cpu: int | None) -> Load:
        """Verify for ``seconds`` in a process on ``cpu``."""
        command = [sys.executable, "-m", "benchmarks.signing", "--verify", str(frames.path)]
        command += [frames.key.public_key.hex(), str(seconds)]
        root = Path(__file__).parents[1]
        with pinned(cpu):
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
        if done.returncode != 0:
            raise GeneratorError(done.stderr.strip())
        return Load.parse(done.stdout)


def verify_for(path: Path, public_key: bytes, seconds: float) -> dict[str, float]:
    """Return the rate, over as much of the file as fits; an invalid signature raises."""
    signed = list(read_signed(path))
    verify = nacl.bindings.crypto_sign_open
    verified, start, cpu = 0, time.perf_counter(), time.process_time()
    deadline = start + seconds
    for verified, one in enumerate(signed, start=1):  # noqa: B007 - how far it got is the result
        verify(one, public_key)
        if time.perf_counter() >= deadline:
            break
    return {
        "acked": verified,
        "acked_per_s": verified / (time.perf_counter() - start),
        "broker_us_per_message": (time.process_time() - cpu) / verified * 1e6,
    }


def main(arguments: list[str]) -> None:
    """Write frames for manual use; with ``--verify``, act as the peer of a measurement."""
    if arguments[:1] == ["--verify"]:
        path, public_key, seconds = arguments[1:]
        rate = verify_for(Path(path), bytes.fromhex(public_key), float(seconds))
        print(json.dumps(rate))
        return
    if not arguments:
        sys.exit("usage: python -m benchmarks.signing FILE [COUNT]")
    count = int(arguments[1]) if len(arguments) > 1 else FRAMES_PER_S
    frames = write_frames(Path(arguments[0]), count, seed=1)
    key = frames.key
    print(f"key id {key.key_id}, public key {key.public_key.hex()}, topics {key.topics}")


if __name__ == "__main__":
    main(sys.argv[1:])
