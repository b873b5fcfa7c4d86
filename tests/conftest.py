"""What every test leaves as it found it."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from penstock.testing.quiet import Quiet

# A busy machine is no failure of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Let no test leave the log "configured": a broker of the next one would respect that.

    ``structlog.testing.capture_logs`` does, and its default prints to where commands answer.
    """
    was_configured = structlog.is_configured()
    yield
    if not was_configured and not Quiet._holders:
        structlog.reset_defaults()
