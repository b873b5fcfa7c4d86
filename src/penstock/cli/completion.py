"""``penstock completion``: what a shell needs to complete commands, options and names.

Click answers the shell, with names of :mod:`penstock.cli.names`; this prints the few lines that
make the shell ask.
"""

from typing import Final

import click
from click.shell_completion import get_completion_class

from penstock.cli.connection import COMPLETE_VARIABLE
from penstock.errors import PenstockError

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print a script that makes SHELL complete commands, options and names.

    \b
    bash:  penstock completion bash >> ~/.bashrc
    zsh:   penstock completion zsh >> ~/.zshrc
    fish:  penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise PenstockError(f"this version of click knows no completion for {shell}")
    top = context.find_root()
    click.echo(kind(top.command, {}, top.info_name or "penstock", COMPLETE_VARIABLE).source())
