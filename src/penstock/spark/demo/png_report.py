"""A story as one picture: the charts of the page again, for a slide or a chat.

Drawn by Matplotlib without its global state: no window, no backend to choose, nothing to reset.
"""

from collections.abc import Iterable
from io import BytesIO
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from penstock.spark.demo.results import DemoResults, silences

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#a04a86")
BAD: Final = "#b3261e"
GOOD: Final = "#1b7f3b"
INK: Final = "#1d2428"
PALETTE: Final = 128
ROWS_MAX: Final = 14
CHECKS_MAX: Final = 9

_STYLE: Final = {"fontsize": 9, "color": INK}


def png_report(story: DemoResults, dpi: int = 100) -> bytes:
    """Draw a story as a PNG, 1200 by 1000 points unless told otherwise."""
    figure = Figure(figsize=(12, 10), dpi=dpi, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, 2)
    figure.suptitle(_title(story), color=GOOD if story.is_good else BAD, fontsize=13)
    _traffic(story, axes[0][0])
    _lag(story, axes[0][1])
    _rollups(story, axes[1][0])
    _batches(story, axes[1][1])
    _silences(story, axes[2][0])
    _verdict(story, axes[2][1])
    return _packed(figure)


def _packed(figure: Figure) -> bytes:
    """Write a PNG with a palette: there are few colours, and it is a third of the size."""
    drawn, packed = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(PALETTE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _title(story: DemoResults) -> str:
    verdict = "nothing was lost, nothing came twice" if story.is_good else "something is wrong"
    kill = ", the driver killed once" if story.away else ""
    return f"{story.acknowledged:,} readings of {story.devices} sensors{kill}: {verdict}"


def _dress(story: DemoResults, axis: Any, title: str, y_label: str, legend: Iterable[str]) -> None:
    """Say what an axis shows, and shade the time without a driver."""
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set_xlabel("seconds since the fleet began", fontsize=9)
    axis.set_ylabel(y_label, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.set_xlim(0, max(story.seconds, 1))
    axis.grid(color="#dcdcd5", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if story.away is not None:
        axis.axvspan(*story.away, color=BAD, alpha=0.10, linewidth=0, zorder=0)
        axis.axvline(story.away[0], color=BAD, linestyle="--", linewidth=1.1)
    if list(legend):
        axis.legend(
            fontsize=8,
            frameon=False,
            ncols=4,
            loc="lower right",
            bbox_to_anchor=(1.01, 0.985),
            handlelength=1.2,
            columnspacing=1.2,
        )


def _coloured(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(COLOURS[place % len(COLOURS)], name) for place, name in enumerate(names)]


def _traffic(story: DemoResults, axis: Any) -> None:
    for colour, door in _coloured(story.traffic):
        seconds = [second + 0.5 for second in range(len(story.traffic[door]))]
        axis.plot(seconds, story.traffic[door], color=colour, label=door, linewidth=1.4)
    axis.set_ylim(bottom=0)
    _dress(story, axis, "Readings per second", "acknowledged / s", story.traffic)
    _name_kill(story, axis)


def _name_kill(story: DemoResults, axis: Any) -> None:
    """Say what the dashed line is, above the data and on the side where there is room."""
    if story.away is None:
        return
    axis.set_ylim(top=axis.get_ylim()[1] * 1.12)
    killed_at, is_late = story.away[0], story.away[0] > 0.75 * story.seconds
    axis.annotate(
        "driver killed",
        (killed_at, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if is_late else 4, -4),
        textcoords="offset points",
        ha="right" if is_late else "left",
        va="top",
        color=BAD,
        fontsize=9,
    )


def _lag(story: DemoResults, axis: Any) -> None:
    for colour, reader in _coloured(story.lag):
        points = story.lag[reader]
        axis.plot(
            [at for at, _ in points],
            [lag for _, lag in points],
            color=colour,
            label=reader,
            linewidth=1.4,
        )
    axis.set_ylim(bottom=0)
    _dress(story, axis, "Lag of the readers", "messages not read", story.lag)


def _rollups(story: DemoResults, axis: Any) -> None:
    for colour, sensor in _coloured(story.rollups):
        windows = story.rollups[sensor]
        starts = [window.start_s for window in windows]
        lows, highs = [window.low for window in windows], [window.high for window in windows]
        axis.fill_between(starts, lows, highs, color=colour, alpha=0.2, linewidth=0)
        means = [window.mean for window in windows]
        axis.plot(starts, means, color=colour, label=sensor, linewidth=1.4)
    _dress(story, axis, "Rollup", "temperature, °C: mean, min to max", story.rollups)


def _batches(story: DemoResults, axis: Any) -> None:
    for colour, query in _coloured(story.batches):
        batches = story.batches[query]
        times, took = [batch.at_s for batch in batches], [batch.took_s for batch in batches]
        axis.scatter(times, took, s=11, color=colour, label=query, alpha=0.8, linewidths=0)
    axis.set_ylim(bottom=0)
    _dress(story, axis, "Duration of micro-batches", "seconds", story.batches)


def _silences(story: DemoResults, axis: Any) -> None:
    stretches = silences(story.alerts, story.seconds)
    devices = story.troubled[:ROWS_MAX]
    for silence in stretches:
        if silence.device in devices:
            colour = COLOURS[0] if silence.is_over else BAD
            long = silence.end_s - silence.begin_s
            axis.barh(
                devices.index(silence.device), long, left=silence.begin_s, height=0.55, color=colour
            )
    for gap in story.gaps:
        if gap.device in devices:
            axis.plot(gap.at_s, devices.index(gap.device), "D", color=COLOURS[1], markersize=6)
    axis.set_yticks(range(len(devices)), devices)
    axis.set_ylim(max(len(devices), 1) - 0.4, -0.6)
    title = "Silent: blue came back, red did not; diamond: numbers jumped"
    _dress(story, axis, title, "", ())


def _verdict(story: DemoResults, axis: Any) -> None:
    axis.axis("off")
    axis.set_title("Audit", loc="left", fontsize=10.5, color=INK)
    for row, check in enumerate(story.checks[:CHECKS_MAX]):
        y = 0.93 - row * 0.105
        colour = GOOD if check.is_good else BAD
        place = {"transform": axis.transAxes, "va": "center"}
        axis.text(0.0, y, "✓" if check.is_good else "✗", **place, fontsize=12, color=colour)
        axis.text(0.05, y, check.claim, **place, **_STYLE)
        axis.text(0.84, y, check.expected, **place, **_STYLE, ha="right")
        axis.text(1.0, y, check.found, **place, fontsize=9, color=colour, ha="right")
    for x, head in ((0.84, "expected"), (1.0, "found")):
        axis.text(
            x, 1.02, head, transform=axis.transAxes, ha="right", fontsize=8.5, color="#5b666d"
        )
