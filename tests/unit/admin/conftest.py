"""A broker made of fixed numbers, for the pages to show."""

import pytest

from penstock.admin.view import JournalView
from penstock.obs.counters import Counters


class FixedView:
    version = "9.8.7"

    def __init__(self):
        self.counters = Counters()
        self.readiness = (True, "")

    def sessions(self):
        return (3, 4)

    def queued(self):
        return 5

    def retained(self):
        return 6

    def subscriptions(self):
        return 7

    def journal(self):
        return JournalView(
            bytes=8_192,
            map_bytes=1_048_576,
            entries=9,
            messages=10,
            oldest_sequence=11,
            newest_sequence=20,
        )

    def pending_capture_bytes(self):
        return 12

    def uptime_s(self):
        return 13.5

    def ready(self):
        return self.readiness


@pytest.fixture
def view():
    return FixedView()
