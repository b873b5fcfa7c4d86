"""A broker and the command line, which names it by its data directory."""

import json
from pathlib import Path

from click.testing import CliRunner

from penstock.cli import penstock


class Kit:
    """Runs commands that administer a broker."""

    def __init__(self, broker):
        self.broker = broker
        self.data = Path(broker.server.config.data)

    @property
    def book(self):
        return self.broker.server.broker.access

    @property
    def address(self):
        return ("--server", f"127.0.0.1:{self.broker.port}")

    def run(self, *words, by=None, **options):
        where = by or ("--data", str(self.data))
        return CliRunner().invoke(penstock, [*words[:2], *where, *words[2:]], **options)

    def say(self, *words, **options):
        result = self.run(*words, **options)
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.stdout

    def ask(self, *words, **options):
        return json.loads(self.say(*words, "--json", **options))
