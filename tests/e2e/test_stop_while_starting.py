"""A broker that is still reading its journal stops on a signal."""

import signal
import subprocess
import sys

import pytest

ENDLESS = """
import sys
from penstock.cli import main
from penstock.store.lmdb_store import LmdbStore

def recover(self):
    print("reading", flush=True)
    while True:
        pass

LmdbStore._recover = recover
sys.argv = ["penstock", "serve", "--data", sys.argv[1], "--listen", "127.0.0.1:0"]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_takes_long(tmp_path, number):
    """The event loop does not run meanwhile, so a flag would go unnoticed."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout.readline() == "reading\n"
            broker.send_signal(number)
            output, errors = broker.communicate(timeout=30)
        finally:
            broker.kill()
    assert (broker.returncode, errors) == (0, "")
    assert "Stopped during startup" in output
