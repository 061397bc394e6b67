"""Programs of odd forms as CPU code: the sources and checks of test_tensor_programs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import cpucall
import pytest
from test_tensor_programs import CHECKS, FOLDER


@dataclass(frozen=True)
class Outcome:
    """As the checks know it. On the CPU nothing is read from a device."""

    results: list[Any]
    swept: int
    allocations: int
    loads: int = 0


@dataclass(frozen=True)
class Program:
    inner: cpucall.Program

    def call(self, name: str, *arguments: Any) -> Outcome:
        done = self.inner.call(name, *arguments)
        return Outcome(done.results, done.swept, done.allocations)


@functools.cache
def program(name: str, variant: str) -> Program:
    return Program(cpucall.build((FOLDER / f"{name}.mlir").read_text(), variant))


VARIANTS = cpucall.runnable()
NAMES = sorted(path.stem for path in FOLDER.glob("*.mlir"))


# What is odd about them is the same for all processors: they take turns.
@pytest.mark.parametrize(("name", "variant"), [(name, VARIANTS[k % len(VARIANTS)]) for k, name in enumerate(NAMES)])
def test_program(name: str, variant: str) -> None:
    CHECKS[name](program(name, variant))  # type: ignore[arg-type]
