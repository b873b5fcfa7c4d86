"""What CPython lacks of MicroPython: its clock, its sleep, its constants."""

import asyncio
from time import monotonic_ns


def const(value: int) -> int:
    return value


def ticks_ms() -> int:
    return monotonic_ns() // 1_000_000


def ticks_diff(end: int, start: int) -> int:
    return end - start


async def sleep_ms(duration: int) -> None:
    await asyncio.sleep(duration / 1000)
