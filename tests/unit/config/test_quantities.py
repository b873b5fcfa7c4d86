"""Durations and sizes: what is read, what is written, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.units import unit_of, with_unit, without_unit


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("limits.session_expiry_s", "s"),
        ("limits.keep_alive_s_max", "s"),
        ("durability_interval_ms", "ms"),
        ("retention.bytes_max", "bytes"),
        ("journal.map_bytes_initial", "bytes"),
        ("limits.clients_max", ""),
        ("sys.s_total", "s"),
        ("bytes.clients_max", ""),
    ],
)
def test_the_unit_is_a_word_of_the_key_and_not_of_its_section(name, unit):
    assert unit_of(name) == unit


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("500ms", "ms", 500),
        ("10s", "ms", 10_000),
        ("1.5s", "ms", 1500),
        ("500ms", "s", 0.5),
        ("15m", "s", 900),
        ("24h", "s", 86_400),
        ("7d", "s", 604_800),
        (" 7 d ", "s", 604_800),
        ("12", "s", 12),
        ("12.5", "s", 12.5),
        ("10_000", "", 10_000),
        ("-1", "", -1),
        ("256KiB", "bytes", 262_144),
        ("1GiB", "bytes", 2**30),
        ("3TiB", "bytes", 3 * 2**40),
        ("17B", "bytes", 17),
    ],
)
def test_quantity_is_read_in_the_unit_of_the_key(text, unit, number):
    assert without_unit(text, unit) == number


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1MB", "bytes"),
        ("1kib", "bytes"),
        ("10s", "bytes"),
        ("1GiB", "s"),
        ("1w", "s"),
        ("10s", ""),
        ("", "s"),
        ("s", "s"),
        ("1e3", ""),
        ("٣", ""),
        ("9" * 5000, ""),
        ("1s2", "s"),
    ],
)
def test_what_is_no_quantity_of_that_kind_is_refused(text, unit):
    with pytest.raises(ValueError, match="must be a"):
        without_unit(text, unit)


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (86_400, "s", "1d"),
        (90, "s", "90s"),
        (0.1, "s", "100ms"),
        (0.0005, "s", "0.0005s"),
        (1_536, "bytes", "1_536B"),
        (262_144, "bytes", "256KiB"),
        (0, "bytes", "0"),
        (1_000_000, "", "1_000_000"),
        (10.0, "s", "10s"),
    ],
)
def test_quantity_is_written_with_the_largest_suffix_that_fits(number, unit, text):
    assert with_unit(number, unit) == text


@given(st.sampled_from(["s", "ms", "bytes", ""]), st.integers(0, 10**15))
def test_what_is_written_is_read_back(unit, number):
    assert without_unit(with_unit(number, unit), unit) == number
