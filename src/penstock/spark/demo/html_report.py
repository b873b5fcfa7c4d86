"""The report as one self-contained HTML page; the same results give the same bytes."""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from penstock.spark.demo.charts import ChartData, charts_of
from penstock.spark.demo.results import DemoResults, silences
from penstock.spark.demo.svg_chart import Chart

ROWS_MAX: Final = 40  # devices in the timeline; the table has all


def html_report(results: DemoResults) -> str:
    verdict = "No message was lost or duplicated." if results.is_good else "Something is wrong."
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    charts = [*(_chart(results, data) for data in charts_of(results)), _silences(results)]
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Penstock demo: {verdict}</title><style>\n{css}</style></head><body>",
            "<h1>A fleet, a broker, Spark, and a kill</h1>",
            _verdict(results, verdict),
            _figures(results),
            f'<div class="charts">{"".join(charts)}</div>',
            _accounts(results),
            f"<p>Penstock {escape(results.version)}, seed {results.seed}.</p></body></html>\n",
        ]
    )


def _verdict(results: DemoResults, verdict: str) -> str:
    rows = [
        (check.claim, check.expected, check.found, _mark(check.is_good)) for check in results.checks
    ]
    css = "verdict" if results.is_good else "verdict bad"
    table = _table(("check", "expected", "found", ""), rows, numbers={1, 2})
    return f'<div class="{css}"><b>{verdict}</b>{table}</div>'


class _Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def _mark(is_good: bool) -> _Markup:
    return _Markup('<span class="yes">✓</span>' if is_good else '<span class="no">✗ wrong</span>')


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        texts = [cell if isinstance(cell, _Markup) else escape(cell) for cell in row]
        return "".join(
            f"<{tag}{' class=n' if column in numbers else ''}>{text}</{tag}>"
            for column, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _figures(results: DemoResults) -> str:
    shown = [
        (f"{results.acknowledged:,}", "readings acknowledged"),
        (f"{sum(line.archived for line in results.lines):,}", "in the archive"),
        (f"{sum(line.refused for line in results.lines):,}", "forgeries refused"),
        (f"{results.devices:,}", "sensors, three protocols"),
        (f"{sum(map(len, results.batches.values())):,}", "micro-batches"),
        (f"{results.seconds:,.0f} s", "of traffic"),
    ]
    if results.away is not None:
        shown.append(
            (f"{results.away[1] - results.away[0]:,.1f} s", "without Spark after the kill")
        )
    boxes = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in shown)
    return f'<div class="figures">{boxes}</div>'


def _accounts(results: DemoResults) -> str:
    rows = [
        (
            *(line.device, line.door, line.fault, f"{line.acknowledged:,}"),
            *(f"{line.archived:,}", f"{line.refused:,}", _mark(line.is_same)),
        )
        for line in results.lines
    ]
    head = ("device", "protocol", "behaviour", "acknowledged", "archived", "refused", "same bytes")
    return (
        "<section><h2>What the sensors know, and what the archive has</h2><p>Each sensor counts"
        " the acknowledgements of the broker, and sums checksums; Spark does the same for the"
        f" archive.</p>{_table(head, rows, numbers={3, 4, 5})}</section>"
    )


def _section(title: str, text: str, chart: Chart, legend: Iterable[tuple[str, str]]) -> str:
    entries = "".join(
        f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>'
        for colour, name in legend
    )
    return (
        f"<section><h2>{title}</h2><p>{text}</p>{chart.svg()}"
        f'<div class="legend">{entries}</div></section>'
    )


def _chart(results: DemoResults, data: ChartData) -> str:
    chart = Chart(data.title, x=(0, results.seconds), y=data.y, y_label=data.y_label)
    _shade(results, chart)
    for number, series in enumerate(data.series):
        css = f"s{number % 4}"
        if series.band:
            points = list(zip(series.points, series.band, strict=True))
            lower = [(x, low) for (x, _), (low, _) in points]
            upper = [(x, high) for (x, _), (_, high) in points]
            chart.band(lower, upper, css)
        (chart.dots if data.has_dots else chart.line)(series.points, css)
    legend = [(f"s{number % 4}", series.name) for number, series in enumerate(data.series)]
    return _section(data.title, data.text, chart, legend)


def _shade(results: DemoResults, chart: Chart) -> None:
    if results.away is not None:
        chart.absence(*results.away, "driver killed")


def _silences(results: DemoResults) -> str:
    title = "Silent devices, and gaps in numbers"
    devices = results.troubled[:ROWS_MAX]
    chart = Chart(title, x=(0, results.seconds), y=(0, 1), y_label="", rows=max(1, len(devices)))
    _shade(results, chart)
    rows = {device: row for row, device in enumerate(devices)}
    for device, row in rows.items():
        chart.row_name(row, device)
    for silence in silences(results.alerts, results.seconds):
        if silence.device in rows:
            css = "silent" if silence.is_over else "for-good"
            end = "back after" if silence.is_over else "still silent after"
            hint = f"{silence.device}: {end} {silence.end_s - silence.begin_s:.1f} s"
            chart.span(rows[silence.device], silence.begin_s, silence.end_s, css, hint)
    for gap in results.gaps:
        if gap.device in rows:
            hint = gap.text or f"gap at {gap.at_s:.1f} s"
            chart.mark(rows[gap.device], gap.at_s, "gap", hint)
    legend = [("s0", "silent, came back"), ("bad", "silent to the end"), ("s1", "gap in numbers")]
    text = "From the alert topic. Silence that began while Spark was dead was noticed as well."
    return _section(title, text, chart, legend)
