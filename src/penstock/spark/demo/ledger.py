"""What the sensors know: the readings that the broker acknowledged.

An audit cannot see a reading that was acknowledged but never journaled; the sensor can.
"""

from collections import Counter
from collections.abc import Iterable
from zlib import crc32

import msgspec

from penstock.spark.demo.fleet import SensorReading


class Account(msgspec.Struct):
    """The acknowledged and refused readings of one sensor."""

    acknowledged: int = 0
    checksum: int = 0
    last_seq: int = -1
    refused: int = 0  # by a reply, or by closing the connection


class Ledger:
    """The accounts of one gateway, and the acknowledgements per second."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.by_second: Counter[int] = Counter()

    def account(self, topic: str) -> Account:
        return self.accounts.setdefault(topic, Account())

    def acknowledged(self, topic: str, readings: Iterable[SensorReading], second: int) -> None:
        account = self.account(topic)
        for reading in readings:
            account.acknowledged += 1
            account.checksum += crc32(reading.payload)
            account.last_seq = max(account.last_seq, reading.seq)
            self.by_second[second] += 1

    def refused(self, topic: str, count: int) -> None:
        self.account(topic).refused += count
