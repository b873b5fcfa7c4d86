"""``penstock doctor``: look at an installation, a configuration and a broker; say what is weak."""

from contextlib import ExitStack
from pathlib import Path

import click
import msgspec

from penstock.cli import doctor_checks as checks
from penstock.cli.access_options import is_running, local_broker
from penstock.cli.admin_client import SocketClient
from penstock.cli.doctor_checks import Finding
from penstock.cli.doctor_installation import (
    UNKNOWN,
    Installation,
    Machine,
    installation,
    installation_findings,
    machine,
    machine_findings,
)
from penstock.cli.options import load_or_advise
from penstock.cli.output import columns, json_option, print_result
from penstock.config.load import Loaded
from penstock.config.problems import ConfigProblemsError
from penstock.errors import PenstockError
from penstock.net.admin_path import NAME


@click.command()
@click.option("--config", "config_file", metavar="FILE", help="Configuration file of the broker.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data directory, by default that of the configuration; the broker may run or not.",
)
@json_option
def doctor(config_file: str | None, data: Path | None) -> None:
    """Find what is wrong, weak or slow about a broker, and say what helps.

    Looks at the installation and its speed, at the configuration and its files, at the disk and the
    data directory, and at users and rules, of a running or a stopped broker. Changes nothing of it.
    Exits with 1 if something is wrong.
    """
    found = _examine(config_file, data)
    is_wrong = any(finding.level == "wrong" for finding in found.findings)
    document = {"ok": not is_wrong} | msgspec.to_builtins(found)
    print_result(document, _text(found))
    raise SystemExit(is_wrong)


class _Examined(msgspec.Struct):
    """Facts and findings, and where they come from: flags of a running broker are not seen."""

    findings: list[Finding]
    looked_at: list[str]
    installation: Installation
    machine: Machine | None = None  # None if there is no valid configuration


def _examine(config_file: str | None, data: Path | None) -> _Examined:
    where = f"the configuration {config_file}" if config_file else "default settings"
    found = _Examined(list(installation_findings()), [where], installation())
    try:
        loaded = load_or_advise(config_file, {"data": str(data)} if data else {})
    except ConfigProblemsError as error:
        found.findings += [
            checks.wrong(f"{problem.origin}: {problem.key}: {problem.what}", problem.advice)
            for problem in error.problems
        ]
        return found
    path = Path(loaded.config.data)
    found.machine = machine(loaded.config, _running(path))
    found.findings += machine_findings(loaded.config, found.machine)
    found.findings += [*checks.configuration(loaded), *checks.directory(path)]
    if path.is_dir():
        found.findings += _access(loaded, path, config_file)
        found.looked_at.append(f"the data in {path}")
    else:
        found.findings += checks.nobody(loaded.config)
        found.looked_at.append(f"{path}, which does not exist yet")
    return found


def _running(data: Path) -> str:
    """The speed of the broker that runs on this data; empty if none does."""
    try:
        if not is_running(data):
            return ""
        return str(SocketClient(data / NAME).get("overview").get("speed", UNKNOWN))
    except PenstockError:  # another user's: it has the ports all the same
        return UNKNOWN


def _access(loaded: Loaded, data: Path, config_file: str | None) -> list[Finding]:
    try:
        with ExitStack() as stack:
            broker = local_broker(stack, data, config_file)
            return list(checks.access(loaded.config, broker))
    except PenstockError as error:
        return [checks.weak(f"users could not be looked at: {error.message}", error.advice)]


_MEANINGS = {
    "wrong": "wrong means that the broker does not start, refuses clients or gives a secret away",
    "weak": "weak means that all works, until an attacker or many clients come",
    "slow": "slow means that all works, and could do so faster",
}


def _text(found: _Examined) -> str:
    facts = found.installation.rows() + (found.machine.rows() if found.machine else [])
    lines = [columns(facts), ""]
    for finding in sorted(found.findings, key=lambda finding: finding.level, reverse=True):
        lines.append(f"{finding.level}: {finding.what}")
        if finding.fix:
            lines.append(f"  {finding.fix}")
    levels = {finding.level for finding in found.findings}
    if not found.findings:
        lines.append("ok: nothing wrong, weak or slow was found")
    lines += [meaning for level, meaning in _MEANINGS.items() if level in levels]
    return "\n".join([*lines, f"looked at {' and '.join(found.looked_at)}"])
