"""The generator's answer is read for what it says, and for what it admits."""

import json
import shutil

import pytest
from benchmarks import generator
from benchmarks.generator import GeneratorError, Load

CLEAN = {
    "sent": 10,
    "delivered_per_s": 5.0,
    "lost": 0,
    "duplicated": 0,
    "reordered": 0,
    "seconds": 2.0,
    "broker_cpu_s": 1.9,
    "generator_cpu_s": 1.0,
}


def load(**changes):
    return Load.parse(json.dumps(CLEAN | changes))


def test_figures_are_found_by_their_names():
    assert load()["delivered_per_s"] == 5.0


def test_a_figure_that_is_missing_is_named():
    with pytest.raises(GeneratorError, match="p50_us"):
        load()["p50_us"]


@pytest.mark.parametrize("text", ["", "sent 5", "[1]", '{"sent":'])
def test_an_answer_that_is_not_an_object_is_refused(text):
    with pytest.raises(GeneratorError):
        Load.parse(text)


def test_a_clean_run_has_no_flaws():
    assert load().flaws == []


def test_losses_duplicates_and_reorderings_are_flaws():
    assert load(lost=1200, reordered=3).flaws == ["lost 1,200", "reordered 3"]


def test_idle_connections_alone_have_no_flaws_and_no_bound():
    alone = Load.parse('{"background":2000,"bytes_per_connection":700}')
    assert alone.flaws == []
    assert not alone.generator_bound


@pytest.mark.parametrize(
    ("generator_s", "broker_s", "bound"),
    [(1.9, 1.0, True), (1.9, 1.9, False), (1.0, 1.0, False), (1.0, 1.9, False)],
)
def test_the_generator_is_the_limit_only_while_the_broker_has_time(generator_s, broker_s, bound):
    assert load(generator_cpu_s=generator_s, broker_cpu_s=broker_s).generator_bound is bound


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(generator, "PROGRAM", tmp_path / "mqload")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(GeneratorError, match="install"):
        generator.compiled()
