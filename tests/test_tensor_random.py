"""Random programs: loops, branches and elementwise work around destructive updates, against NumPy.

``python tests/test_tensor_random.py FIRST LAST`` tries more seeds than a test run can.
"""

from __future__ import annotations

import sys

import cpurun
import pytest
from randomprogram import check, make

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(seed: int) -> None:
    program = make(seed)
    built = cpurun.build(program.text, backwards=seed % 2 == 1)
    check(seed, program, built.lowered.functions, built.call)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        print(number, flush=True)
        test_random_program(number)
