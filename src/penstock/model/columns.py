"""Which columns of messages somebody wants who reads them in bulk: bits of one number.

They are those of ``Fetch.columns`` in ``queue.proto``. Whatever is asked for, the numbers of the
messages come along: offsets, sequences, times and flags.
"""

from typing import Final

PAYLOADS: Final = 1
HEADERS: Final = 2
SIGNATURES: Final = 4
SCHEDULES: Final = 8
PRODUCERS: Final = 16
NUMBERS: Final = 32
"""Nothing but the numbers; 0 would say that columns are not wanted at all."""

ALL: Final = PAYLOADS | HEADERS | SIGNATURES | SCHEDULES | PRODUCERS
