"""Draws curves, dots and bars as SVG for the page: no script, no network, no fixed colours."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element, SubElement, tostring

WIDTH: Final = 480
HEIGHT: Final = 240
TOP, RIGHT, BOTTOM, LEFT = 12, 12, 38, 50
ROW_HEIGHT: Final = 18
NAME_WIDTH: Final = 22  # of the rotated axis label
DIGIT_WIDTH: Final = 7.2  # an upper bound
Point: TypeAlias = tuple[float, float]
Range: TypeAlias = tuple[float, float]


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    if high <= low:
        high = low + 1
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first, last = floor(low / step), ceil(high / step)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _text(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,g}"


class Chart:
    """A frame with axes, for series; ``svg`` returns it."""

    def __init__(self, title: str, *, x: Range, y: Range, y_label: str, rows: int = 0) -> None:
        self._height = TOP + BOTTOM + rows * ROW_HEIGHT if rows else HEIGHT
        self._x_ticks = nice_ticks(*x, 6)
        self._x = x[0], max(x[1], x[0] + 1)
        self._y_ticks = nice_ticks(*y)
        label_width = max(len(_text(tick)) for tick in self._y_ticks) * DIGIT_WIDTH
        self._left = 96 if rows else max(LEFT, ceil(label_width) + NAME_WIDTH + 6)
        self._y = self._y_ticks[0], self._y_ticks[-1]
        self._svg = Element(
            "svg", {"viewBox": f"0 0 {WIDTH} {self._height}", "role": "img", "aria-label": title}
        )
        SubElement(self._svg, "title").text = title
        self._draw_x_axis()
        if not rows:
            self._draw_y_axis(y_label)

    def _across(self, x: float) -> float:
        low, high = self._x
        inside = min(max(x, low), high)
        return round(self._left + (inside - low) / (high - low) * (WIDTH - RIGHT - self._left), 1)

    def _up(self, y: float) -> float:
        low, high = self._y
        bottom = self._height - BOTTOM
        return round(bottom - (y - low) / (high - low) * (bottom - TOP), 1)

    def _add(self, kind: str, css: str, **attributes: float | str) -> Element:
        shown = {name.replace("_", "-"): str(value) for name, value in attributes.items()}
        return SubElement(self._svg, kind, {"class": css, **shown})

    def _draw_x_axis(self) -> None:
        bottom = self._height - BOTTOM
        for tick in self._x_ticks:
            if self._x[0] <= tick <= self._x[1]:
                x = self._across(tick)
                self._add("line", "grid", x1=x, x2=x, y1=TOP, y2=bottom)
                label = self._add("text", "label", x=x, y=bottom + 15, text_anchor="middle")
                label.text = _text(tick)
        middle = (self._left + WIDTH - RIGHT) / 2
        name = self._add("text", "name", x=middle, y=self._height - 6, text_anchor="middle")
        name.text = "seconds since the fleet started"

    def _draw_y_axis(self, label: str) -> None:
        for tick in self._y_ticks:
            y = self._up(tick)
            self._add("line", "grid", x1=self._left, x2=WIDTH - RIGHT, y1=y, y2=y)
            text = self._add("text", "label", x=self._left - 6, y=y + 4, text_anchor="end")
            text.text = _text(tick)
        y = (TOP + self._height - BOTTOM) / 2
        turn = f"rotate(-90 12 {y})"
        name = self._add("text", "name", x=12, y=y, text_anchor="middle", transform=turn)
        name.text = label

    def line(self, points: Sequence[Point], css: str) -> None:
        if points:
            self._add("polyline", f"curve {css}", points=self._path(points))

    def band(self, lower: Sequence[Point], upper: Sequence[Point], css: str) -> None:
        if lower:
            self._add("polygon", f"band {css}", points=self._path([*lower, *reversed(upper)]))

    def dots(self, points: Sequence[Point], css: str) -> None:
        for x, y in points:
            self._add("circle", f"dot {css}", cx=self._across(x), cy=self._up(y), r=2.6)

    def _path(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self._across(x)},{self._up(y)}" for x, y in points)

    def absence(self, begin: float, end: float, text: str) -> None:
        left, right = self._across(begin), self._across(end)
        height = self._height - BOTTOM - TOP
        self._add("rect", "absence", x=left, y=TOP, width=max(1.0, right - left), height=height)
        self._add("line", "kill", x1=left, x2=left, y1=TOP, y2=TOP + height)
        is_right = left > WIDTH * 0.7
        x_label = left - 4 if is_right else left + 4
        anchor = "end" if is_right else "start"
        self._add("text", "kill-name", x=x_label, y=TOP + 11, text_anchor=anchor).text = text

    def _row(self, row: int) -> float:
        return TOP + row * ROW_HEIGHT

    def row_name(self, row: int, text: str) -> None:
        y = self._row(row) + ROW_HEIGHT - 5
        self._add("text", "label", x=self._left - 6, y=y, text_anchor="end").text = text

    def span(self, row: int, begin: float, end: float, css: str, hint: str) -> None:
        left, right = self._across(begin), self._across(end)
        width, height = max(2.0, right - left), ROW_HEIGHT - 6
        bar = self._add("rect", css, x=left, y=self._row(row) + 3, width=width, height=height)
        SubElement(bar, "title").text = hint

    def mark(self, row: int, at: float, css: str, hint: str) -> None:
        x, y = self._across(at), self._row(row) + ROW_HEIGHT / 2
        shape = f"M{x},{y - 5} l5,5 l-5,5 l-5,-5 z"
        SubElement(self._add("path", css, d=shape), "title").text = hint

    def svg(self) -> str:
        return tostring(self._svg, encoding="unicode")
