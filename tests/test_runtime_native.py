"""Calls without Python, as C programs and XLA make them (native.c, c_call.c, ffi_xla.c), on the fake driver."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fakecuda import Core

POOLED = 1
E_LIMIT = -3
OUT_OF_MEMORY = 2


@pytest.fixture
def x(core: Core) -> int:
    """Eight floats on device 0, whose context is current."""
    assert core.call("alloc 4").code == 0
    address = core.ask("new_memory", 32)
    core.log()
    return int(address)


def twins(core: Core, x: int, devices: tuple[int, int] = (0, 0), stream: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = core.ask("twins", devices, x, 8, stream)
    return found


def test_results_belong_to_the_caller(core: Core, x: int) -> None:
    made = twins(core, x)
    assert (made["code"], core.fake("live", POOLED)) == (0, 2)
    assert [core.ask("give_back", 0, address) for address in made["values"]] == [0, 0]
    assert core.fake("live", POOLED) == 0


def test_results_are_freed_in_any_thread(core: Core, x: int) -> None:
    made = twins(core, x)
    assert [core.ask("give_back", 0, address, thread=True) for address in made["values"]] == [0, 0]
    assert (core.fake("live", POOLED), core.fake("bad_frees")) == (0, 0)


def test_a_call_that_fails_leaves_no_results(core: Core, x: int) -> None:
    core.fake("fail", "cuMemAllocFromPoolAsync", 2, OUT_OF_MEMORY)
    made = twins(core, x)
    assert (made["code"], made["values"]) == (OUT_OF_MEMORY, [0, 0])
    assert "CUDA_ERROR_OUT_OF_MEMORY (2): 32 bytes" in made["message"]
    assert core.fake("live", POOLED) == 0


@pytest.mark.parametrize("length", [-1, 1 << 61, (1 << 63) - 1])
def test_extents_that_no_array_has(core: Core, x: int, length: int) -> None:
    made = core.ask("twins", (0, 0), x, length)
    assert (made["code"], made["values"]) == (E_LIMIT, [0, 0])
    assert "argument 1 'x', tensor<?xf32>: got extents that no array has" in made["message"]


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_a_call_runs_where_its_arrays_lie(core: Core, x: int) -> None:
    assert core.call("alloc 4", device=1).code == 0
    current = core.ask("current")
    made = twins(core, x)
    assert made["code"] == 0
    assert core.ask("current") == current, "the caller's context is put back"
    assert any(line.startswith("cuMemAllocFromPoolAsync 32 pool1") for line in core.log()), "device 0's pool"


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_arrays_of_two_devices_are_refused(core: Core, x: int) -> None:
    made = twins(core, x, (0, 1))
    assert made["code"] == E_LIMIT
    assert re.search(
        r"kernels\.twins\(\): result 1 has device \{2, 1\}: all arrays must be on one CUDA device", made["message"]
    )


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_a_stream_of_another_device_is_refused(core: Core, x: int) -> None:
    stream = core.ask("new_stream")
    made = twins(core, x, (1, 1), stream)
    assert made["code"] == E_LIMIT
    assert "the stream is of device 0, the arrays are on device 1" in made["message"]


def test_xla_hands_in_what_is_written(core: Core, x: int) -> None:
    before, after = core.ask("new_memory", 32), core.ask("new_memory", 32)
    core.log()
    assert core.ask("filled", [x, before, after], 8) == {"code": 0, "message": ""}
    assert [line for line in core.log() if line.startswith("cuMemcpyAsync")] == ["cuMemcpyAsync m4 <- m3 32 s0"]
    assert core.ask("filled", [x, after, after], 8)["code"] == 0
    assert core.fake("count", "cuMemcpyAsync") == 0, "it is there already"


def test_xla_hears_the_drivers_error(core: Core, x: int) -> None:
    before, after = core.ask("new_memory", 32), core.ask("new_memory", 32)
    core.fake("fail", "cuMemcpyAsync", 1, 719)
    message = core.ask("filled", [x, before, after], 8)["message"]
    assert message.startswith("13: cuMemcpyAsync failed: CUDA_ERROR_LAUNCH_FAILED (719)")
