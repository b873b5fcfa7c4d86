"""The page and the picture: the numbers are on them, and they need nothing from elsewhere."""

import re
import xml.etree.ElementTree as ET

import pytest
from demo_samples import full_story
from matplotlib.image import imread

from penstock.spark.demo.html_report import html_report
from penstock.spark.demo.png_report import png_report
from penstock.spark.demo.results import (
    Alert,
    Check,
    DemoResults,
    SensorComparison,
    Silence,
    silences,
)
from penstock.spark.demo.svg_chart import Chart, nice_ticks

EMPTY = DemoResults(version="1", seed=0, devices=6, seconds=0.0, traffic={})


def drawings(page: str) -> list[ET.Element]:
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


# ── Stories


def test_a_silence_ends_when_the_device_is_back_or_with_the_story():
    alerts = [
        Alert("b", "silent", 9.0),
        Alert("a", "back", 7.0),
        Alert("a", "gap", 6.0),
        Alert("a", "silent", 5.0),
    ]
    assert silences(alerts, 20.0) == [
        Silence("a", 5.0, 7.0, is_over=True),
        Silence("b", 9.0, 20.0, is_over=False),
    ]


def test_a_silence_that_follows_another_did_not_end_by_coming_back():
    alerts = [Alert("a", "silent", 5.0), Alert("a", "silent", 9.0)]
    assert [silence.is_over for silence in silences(alerts, 20.0)] == [False, False]


def test_a_story_in_which_nothing_was_checked_is_not_good():
    assert full_story().is_good
    assert not full_story(checks=[]).is_good
    assert not full_story(checks=[Check("a", "1", "2", is_good=False)]).is_good


# ── The page


def test_the_numbers_are_on_the_page():
    page = html_report(full_story())
    assert "No message was lost or duplicated." in page
    for text in ("3,457", "1,234", "11.5 s", "sensor-005", "impostor-mqtt", "Penstock 1.2.3"):
        assert text in page, text
    acknowledged = sum(sum(counts) for counts in full_story().traffic.values())
    assert f"<b>{acknowledged:,}</b>" in page


def test_a_failed_check_is_said_first_and_marked():
    page = html_report(full_story(checks=[Check("each once", "5", "4", is_good=False)]))
    assert "Something is wrong." in page
    assert "No message was lost" not in page
    assert "✗ wrong" in page


def test_a_device_whose_bytes_differ_is_marked():
    line = SensorComparison("sensor-009", "resp", "steady", 5, 4, 0, is_same=False)
    assert html_report(full_story(lines=[line])).count("✗ wrong") == 1


def test_the_page_loads_nothing():
    page = html_report(full_story())
    assert "://" not in page
    assert not re.search(r"<(script|link|img|iframe|object)|@import|url\(|\bsrc=|\bhref=", page)


def test_drawings_are_well_formed_and_named():
    found = drawings(html_report(full_story()))
    assert len(found) == 5
    for drawing in found:
        assert drawing.get("aria-label") == drawing.findtext("title")


def test_every_point_lies_within_its_drawing():
    for drawing in drawings(html_report(full_story())):
        width, height = map(float, drawing.get("viewBox").split()[2:])
        for curve in (*drawing.iter("polyline"), *drawing.iter("polygon")):
            for point in curve.get("points").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_the_kill_is_marked_in_every_drawing_and_nowhere_without_one():
    assert html_report(full_story()).count(">driver killed<") == 5
    page = html_report(full_story(killed_at=None, back_at=None))
    assert "driver killed" not in page
    assert "without Spark" not in page


def test_names_from_topics_cannot_become_markup():
    name = "<script>alert('&')</script>"
    alerts = [Alert(name, "silent", 3.0), Alert(name, "gap", 4.0, name)]
    line = SensorComparison(name, name, name, 1, 1, 0, is_same=True)
    page = html_report(full_story(alerts=alerts, lines=[line], lag={name: [(0.0, 1)]}))
    assert "<script" not in page
    assert drawings(page)


def test_a_story_without_anything_can_be_drawn():
    assert len(drawings(html_report(EMPTY))) == 5
    assert png_report(EMPTY, dpi=40).startswith(b"\x89PNG")


def test_the_same_story_gives_the_same_page():
    assert html_report(full_story()) == html_report(full_story())


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0, 0), (17.2, 23.9), (0, 123_456), (-3, 4), (0.001, 0.0012)]
)
def test_ticks_enclose_their_range_and_are_few(low, high):
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 9


def test_what_lies_outside_the_time_shown_is_drawn_at_its_edge():
    chart = Chart("a", x=(0, 10), y=(0, 1), y_label="b")
    chart.line([(-5, 0), (15, 1)], "s0")
    (curve,) = ET.fromstring(chart.svg()).iter("polyline")
    assert [float(point.split(",")[0]) for point in curve.get("points").split()] == [50, 468]


@pytest.mark.parametrize("most", [1, 5_000, 20_000, 2_000_000])
def test_the_name_of_an_axis_does_not_lie_on_its_labels(most):
    chart = Chart("a", x=(0, 10), y=(0, most), y_label="messages not read")
    drawn = ET.fromstring(chart.svg())
    labels = [text for text in drawn.iter("text") if text.get("text-anchor") == "end"]
    (name,) = [text for text in drawn.iter("text") if text.text == "messages not read"]
    widest = max(len(label.text) * 7.2 for label in labels)
    begins = min(float(label.get("x")) for label in labels) - widest
    assert begins >= float(name.get("x")) + 4, "the turned text reaches a little below its base"


# ── The picture


def test_the_picture_has_the_size_that_was_asked_for_and_ink_on_it(tmp_path):
    path = tmp_path / "story.png"
    path.write_bytes(png_report(full_story(), dpi=50))
    pixels = imread(path)
    assert pixels.shape[:2] == (500, 600)
    assert pixels[..., :3].min() < 0.3
    assert pixels[..., :3].mean() > 0.9
