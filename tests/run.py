"""The suite as ``make test`` runs it: tests that fail get a second run, alone, and are reported.

``python -m tests.run`` takes the arguments of pytest. On a slow machine one of thousands of tests
that wait for processes and disks may fail without a fault in the change under test. If at most
``FEW`` tests failed, they run once more, without workers beside them and in a fixed order. Those
that pass only then are named at the very end: each is a fault to be fixed, in the test or in the
broker. Whatever says more than "these tests failed" stays a failure at once: an interrupted run, a
worker that crashed, a module that could not be collected, a run that stopped early.

The second run replaces this process, so that nothing of the first is left in it, and Ctrl-C and
signals reach pytest without a detour.
"""

import os
import sys

import pytest

FEW = 5
"""More failures than this are no accident, and nobody waits for their second run."""

AGAIN = "--again"


class Outcomes:
    """A pytest plugin that remembers which tests passed, which failed, and what else went wrong."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.broken = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.broken |= report.failed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        """A worker ended: xdist tells with which error, if any, and starts another in its place."""
        self.broken |= error is not None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.broken |= bool(session.shouldfail or session.shouldstop)


def first(arguments: list[str]) -> int:
    """Run all tests. Does not return if a second run follows."""
    outcomes = Outcomes()
    code = pytest.main(arguments, plugins=[outcomes])
    if code == pytest.ExitCode.TESTS_FAILED and not outcomes.broken:
        failed = sorted(outcomes.failed)
        if 0 < len(failed) <= FEW:
            print("\nA second run, alone, of what failed:", *failed, sep="\n  ", flush=True)
            sys.stderr.flush()
            # Without -bb: it does not reach the workers, and both runs must ask for the same.
            os.execv(sys.executable, [sys.executable, "-m", "tests.run", AGAIN, *failed])
    return code


def again(tests: list[str]) -> int:
    """Run these tests alone, and succeed only if each of them passes: skipped is not passed."""
    outcomes = Outcomes()
    code = pytest.main(["-n", "0", "-p", "no:randomly", *tests], plugins=[outcomes])
    passed = sorted(outcomes.passed - outcomes.failed)
    if passed:
        print("\nFLAKY: passed only on the second run:", *passed, sep="\n  ", flush=True)
    if code == pytest.ExitCode.OK and passed != sorted(tests):
        return pytest.ExitCode.TESTS_FAILED
    return code


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(again(arguments[1:]) if arguments[:1] == [AGAIN] else first(arguments))
