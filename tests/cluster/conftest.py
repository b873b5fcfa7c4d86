"""Sockets behave differently on the two event loops that there are: test on both."""

import asyncio

import pytest
import uvloop

ON_BOTH_LOOPS = {"test_transport.py", "test_peer_tls.py", "test_snapshot_stream.py"}


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(config, item):
    factories = {"asyncio": asyncio.new_event_loop}
    if item.path.name in ON_BOTH_LOOPS:
        factories["uvloop"] = uvloop.new_event_loop
    return factories
