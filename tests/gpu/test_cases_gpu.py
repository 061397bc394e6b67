"""Every input of tests/cases gives NumPy's results."""

from __future__ import annotations

from types import ModuleType

import pytest
from case_calls import CASES
from gpu_calls import Call, check


@pytest.mark.parametrize("call", CASES, ids=lambda c: f"{c.source}.{c.function}-{c.id}")
def test_case(cases: ModuleType, call: Call) -> None:
    check(cases, call)


def test_printf(cases: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    cases.seed_printf.hello()
    assert sorted(capfd.readouterr().out.splitlines()) == ["Hello from 0", "Hello from 1"]
