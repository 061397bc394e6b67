"""Random programs: loops, branches and elementwise work around destructive updates, against NumPy.

``python tests/test_tensor_random.py FIRST LAST`` tries more seeds than a test run can.
"""

from __future__ import annotations

import itertools
import sys

import cpurun
import numpy as np
import pytest
from randomprogram import SIZE, Case, make

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(seed: int) -> None:
    program = make(seed)
    built = cpurun.build(program.text, backwards=seed % 2 == 1)
    roles = [argument.role for argument in built.lowered.functions[0].args]
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


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        print(number, flush=True)
        test_random_program(number)
