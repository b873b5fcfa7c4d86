"""Global state that every test must leave unchanged."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from penstock.testing.quiet import Quiet
from tests.leftovers import pytest_runtest_protocol  # noqa: F401 - pytest finds its hooks here

# A busy machine must not fail a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that runs the suite in the background has it ignore Ctrl-C, and so would all children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The contexts of whoever runs the suite must not lead its commands to other brokers.
os.environ["PENSTOCK_CONTEXTS"] = "/nonexistent/contexts.toml"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not look for garbage among 19,000 tests: they are kept to the end.

    That halves what it takes each worker to collect them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Reset structlog after each test: the next broker would respect its configuration.

    ``structlog.testing.capture_logs`` does, and its default prints to where commands answer.
    """
    was_configured = structlog.is_configured()
    yield
    if not was_configured and not Quiet._holders:
        structlog.reset_defaults()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let ``--dist loadfile`` begin with what takes longest."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.scheduling import ByTime

    return ByTime(config, log)
