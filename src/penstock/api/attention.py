"""When somebody should look at a group, a reader or a sink, and why. Pure."""

from collections.abc import Iterator

from penstock.api.documents.queues import Attention

OLD_S = 300.0  # a message that has waited so long, while there are workers
STAGED_S = 3600.0  # rows that were staged so long ago and not committed
BEHIND_S = 300.0  # of a reader
_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"))


def about(seconds: float) -> str:
    """A duration for people, as in 14 min: at least two of its unit."""
    for unit_s, name in _UNITS:
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{seconds:.0f} s"


def of_group(
    *, lag: int, workers: int, oldest_s: float | None, letters: int, exhausted: int, is_full: bool
) -> Iterator[Attention]:
    """What is wrong with a group of workers; the gravest first."""
    if is_full:
        text = "so many messages are in flight and delayed that no more are handed out: settle some"
        yield Attention("full", text)
    if lag and not workers:
        yield Attention("no_workers", f"{lag:,} wait, and no worker is connected: start one")
    elif oldest_s is not None and oldest_s >= OLD_S:
        text = f"the oldest has waited {about(oldest_s)}: add workers, or look why"
        yield Attention("oldest_waits", text)
    if letters or exhausted:
        text = f"{letters + exhausted:,} dead letters: fix the cause, then redrive them"
        yield Attention("dead_letters", text)


def of_reader(*, lag_s: float | None, lag: int, is_overtaken: bool) -> Iterator[Attention]:
    if is_overtaken:
        text = "retention has removed messages that it had not read: keep them longer"
        yield Attention("overtaken", text)
    if lag and lag_s is not None and lag_s >= BEHIND_S:
        text = f"{lag:,} messages and {about(lag_s)} behind: is it running?"
        yield Attention("behind", text)


def of_sink(*, staged: int, is_committing: bool, idle_s: float | None) -> Iterator[Attention]:
    if staged and not is_committing and idle_s is not None and idle_s >= STAGED_S:
        text = "rows wait to be committed, and nothing was for an hour: has the job ended?"
        yield Attention("staged_for_long", text)
