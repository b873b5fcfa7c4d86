"""``penstock spark run``: a pipeline by its name, locally or on a cluster.

The commands are made from the table of jobs (:mod:`penstock.spark.pipelines.registry`): a flag per
option. To list them imports no Spark; to run one is in :mod:`penstock.cli.spark_job`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click

from penstock.cli.admin_client import duration, json_option, print_result
from penstock.cli.columns import columns
from penstock.cli.lazy import LazyGroup
from penstock.errors import ConfigError
from penstock.spark.pipelines.registry import JOBS, Option, PipelineJob, job
from penstock.spark.requirements import INSTALL

_TYPES: Final[dict[str, Any]] = {"integer": int, "number": float}


class _Jobs(LazyGroup):
    """The jobs as commands, each made when it is asked for."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        with advice():
            return command_of(job(cmd_name))


@click.group(
    cls=_Jobs,
    table=JOBS,
    invoke_without_command=True,
    subcommand_metavar="NAME [OPTIONS]",
)
@click.option("--list", "is_list", is_flag=True, help="List the jobs there are.")
@json_option
@click.pass_context
def run(context: click.Context, *, is_list: bool, as_json: bool) -> None:
    """Run a pipeline by its name; NAME --help tells its options.

    A job runs on this machine unless --master says where else. It is a Python function too, in
    penstock.spark.pipelines.
    """
    if context.invoked_subcommand is None:
        found = [{"name": name, "help": text} for name, (_, text) in JOBS.items()]
        shown = columns(
            [("NAME", "WHAT IT DOES"), *((each["name"], each["help"]) for each in found)]
        )
        print_result(found, shown, as_json=as_json)
    elif is_list:
        raise click.UsageError("--list takes no NAME")


# ── From a job to a command ───────────────────────────────────────────────────────────────────


def command_of(found: PipelineJob) -> click.Command:
    """Make the command that runs a job."""

    def callback(
        *, master: str | None, conf: tuple[str, ...], as_json: bool, **options: Any
    ) -> None:
        settings = _settings(conf)
        with advice():
            execute = import_module("penstock.cli.spark_job").execute
        execute(found, options, master=master, settings=settings, as_json=as_json)

    command: Callable[..., Any] = callback
    for decorate in reversed([*map(_flag, found.options), *_COMMON]):
        command = decorate(command)
    make = click.command(found.name, help=found.run.__doc__)
    return make(command)


_COMMON: Final = (
    click.option("--master", metavar="URL", help="A cluster, as in spark://host:7077; else here."),
    click.option(
        "--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's; may be repeated."
    ),
    json_option,
)


def _flag(option: Option) -> Callable[..., Any]:
    flag = "--" + option.name.replace("_", "-")
    more: dict[str, Any] = {"help": option.help, "required": option.is_required}
    if option.kind == "flag":
        return click.option(flag, option.name, is_flag=True, help=option.help)
    if option.kind == "duration":
        more["callback"] = duration
    if option.metavar:
        more["metavar"] = option.metavar
    if option.default is not None:
        more |= {"default": option.default, "show_default": True}
    is_choice = option.kind == "choice"
    kind = click.Choice(option.choices) if is_choice else _TYPES.get(option.kind, str)
    return click.option(flag, option.name, type=kind, multiple=option.repeats, **more)


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in conf:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--conf takes KEY=VALUE, not {text!r}")
        settings[key.strip()] = value.strip()
    return settings


_OF_THE_EXTRA: Final = {"pyspark", "pyarrow", "numpy", "pandas", "matplotlib", "rich"}


@contextmanager
def advice() -> Iterator[None]:
    """Say how to install what is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise ConfigError(
            f"Spark is not installed: there is no module {error.name}",
            INSTALL,
        ) from None
