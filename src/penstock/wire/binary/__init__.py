"""The binary protocol, version 1: decoding, encoding, and the machines of both ends.

======================  ===========================================================================
``frame``               the layout of a frame, its commands (two of them ours) and its limits
``events``              what a machine reports
``server``, ``client``  the two machines: tables of who reads which command; a client's requests
``machine``             what they share: pieces to frames, frames to events
``fast_paths``          the tight loops for the commands that are nearly all traffic
``encode``              frames to bytes: how any frame is packed, and what a broker says
======================  ===========================================================================

Bytes in, events out. There is no socket and no clock here, nobody verifies a signature, and nobody
has an opinion on topics beyond their length: the protocol allows any bytes in them.
"""

from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.frame import BinaryCommand
from penstock.wire.binary.server import BinaryServerMachine

__all__ = ["BinaryClientMachine", "BinaryCommand", "BinaryServerMachine"]
