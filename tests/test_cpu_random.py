"""Random programs as CPU code, against NumPy: loops, branches and elementwise work around destructive updates."""

from __future__ import annotations

import cpucall
import pytest
from randomprogram import check, make


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_program(seed: int) -> None:
    program = make(seed)
    built = cpucall.build(program.text, cpucall.runnable()[-1])
    check(seed, program, built.functions, built.call)
