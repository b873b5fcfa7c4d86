"""The commands of docs/operating/looking.md do what the page says."""

import json
import shlex
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from penstock.testing import Broker
from tests.api_kit import ApiClient, Events

PAGE = Path(__file__).parents[2] / "docs" / "operating" / "looking.md"
COMMANDS = [line[2:] for line in PAGE.read_text().splitlines() if line.startswith("$ curl")]


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        api = ApiClient(broker.port)
        for number in range(3):
            body = {"topic": "plant/p7/temp", "text": f'{{"c": {number}}}', "retain": True}
            assert api.post("messages", body).status == 200
        yield broker


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_accepted(broker, command):
    words = shlex.split(command)
    address = urlsplit("//" + next(word for word in words if word.startswith("localhost")))
    path = f"{address.path}?{address.query}"
    api = ApiClient(broker.port)
    if address.path.endswith("/stream"):
        with Events(api, **parse_qs(address.query)) as events:
            assert events.status == 200
            assert events.next()[0] == "started"
        return
    body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
    method = "DELETE" if "DELETE" in words else "POST" if body else "GET"
    answer = api.ask(method, path.rstrip("?"), body)
    is_missing = "undo" in path or "pump-7" in json.dumps(body) or "41822" in path
    assert answer.status == (404 if is_missing else 200), answer
