"""``penstock doctor``: look at a configuration, a data directory and a broker; say what is weak."""

from contextlib import ExitStack
from pathlib import Path

import click

from penstock.cli import doctor_checks as checks
from penstock.cli.access_options import local_broker
from penstock.cli.doctor_checks import Finding
from penstock.cli.options import load_or_advise
from penstock.cli.output import json_option, print_result
from penstock.config.load import Loaded
from penstock.config.problems import ConfigProblemsError
from penstock.errors import PenstockError


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
    """Say what is wrong or weak about a broker, and what helps.

    Looks at the configuration and its files, at the data directory, and at users and rules, of a
    running or a stopped broker. Changes nothing of it. Exits with 1 if something is wrong.
    """
    findings, looked_at = _findings(config_file, data)
    document = {"ok": not _is_wrong(findings), "findings": findings, "looked_at": looked_at}
    print_result(document, f"{_text(findings)}\nlooked at {' and '.join(looked_at)}")
    raise SystemExit(_is_wrong(findings))


def _is_wrong(findings: list[Finding]) -> bool:
    return any(finding.level == "wrong" for finding in findings)


def _findings(config_file: str | None, data: Path | None) -> tuple[list[Finding], list[str]]:
    """What was found, and where: without --config a broker may run with flags that are not seen."""
    configuration = f"the configuration {config_file}" if config_file else "default settings"
    try:
        loaded = load_or_advise(config_file, {"data": str(data)} if data else {})
    except ConfigProblemsError as error:
        problems = [
            checks.wrong(f"{problem.origin}: {problem.key}: {problem.what}", problem.advice)
            for problem in error.problems
        ]
        return problems, [configuration]
    path = Path(loaded.config.data)
    found = [*checks.configuration(loaded), *checks.directory(path)]
    if path.is_dir():
        found += _access(loaded, path, config_file)
        return found, [configuration, f"the data in {path}"]
    found += _absent(loaded)
    return found, [configuration, f"{path}, which does not exist yet"]


def _absent(loaded: Loaded) -> list[Finding]:
    return list(checks.nobody(loaded.config))


def _access(loaded: Loaded, data: Path, config_file: str | None) -> list[Finding]:
    try:
        with ExitStack() as stack:
            broker = local_broker(stack, data, config_file)
            return list(checks.access(loaded.config, broker))
    except PenstockError as error:
        return [checks.weak(f"users could not be looked at: {error.message}", error.advice)]


def _text(findings: list[Finding]) -> str:
    if not findings:
        return "ok: nothing wrong or weak was found"
    lines: list[str] = []
    for finding in sorted(findings, key=lambda finding: finding.level, reverse=True):
        lines.append(f"{finding.level}: {finding.what}")
        if finding.fix:
            lines.append(f"  {finding.fix}")
    return "\n".join(lines)
