"""What a test's broker prints: nothing, unless asked. Each in a process of its own, where nobody
has set up logging before.
"""

import subprocess
import sys

import pytest

USE = """
import asyncio, structlog
from penstock.obs.log import get_logger
from penstock.testing import AsyncBroker, Broker

def say(level="info"):
    getattr(get_logger("x"), level)("said_" + level)
"""


def outputs(script):
    """Standard output and standard error of a script."""
    run = subprocess.run(
        [sys.executable, "-c", USE + script], capture_output=True, text=True, check=True, timeout=60
    )
    return run.stdout, run.stderr


def test_nothing_is_printed():
    script = """
with Broker() as broker:
    broker.restart()
    say()
async def main():
    async with AsyncBroker():
        say()
asyncio.run(main())
"""
    assert outputs(script) == ("", "")


@pytest.mark.parametrize("wish", ['log_level="info"', 'log={"level": "info"}'])
def test_a_lower_level_is_had_for_the_asking_on_standard_error(wish):
    out, err = outputs(f"with Broker({wish}): say()")
    assert out == ""
    assert "said_info" in err


def test_warnings_are_told_on_standard_error():
    out, err = outputs("with Broker(): say('warning')")
    assert out == ""
    assert "said_warning" in err


def test_what_others_have_set_up_is_left_alone():
    script = """
structlog.configure(processors=[structlog.processors.KeyValueRenderer()])
before = structlog.get_config()
with Broker(log_level="error"):
    assert structlog.get_config() == before
assert structlog.get_config() == before and structlog.is_configured()
"""
    outputs(script)


def test_what_others_set_up_meanwhile_is_left_alone():
    script = """
with Broker():
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    before = structlog.get_config()
assert structlog.get_config() == before and structlog.is_configured()
"""
    outputs(script)


def test_the_last_broker_to_stop_leaves_things_as_they_were():
    script = """
one, other = Broker(), Broker()
one.start()
other.start()
one.stop()
say()
other.stop()
assert not structlog.is_configured()
"""
    assert outputs(script) == ("", "")
