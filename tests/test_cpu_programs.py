"""Programs of odd forms as CPU code: the sources and checks of test_tensor_programs."""

from __future__ import annotations

import functools

import cpucall
import pytest
from test_tensor_programs import CHECKS, FOLDER


@functools.cache
def program(name: str, variant: str) -> cpucall.Program:
    return cpucall.build((FOLDER / f"{name}.mlir").read_text(), variant)


VARIANTS = cpucall.runnable()
NAMES = sorted(path.stem for path in FOLDER.glob("*.mlir"))


# What is odd about them is the same for all processors: they take turns.
@pytest.mark.parametrize(("name", "variant"), [(name, VARIANTS[k % len(VARIANTS)]) for k, name in enumerate(NAMES)])
def test_program(name: str, variant: str) -> None:
    CHECKS[name](program(name, variant))  # type: ignore[arg-type]
