"""For tests of programs that use Penstock: a real broker in this process, ready in milliseconds.

>>> from penstock.testing import Broker
>>> with Broker() as broker:
...     connect_your_client(broker.host, broker.port)  # doctest: +SKIP

It is the broker itself, with real sockets and a real store in a temporary directory; only the clock
is virtual. Time-outs fire when the test moves it::

    broker.clock.advance(90)

Also as ``async with AsyncBroker()``, in the caller's event loop. Settings are keywords, written and
checked as in the configuration file.
"""

from penstock.testing.broker import AsyncBroker, Broker
from penstock.testing.clock import VirtualClock

__all__ = ["AsyncBroker", "Broker", "VirtualClock"]
