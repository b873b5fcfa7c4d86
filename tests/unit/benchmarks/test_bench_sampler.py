"""The sampler counts the innermost line once, and every function above it once."""

import sys

from benchmarks.sampler import Sampler


def nested(depth, sampler):
    if depth:
        nested(depth - 1, sampler)
    else:
        sampler.count("loop", sys._getframe())


def test_a_function_that_calls_itself_is_counted_once():
    sampler = Sampler()
    nested(3, sampler)
    (line,) = sampler.own
    assert line.startswith("loop: benchmarks/test_bench_sampler.py:nested:")
    assert sampler.within["loop: benchmarks/test_bench_sampler.py:nested"] == 1
    assert sampler.samples == 1
