"""The clients are measured beside the generator, each on a broker of its own."""

import json
import shutil

import pytest
from benchmarks import clients

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("gcc") or shutil.which("cc")), reason="the generator is a C program"
    ),
]


@pytest.mark.parametrize("part", ["produce", "push", "micropython"])
def test_each_client_that_is_there_is_compared_with_the_generator(part, tmp_path, capsys):
    options = ["--rounds", "2", "--seconds", "0.05", "--data-dir", str(tmp_path)]
    assert clients.main([part, *options]) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines[0]["client"] == "mqload"
    assert lines[0]["ratios"] == [1, 1]
    there = {one.name for one in clients.PARTS[part] if not one.missing()}
    assert {line["client"] for line in lines} == there
    assert all(line["per_s"] > 0 and line["client_cpu_us"] > 0 for line in lines)
    assert all(f"left out: {one.name}" in said.err for one in clients.PARTS[part] if one.missing())


def test_a_part_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        clients.main(["telnet"])
    assert "no such part: telnet" in capsys.readouterr().err
