"""A progress bar on standard error, if that is a terminal; otherwise nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with what is done and the whole."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, width=30) as bar:

        def show(done: int, of: int) -> None:
            bar.length = max(of, 1)
            reached = bar.length if done >= of else done  # nothing to do is done, too
            bar.update(reached - bar.pos)

        yield show


def size_text(size: int) -> str:
    """A size in the largest unit that fits, as in "12.5 MiB"."""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:,.0f} bytes" if units[0] == "bytes" else f"{value:,.1f} {units[0]}"
