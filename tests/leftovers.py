"""What a failed test leaves open does not fail the next one.

Warnings are errors, so a socket that is collected before it was closed fails the test that runs at
that moment. For a test that passes, this is right: some test before it forgot to close. A test that
fails leaves its clients open for another reason: its traceback holds them, and pytest keeps that
until the next test is called. So one failure would look like two, the second in a test that has
nothing to do with it.
"""

import gc
import sys
import warnings
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect, after a test that failed, what only its traceback holds; it has been reported."""
    failed_before = item.session.testsfailed
    result = yield
    if item.session.testsfailed != failed_before:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return result
