"""Mutations of known inputs, for machines without a coverage-guided fuzzer."""

import random

_NUMBERS = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x00\x00\x00\x00", b"\r\n"]


def mutated(chance: random.Random, seeds: list[bytes], changes_max: int = 6) -> bytes:
    """One of the seeds, or two of them joined, with a few changes."""
    data = bytearray(chance.choice(seeds))
    if chance.random() < 0.3:
        data += chance.choice(seeds)
    for _ in range(chance.randint(0, changes_max)):
        _change(chance, data)
    return bytes(data[:4_096])


def _change(chance: random.Random, data: bytearray) -> None:
    at = chance.randint(0, len(data))
    match chance.randrange(5):
        case 0:
            data[at : at + 1] = chance.randbytes(1)
        case 1:
            data[at:at] = chance.choice(_NUMBERS)
        case 2:
            del data[at : at + chance.randint(1, 8)]
        case 3:
            data[at : at + 4] = chance.choice(_NUMBERS)
        case 4:
            data[at:at] = data[at : at + chance.randint(1, 32)]
