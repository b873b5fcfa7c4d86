"""What the sensors know: which of their readings the broker has acknowledged.

That is the side of the story no audit of broker and archive can tell. Had the broker acknowledged a
reading and never journaled it, both would agree, and both be wrong; the sensor would know better.

Readings are added up, so that the archive can be compared without keeping them all: how many, the
greatest number, and the sum of the CRC-32 of the payloads, which Spark can work out as well
(``sum(crc32(payload))``) and in which neither order nor batches matter.

Each door has a ledger of its own, written by its thread only.
"""

from collections import Counter
from collections.abc import Iterable
from zlib import crc32

import msgspec

from penstock.spark.demo.fleet import SensorReading


class Account(msgspec.Struct):
    """One sensor's knowledge."""

    acknowledged: int = 0
    checksum: int = 0
    last_seq: int = -1
    refused: int = 0
    """The broker said no, or hung up because of it."""


class Ledger:
    """The accounts of the sensors at one door, and how many acknowledgements came when."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.by_second: Counter[int] = Counter()

    def account(self, topic: str) -> Account:
        """Return a sensor's account, opened at its first word."""
        return self.accounts.setdefault(topic, Account())

    def acknowledged(self, topic: str, readings: Iterable[SensorReading], second: int) -> None:
        """The broker has these on its disk, and said so in that second of the show."""
        account = self.account(topic)
        for reading in readings:
            account.acknowledged += 1
            account.checksum += crc32(reading.payload)
            account.last_seq = max(account.last_seq, reading.seq)
            self.by_second[second] += 1

    def refused(self, topic: str, count: int) -> None:
        """The broker took none of these."""
        self.account(topic).refused += count
