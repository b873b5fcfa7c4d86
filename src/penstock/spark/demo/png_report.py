"""The report as a picture, drawn by Matplotlib without its global state."""

from io import BytesIO
from typing import Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from penstock.spark.demo.charts import ChartData, charts_of
from penstock.spark.demo.results import DemoResults, silences

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#a04a86")
BAD: Final = "#b3261e"
GOOD: Final = "#1b7f3b"
INK: Final = "#1d2428"
PALETTE: Final = 128  # colours; a palette makes the file a third of the size
ROWS_MAX: Final = 14
CHECKS_MAX: Final = 9


def png_report(results: DemoResults, dpi: int = 100) -> bytes:
    figure = Figure(figsize=(12, 10), dpi=dpi, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, 2)
    verdict = "no message was lost or duplicated" if results.is_good else "something is wrong"
    kill = ", the driver killed once" if results.away else ""
    title = f"{results.acknowledged:,} readings of {results.devices} sensors{kill}: {verdict}"
    figure.suptitle(title, color=GOOD if results.is_good else BAD, fontsize=13)
    for axis, data in zip(axes.flat, charts_of(results), strict=False):  # two more axes follow
        _chart(results, axis, data)
    _label_kill(results, axes[0][0])
    _silences(results, axes[2][0])
    _verdict(results, axes[2][1])
    drawn, packed = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(PALETTE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _decorate(results: DemoResults, axis: Axes, title: str, y_label: str) -> None:
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set_xlabel("seconds since the fleet started", fontsize=9)
    axis.set_ylabel(y_label, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.set_xlim(0, max(results.seconds, 1))
    axis.grid(color="#dcdcd5", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if results.away is not None:
        axis.axvspan(*results.away, color=BAD, alpha=0.10, linewidth=0, zorder=0)
        axis.axvline(results.away[0], color=BAD, linestyle="--", linewidth=1.1)


def _chart(results: DemoResults, axis: Axes, data: ChartData) -> None:
    for number, series in enumerate(data.series):
        colour = COLOURS[number % len(COLOURS)]
        xs, ys = [x for x, _ in series.points], [y for _, y in series.points]
        if series.band:
            lows, highs = [low for low, _ in series.band], [high for _, high in series.band]
            axis.fill_between(xs, lows, highs, color=colour, alpha=0.2, linewidth=0)
        if data.has_dots:
            axis.scatter(xs, ys, s=11, color=colour, label=series.name, alpha=0.8, linewidths=0)
        else:
            axis.plot(xs, ys, color=colour, label=series.name, linewidth=1.4)
    if data.y[0] == 0:
        axis.set_ylim(bottom=0)
    _decorate(results, axis, data.title, data.y_label)
    if data.series:
        axis.legend(
            fontsize=8,
            frameon=False,
            ncols=4,
            loc="lower right",
            bbox_to_anchor=(1.01, 0.985),
            handlelength=1.2,
            columnspacing=1.2,
        )


def _label_kill(results: DemoResults, axis: Axes) -> None:
    if results.away is None:
        return
    axis.set_ylim(top=axis.get_ylim()[1] * 1.12)
    killed_at, is_late = results.away[0], results.away[0] > 0.75 * results.seconds
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


def _silences(results: DemoResults, axis: Axes) -> None:
    devices = results.troubled[:ROWS_MAX]
    for silence in silences(results.alerts, results.seconds):
        if silence.device in devices:
            colour = COLOURS[0] if silence.is_over else BAD
            row, length = devices.index(silence.device), silence.end_s - silence.begin_s
            axis.barh(row, length, left=silence.begin_s, height=0.55, color=colour)
    for gap in results.gaps:
        if gap.device in devices:
            axis.plot(gap.at_s, devices.index(gap.device), "D", color=COLOURS[1], markersize=6)
    axis.set_yticks(range(len(devices)), devices)
    axis.set_ylim(max(len(devices), 1) - 0.4, -0.6)
    _decorate(results, axis, "Silent: blue came back, red did not; diamond: gap in numbers", "")


def _verdict(results: DemoResults, axis: Axes) -> None:
    axis.axis("off")
    axis.set_title("Audit", loc="left", fontsize=10.5, color=INK)

    def text(x: float, y: float, shown: str, colour: str = INK, align: str = "right") -> None:
        axis.text(
            x, y, shown, transform=axis.transAxes, va="center", ha=align, color=colour, fontsize=9
        )

    for row, check in enumerate(results.checks[:CHECKS_MAX]):
        y = 0.93 - row * 0.105
        colour = GOOD if check.is_good else BAD
        text(0.0, y, "✓" if check.is_good else "✗", colour, "left")
        text(0.05, y, check.claim, align="left")
        text(0.84, y, check.expected)
        text(1.0, y, check.found, colour)
    text(0.84, 1.02, "expected", "#5b666d")
    text(1.0, 1.02, "found", "#5b666d")
