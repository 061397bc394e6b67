"""1000 calls of each function leave free device memory as it was. Run alone on the GPU: `pytest -n0`."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import pytest
from case_calls import CASES
from example_calls import EXAMPLES
from gpu_calls import Call, arguments, function, to_torch
from hazard_calls import HAZARDS

WARM, COUNTED = 100, 1000


def representatives(calls: list[Call]) -> list[Call]:
    """The last call of each function: the tables put larger shapes last."""
    return list({(call.source, call.function): call for call in calls}.values())


def free_memory(torch: Any, package: ModuleType) -> int:
    """Bytes free on the device when nothing is queued and no cache holds anything."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    trim = getattr(package, "_trim", None)
    if trim is not None:
        trim()
    return int(torch.cuda.mem_get_info()[0])


def check_steady(torch: Any, package: ModuleType, call: Call) -> None:
    device = tuple(to_torch(a) for a in arguments(call))
    run = function(package, call)
    for _ in range(WARM):
        run(*device, **call.keywords)
    before = free_memory(torch, package)
    for _ in range(COUNTED):
        run(*device, **call.keywords)
    after = free_memory(torch, package)
    assert after == before, f"{before - after} bytes gone after {COUNTED} calls"


@pytest.mark.parametrize("call", representatives(EXAMPLES), ids=lambda c: f"{c.source}.{c.function}")
def test_example_keeps_no_memory(demo: ModuleType, torch: Any, needs: Any, call: Call) -> None:
    needs(call.capability)
    check_steady(torch, demo, call)


@pytest.mark.parametrize("call", representatives(CASES), ids=lambda c: f"{c.source}.{c.function}")
def test_case_keeps_no_memory(cases: ModuleType, torch: Any, call: Call) -> None:
    check_steady(torch, cases, call)


@pytest.mark.parametrize("call", representatives(HAZARDS), ids=lambda c: f"{c.source}.{c.function}")
def test_hazard_keeps_no_memory(hazards: ModuleType, torch: Any, needs: Any, call: Call) -> None:
    needs(call.capability)
    check_steady(torch, hazards, call)


def test_printing_keeps_no_memory(demo: ModuleType, torch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        pass
    demo.hello.hello()
    before = free_memory(torch, demo)
    for _ in range(COUNTED):
        demo.hello.hello()
    assert free_memory(torch, demo) == before
    capfd.readouterr()


@pytest.mark.parametrize("lengths", [(4, 5), (4, 4)], ids=["before any work", "with work queued"])
def test_failing_calls_keep_no_memory(hazards: ModuleType, torch: Any, lengths: tuple[int, int]) -> None:
    a, b = (torch.zeros(n, device="cuda") for n in lengths)

    def fail(count: int) -> int:
        for _ in range(count):
            with pytest.raises(RuntimeError):
                hazards.checks.divided(a, b)
        return free_memory(torch, hazards)

    assert fail(WARM) == fail(COUNTED)
