"""The lines that ``penstock certs dev`` prints work as they stand, with users, in minutes."""

import shlex
import subprocess
import sys
from pathlib import Path

from tests.e2e.process import TIMEOUT_S

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
SECRET = "canary-of-root-0123456789"


def run(*words, **options):
    command = [PENSTOCK, *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def test_what_certs_dev_prints_works_as_it_stands(start, tmp_path):
    printed = run("certs", "dev", tmp_path / "certs").splitlines()
    serve = next(line for line in printed if "penstock serve" in line)
    broker = start(*shlex.split(serve)[2:])
    password = tmp_path / "password"
    password.write_text(SECRET)
    password.chmod(0o600)
    run("users", "add", "root", "--admin", "--password-file", password, "--data", broker.data)
    run("users", "add", "client", "--secret", "--data", broker.data)

    where = ["-h", "localhost", "-p", broker.port]
    authority = ["--ca-file", tmp_path / "certs" / "ca.crt"]
    root = ["--user", "root", "--password-file", password]
    assert "acknowledged" in run("pub", "-q", 1, *where, *authority, *root, "plant/x", "4.2")
    assert "client" in run("users", "list", *where, *authority, *root)

    line = next(line for line in printed if "--cert " in line)  # sub, as the user client
    words = shlex.split(line)[1:]
    assert run(*words, *where, "--from", "earliest", "-n", 1, "--quiet") == "plant/x 4.2\n"
    assert SECRET not in broker.log_path.read_text()
