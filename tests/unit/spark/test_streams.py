"""Options that streams share are read as people write them."""

import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines.payloads import check_path
from penstock.spark.pipelines.streams import trigger_of


@pytest.mark.parametrize(
    ("when", "interval"),
    [
        ("available-now", None),
        ("continuous", "0 seconds"),
        ("10s", "10000 milliseconds"),
        ("5m", "300000 milliseconds"),
        ("500ms", "500 milliseconds"),
    ],
)
def test_when_to_work(when, interval):
    assert trigger_of(when) == interval


def test_a_trigger_that_is_none_says_what_there_is():
    with pytest.raises(ConfigError, match=r"(?s)'sometimes' must be a duration.*available-now"):
        trigger_of("sometimes")


@pytest.mark.parametrize("path", ["", "$", "$.", "temperature", "$temperature", "$." + "x" * 300])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ConfigError, match="path of a field"):
        check_path(path)
