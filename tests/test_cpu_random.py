"""Random programs as CPU code, against NumPy: loops, branches and elementwise work around destructive updates."""

from __future__ import annotations

import itertools

import cpucall
import numpy as np
import pytest
from randomprogram import SIZE, Case, make


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_program(seed: int) -> None:
    program = make(seed)
    built = cpucall.build(program.text, cpucall.runnable()[-1])
    roles = [argument.role for argument in built.functions[0].args]
    numbers = np.random.default_rng(seed)
    for p, q, n in itertools.product((False, True), (False, True), (0, 1, 3)):
        arrays = numbers.standard_normal((2, SIZE, SIZE)).astype("f4")
        expected = program.evaluate(*(each.astype("f8") for each in arrays), Case(p, q, n))
        given = [each.copy() for each in arrays]
        done = built.call("f", *given, p, q, n)
        for got, wanted in zip(done.results, expected, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-3, 1e-3)
        for before, after, role in zip(arrays, given, roles, strict=False):
            assert role == "destination" or np.array_equal(before, after)
        assert done.swept == 0
