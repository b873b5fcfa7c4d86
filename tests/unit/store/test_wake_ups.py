"""The writer thread asks for short slices, and stays an ordinary thread otherwise."""

import os
import threading

from penstock.store.wake_ups import wake_soon


def test_a_thread_that_asked_keeps_its_policy_and_its_nice_value():
    before, after = [], []

    def state() -> tuple[int, int]:
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)

    def ask() -> None:
        before.append(state())
        wake_soon()  # an older kernel may refuse
        after.append(state())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert before == after
