"""The writer thread asks for short slices, and stays an ordinary thread otherwise."""

import os
import threading

import pytest

from penstock.store.wake_ups import wake_soon


@pytest.mark.parametrize("niceness", [0, 3])
def test_a_thread_that_asked_keeps_its_policy_and_is_as_nice_as_it_said(niceness):
    before, agreed, after = [], [], []

    def state() -> tuple[int, int]:
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)

    def ask() -> None:
        before.append(state())
        agreed.append(wake_soon(niceness))  # an older kernel may refuse
        after.append(state())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    (policy, nice), (is_agreed,) = before[0], agreed
    assert after == [(policy, min(nice + niceness, 19) if is_agreed else nice)]
