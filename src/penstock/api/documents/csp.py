"""Violations of the content security policy, as browsers report them."""

import msgspec


class ReportsTaken(msgspec.Struct, frozen=True):
    """How many there were since the start."""

    total: int


class CspReports(msgspec.Struct, frozen=True):
    """The last reports, the oldest first: the fields that browsers send, cut to a line."""

    items: list[dict[str, str]]
    total: int
