"""RESP, the protocol of Redis, versions 2 and 3: the server's end.

Bytes in, events out. The caller interprets commands and chooses the protocol version (HELLO).
"""

from penstock.wire.resp.events import Event, RespColumns, RespCommand
from penstock.wire.resp.server import RespServerMachine
from penstock.wire.violation import Violation

__all__ = ["Event", "RespColumns", "RespCommand", "RespServerMachine", "Violation"]
