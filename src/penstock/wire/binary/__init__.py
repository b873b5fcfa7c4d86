"""The binary protocol, version 1: decoding, encoding, and the machines of both ends.

======================  ===========================================================================
``frame``               the layout of a frame, its commands (two of them our own) and its limits
``events``              what a machine reports
``server``, ``client``  the two machines: which commands each reads; a client's requests
``machine``             what they share: chunks to frames, frames to events
``fast_paths``          tight loops for the commands that are nearly all traffic
``encode``              frames to bytes
======================  ===========================================================================

Bytes in, events out: no socket, no clock, no verification of signatures. Topics are any bytes
within the length limit, as the protocol allows.
"""

from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.frame import BinaryCommand
from penstock.wire.binary.server import BinaryServerMachine

__all__ = ["BinaryClientMachine", "BinaryCommand", "BinaryServerMachine"]
