"""The door of the binary protocol."""

from penstock.doors.binary.connection import BinaryConnection
from penstock.doors.binary.door import BinaryDoor

__all__ = ["BinaryConnection", "BinaryDoor"]
