"""The example of request and response does what it documents, against a broker process."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = [sys.executable, Path(__file__).parents[2] / "examples" / "request.py"]


def test_the_example_of_request_and_response(start):
    url = ("--url", f"mqtt://127.0.0.1:{start().port}")
    with subprocess.Popen([*EXAMPLE, *url, "serve"], stdout=subprocess.PIPE) as service:
        assert service.stdout.readline() == b"serving\n"
        assert ask(url, "1", "2", "3.5") == "6.5\n"
        assert ask(url, "one") == "error: these are not numbers\n"
        service.kill()


def ask(url, *numbers):
    command = [*EXAMPLE, *url, "ask", *numbers]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=40).stdout
