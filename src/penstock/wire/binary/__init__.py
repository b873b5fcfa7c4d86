"""The binary protocol, version 1: decoding, encoding, and the machines of both ends.

Bytes in, events out: no socket, no clock, no verification of signatures. Topics are any bytes
within the length limit, as the protocol allows.
"""

from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.frame import BinaryCommand
from penstock.wire.binary.server import BinaryServerMachine

__all__ = ["BinaryClientMachine", "BinaryCommand", "BinaryServerMachine"]
