"""Penstock for MicroPython: publish with confirmation, subscribe exactly once, work on queues.

``Client`` is all that most programs need. ``penstock.simple`` is a blocking client with the names
of umqtt; ``penstock.ed25519`` signs, and is imported by those who do.
"""

from penstock.client import Client
from penstock.wire import ClientError, FullError, RefusedError, TakenOverError

__all__ = [
    "Client",
    "ClientError",
    "FullError",
    "RefusedError",
    "TakenOverError",
]
__version__ = "0.1.0"
