"""``penstock spark run``: run a pipeline, locally or on a cluster.

The commands are made from the registry of jobs (:mod:`penstock.spark.pipelines.registry`), with a
flag per option. Listing them imports no Spark; :mod:`penstock.cli.spark_job` runs one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Final

import click

from penstock.cli.inputs import CommandDecorator, duration, option_set
from penstock.cli.lazy import LazyGroup
from penstock.cli.output import columns, json_option, print_result, wants_json
from penstock.errors import ConfigError
from penstock.spark.pipelines.registry import JOBS, Option, PipelineJob, job
from penstock.spark.requirements import INSTALL

_TYPES: Final[dict[str, type]] = {"integer": int, "number": float}


class _Jobs(LazyGroup):
    """The jobs as commands, each made on request."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        with advice():
            return command_of(job(cmd_name))


@click.group(
    cls=_Jobs, table=JOBS, invoke_without_command=True, subcommand_metavar="NAME [OPTIONS]"
)
@click.option("--list", "is_list", is_flag=True, help="List all jobs.")
@json_option
@click.pass_context
def run(context: click.Context, *, is_list: bool) -> None:
    """Run the pipeline NAME; NAME --help shows its options.

    It runs on this machine unless --master is given. Each job is also a Python function in
    penstock.spark.pipelines.
    """
    if context.invoked_subcommand is None:
        found = [{"name": name, "help": text} for name, (_, text) in JOBS.items()]
        shown = columns(
            [("NAME", "DESCRIPTION"), *((each["name"], each["help"]) for each in found)]
        )
        print_result(found, shown)
    elif is_list:
        raise click.UsageError("--list takes no NAME")


def command_of(found: PipelineJob) -> click.Command:
    def callback(*, master: str | None, conf: tuple[str, ...], **options: object) -> None:
        settings = _settings(conf)
        with advice():
            execute = import_module("penstock.cli.spark_job").execute
        execute(found, options, master=master, settings=settings, as_json=wants_json())

    command = option_set(*map(_flag, found.options), *_COMMON)(callback)
    return click.command(found.name, help=found.run.__doc__)(command)


_COMMON: Final = (
    click.option(
        "--master", metavar="URL", help="Cluster, as in spark://host:7077; by default this machine."
    ),
    click.option("--conf", metavar="KEY=VALUE", multiple=True, help="Spark setting; repeatable."),
    json_option,
)


def _flag(option: Option) -> CommandDecorator:
    flag = "--" + option.name.replace("_", "-")
    if option.kind == "flag":
        return click.option(flag, option.name, is_flag=True, help=option.help)
    is_choice, make = option.kind == "choice", click.option
    if option.default is not None:  # an explicit None would make a required option optional
        make = partial(click.option, default=option.default, show_default=True)
    return make(
        flag,
        option.name,
        type=click.Choice(option.choices) if is_choice else _TYPES.get(option.kind, str),
        multiple=option.repeats,
        callback=duration if option.kind == "duration" else None,
        metavar=option.metavar or None,
        required=option.is_required,
        help=option.help,
    )


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
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise ConfigError(
            f"Spark is not installed: module {error.name} is missing", INSTALL
        ) from None
