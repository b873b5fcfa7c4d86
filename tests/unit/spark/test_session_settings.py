"""Precedence of a setting: the caller, then Spark's configuration, then our default."""

import pytest

from penstock.spark.session import SETTINGS, choose
from penstock.spark.spark_defaults import log_flag, settings_from_files

ZONE = "spark.sql.session.timeZone"


def test_ours_count_where_nobody_has_a_wish():
    chosen = choose({}, {})
    assert SETTINGS.items() <= chosen.items()
    assert chosen["spark.master"] == "local[*]"


def test_what_spark_was_set_up_with_is_left_alone():
    given = {ZONE: "Europe/Paris", "spark.master": "spark://far:7077"}
    assert not given.keys() & choose({}, given).keys()


def test_the_caller_comes_first():
    chosen = choose(
        {ZONE: "Asia/Tokyo", "spark.master": "local"}, {ZONE: "UTC", "spark.master": "yarn"}
    )
    assert (chosen[ZONE], chosen["spark.master"]) == ("Asia/Tokyo", "local")


@pytest.mark.parametrize(
    ("master", "parts"),
    [
        ("local", "1"),
        ("local[3]", "3"),
        ("local[4,2]", "4"),
        ("spark://far:7077", None),
        ("yarn", None),
    ],
)
def test_a_shuffle_on_this_machine_makes_a_part_per_core(master, parts):
    assert choose({"spark.master": master}, {}).get("spark.sql.shuffle.partitions") == parts


def test_only_on_this_machine_spark_keeps_to_the_loopback():
    assert choose({"spark.master": "local[*]"}, {})["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in choose({"spark.master": "spark://far:7077"}, {})


def test_the_file_of_defaults_is_read_as_spark_reads_it(tmp_path):
    lines = [
        "# spark.master no",
        "spark.master   local[7]",
        "spark.a=b=c",
        " spark.d: e f ",
        "",
        "odd",
    ]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    given = settings_from_files({"SPARK_CONF_DIR": str(tmp_path)})
    assert given == {"spark.master": "local[7]", "spark.a": "b=c", "spark.d": "e f"}


def test_options_for_submitting_come_before_the_file(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master yarn\nspark.x file\n")
    text = '--master local[1] --conf "spark.x=a b" -c spark.y=1 --conf=spark.z=2 pyspark-shell'
    given = settings_from_files({"SPARK_HOME": str(tmp_path), "PYSPARK_SUBMIT_ARGS": text})
    assert given == {"spark.master": "local[1]", "spark.x": "a b", "spark.y": "1", "spark.z": "2"}


def test_a_file_that_the_options_name_stands_for_the_usual_one(tmp_path):
    (tmp_path / "mine.conf").write_text("spark.x 1\n")
    text = f"--properties-file {tmp_path / 'mine.conf'} pyspark-shell"
    assert settings_from_files({"PYSPARK_SUBMIT_ARGS": text}) == {"spark.x": "1"}


def test_log_settings_are_ours_unless_somebody_has_others(tmp_path):
    environ = {"SPARK_CONF_DIR": str(tmp_path)}
    assert log_flag("-Xmx1g", environ).startswith('-Xmx1g "-Dlog4j2.configurationFile=file:///')
    theirs = "-Dlog4j.configurationFile=/etc/log.xml"
    assert log_flag(theirs, environ) == theirs
    (tmp_path / "log4j2.properties").touch()
    assert log_flag("-Xmx1g", environ) == "-Xmx1g"
