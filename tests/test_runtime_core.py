"""The runtime core on the fake driver: loading, launching, memory, errors, contexts."""

from __future__ import annotations

import pytest
from fakecuda import Core

READS, HOST_SYNC, MESSAGES, FORK, SERIAL = 1, 2, 4, 8, 16
ARRAY_ARGUMENT = 1 << 16
OUT_OF_MEMORY, NO_BINARY, ASSERT_FAILED, LAUNCH_FAILED = 2, 209, 710, 719
E_ASSERT, E_SIZE, E_LIMIT, E_INTERNAL, E_NO_DRIVER, E_FORKED, E_CAPTURE, E_UNSUPPORTED = -1, -2, -3, -4, -6, -8, -9, -10
LAUNCH = "launch 0 2 1 1 64 1 1"


def names(log: list[str]) -> list[str]:
    return [line.split()[0] for line in log]


def live(core: Core) -> int:
    return core.fake("live", 0)


# ------------------------------------------------------------------ order of driver calls


def test_first_call_loads_everything_and_the_next_is_short(core: Core) -> None:
    script = f"alloc 400 | {LAUNCH} | free $0"
    assert core.call(script).code == 0
    first = core.log()
    assert first[0] == "cuInit 0"
    assert names(first).count("cuModuleLoadDataEx") == 1
    assert [line.split()[1] for line in first if line.startswith("cuFuncLoad")] == [
        "m__square",
        "m__fixed",
        "m__hopper_only",
    ]
    assert core.call(script).code == 0
    assert core.log() == [
        "cuCtxGetId",
        "cuMemAllocFromPoolAsync 400 pool1 s0",
        "cuLaunchKernel m__square grid 2x1x1 block 64x1x1 shared 0 s0",
        "cuMemFreeAsync m2 s0",
    ]


@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [
        pytest.param(LAUNCH, 0, ["cuLaunchKernel"], id="a launch waits for nothing"),
        pytest.param(LAUNCH + " 0 0 0 0 0 1", 0, ["cuLaunchKernel"], id="nor one that is synchronous in the source"),
        pytest.param(
            LAUNCH + " 0 0 0 0 0 1",
            HOST_SYNC,
            ["cuStreamIsCapturing", "cuLaunchKernel", "cuStreamIsCapturing", "cuStreamSynchronize"],
            id="unless host code needs it",
        ),
        pytest.param(
            f"{LAUNCH} | {LAUNCH}",
            MESSAGES,
            ["cuLaunchKernel", "cuLaunchKernel", "cuStreamIsCapturing", "cuStreamSynchronize"],
            id="messages: one wait at the end",
        ),
        pytest.param("say", MESSAGES, [], id="messages of a call that launched nothing"),
        pytest.param("launch 0 0 1 1 64 1 1", 0, [], id="zero grid x"),
        pytest.param("launch 0 1 1 0 0 0 0", 0, [], id="zero grid z, block computed from it"),
        pytest.param("launch 0 5 0 1 64 1 1 0 2 1 1", 0, [], id="zero grid with clusters"),
        pytest.param("alloc 0 | free $0", 0, ["cuMemAllocFromPoolAsync", "cuMemFreeAsync"], id="empty array"),
        pytest.param("alloc 4", 0, ["cuMemAllocFromPoolAsync", "cuMemFreeAsync"], id="what is left is swept"),
        pytest.param("stream | event | record $1 $0 | waitevent $0 $1 | sync $0 | destroy $0", 0, [], id="one stream"),
        pytest.param("record 12345 0 | waitevent 0 999 | eventsync 77 | eventdestroy 5", SERIAL, [], id="stale events"),
        pytest.param("eventdestroy 5", SERIAL | FORK, [], id="serial wins over fork"),
    ],
)
def test_driver_calls(core: Core, script: str, flags: int, expected: list[str]) -> None:
    assert core.call(LAUNCH + " | alloc 1").code == 0
    core.log()
    result = core.call(script, flags=flags)
    assert (result.code, result.message) == (0, "")
    assert names(core.log()) == ["cuCtxGetId", *expected]
    assert live(core) == 0


def test_empty_allocations_differ(core: Core) -> None:
    values = core.call("alloc 0 | alloc 0").values
    assert values[0] != values[1]


def test_host_reads(core: Core) -> None:
    script = "alloc 8 | poke $0 -2 | load8 $0 | load16 $0 | load32 $0 | load64 $0"
    values = core.call(script, flags=READS).values
    assert values[2:] == [-2, -2, -2, -0x3232323200000002]


def test_more_buffers_than_the_frame_has_room_for(core: Core) -> None:
    assert core.call(" | ".join(["alloc 4"] * 50)).code == 0
    assert live(core) == 0


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        pytest.param("launch 0 2147483648 1 1 1 1 1", E_LIMIT, "grid 2147483648 x 1 x 1", id="grid x"),
        pytest.param("launch 0 1 65536 1 1 1 1", E_LIMIT, "1 x 65536 x 1 is outside the limits 2147483647", id="y"),
        pytest.param(
            "launch 0 1 1 1 1 1 1 | launch 0 -9223372036854775808 1 1 1 1 1",
            E_LIMIT,
            "grid -9223372036854775808 x 1 x 1",
            id="least grid",
        ),
        pytest.param("launch 0 1 1 65536 1 1 1", E_LIMIT, "2147483647 x 65535 x 65535", id="grid z"),
        pytest.param("launch 0 0 -1 1 1 1 1", E_LIMIT, "grid 0 x -1 x 1", id="negative grid"),
        pytest.param("launch 0 1 1 1 1025 1 1", E_LIMIT, "block 1025 x 1 x 1", id="block x"),
        pytest.param("launch 0 1 1 1 1 1 65", E_LIMIT, "limits 1024 x 1024 x 64", id="block z"),
        pytest.param("launch 0 1 1 1 0 1 1", E_LIMIT, "block 0 x 1 x 1", id="zero block"),
        pytest.param("launch 0 1 1 1 64 32 1", E_LIMIT, "2048 threads, the limit is 1024", id="threads"),
        pytest.param("launch 0 1 1 1 1 1 1 232449", E_LIMIT, "232449 bytes of dynamic and 0 of static", id="shared"),
        pytest.param("launch 0 1 1 1 1 1 1 -1", E_SIZE, "negative size", id="negative shared"),
        pytest.param("launch 1 1 1 1 64 1 1", E_LIMIT, "blocks of 128 x 1 x 1 threads, got 64 x 1 x 1", id="required"),
        pytest.param("launch 0 3 1 1 1 1 1 0 2 1 1", E_LIMIT, "clusters of 2 x 1 x 1", id="indivisible cluster"),
        pytest.param("launch 0 16 16 1 1 1 1 0 16 2 1", E_LIMIT, "more than 16 blocks", id="big cluster"),
        pytest.param("launch 9 1 1 1 1 1 1", E_INTERNAL, "no kernel number 9", id="no such kernel"),
        pytest.param("alloc -1", E_SIZE, "negative size", id="negative allocation"),
        pytest.param("result 0 -4", E_SIZE, "negative size", id="negative extent"),
        pytest.param("host -1", E_SIZE, "negative size", id="negative host allocation"),
        pytest.param("gpualloc -1", E_SIZE, "negative size", id="negative gpu.alloc"),
        pytest.param("alloc 4 | free $0 | free $0", E_INTERNAL, "does not own", id="double free"),
        pytest.param("host 4 | free $0", E_INTERNAL, "does not own", id="free of host memory"),
        pytest.param("alloc 4 | hostfree $0", E_INTERNAL, "does not own", id="host free of device memory"),
        pytest.param("alloc 4 | assert 0 0", E_ASSERT, "sizes differ", id="host assertion"),
        pytest.param(
            "alloc 4 | refuse 1 -1 9223372036854775807 3 4 5",
            E_SIZE,
            "x (-1) and 9223372036854775807 of 34 {5} in a{}.mlir, {}",
            id="numbers in a text",
        ),
        pytest.param("alloc 4 | host 4 | oops 3", E_INTERNAL, "oops 3", id="any error"),
        pytest.param("failresult -5 | result 0 4", -5, "no memory for result 0", id="callback fails"),
    ],
)
def test_errors_end_the_call_and_leave_nothing(core: Core, script: str, code: int, message: str) -> None:
    result = core.call(script)
    assert result.code == code
    assert message in result.message
    assert live(core) == 0
    assert core.call(f"assert 1 0 | alloc 4 | {LAUNCH}").code == 0


@pytest.mark.parametrize("core", [{"max_threads": 640, "static_shared": 1000, "optin_shared": 101376}], indirect=True)
def test_limits_of_a_kernel_are_named(core: Core) -> None:
    assert "the limit is 640 for this kernel" in core.call("launch 0 1 1 1 641 1 1").message
    message = core.call("launch 0 1 1 1 1 1 1 100377").message
    assert "100377 bytes of dynamic and 1000 of static shared memory a block are more than the 101376" in message
    assert core.call("launch 0 1 1 1 640 1 1 100376").code == 0


def test_out_of_memory_names_sizes(core: Core) -> None:
    result = core.call("alloc 5000000000")
    assert result.code == OUT_OF_MEMORY
    assert "5000000000 bytes were asked for on device 0, 4294967296 of 4294967296 are free" in result.message
    assert core.call("alloc 5000").code == 0


def injected() -> list[tuple[str, int]]:
    """Each driver call of a first call that allocates, launches, reads and returns, by function and turn."""
    once = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemPoolCreate"]
    once += ["cuMemPoolSetAttribute", "cuModuleLoadDataEx", "cuFuncLoad", "cuFuncSetAttribute", "cuLaunchKernel"]
    once += ["cuStreamIsCapturing", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuModuleGetFunction", "cuCtxGetId"]
    once += ["cuCtxGetCurrent"]
    twice = ["cuMemAllocFromPoolAsync", "cuDeviceGetAttribute", "cuFuncGetAttribute"]
    pairs = [(name, 1) for name in once + twice] + [(name, 2) for name in twice] + [("cuFuncLoad", 3)]
    return pairs + [("cuThreadExchangeStreamCaptureMode", turn) for turn in (1, 2, 3, 4)]


EVERYTHING = f"alloc 400 | {LAUNCH} | load32 $0 | result 0 40 | alloc 8"


@pytest.mark.parametrize(("function", "turn"), injected(), ids=lambda v: str(v))
def test_each_driver_call_may_fail(core: Core, function: str, turn: int) -> None:
    core.fake("fail", function, turn, LAUNCH_FAILED)
    result = core.call(EVERYTHING, flags=READS)
    assert result.code == LAUNCH_FAILED
    assert function.removesuffix("_v2") in result.message
    assert "CUDA_ERROR_LAUNCH_FAILED (719)" in result.message
    assert "has to be restarted" in result.message
    assert live(core) == 0
    assert core.call(EVERYTHING, flags=READS).code == 0
    assert live(core) == 0


def test_injection_covers_all_calls(core: Core) -> None:
    core.call(EVERYTHING, flags=READS)
    used = set(names(core.log())) - {"cuCtxGetDevice", "cuMemFreeAsync", "cuModuleGetGlobal_v2"}
    assert used == {function for function, _ in injected()}


@pytest.mark.parametrize("core", [{"image": 1}], indirect=True)
@pytest.mark.parametrize(
    "function", ["", "cuModuleGetGlobal_v2", "cuStreamCreate", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"]
)
def test_not_knowing_the_image_is_no_error(core: Core, function: str) -> None:
    if function:
        core.fake("fail", function, 1, LAUNCH_FAILED)
    assert core.call(LAUNCH).code == 0
    found = names(core.log())
    assert "cuModuleGetGlobal_v2" in found
    assert found.count("cuStreamCreate") - (function == "cuStreamCreate") == found.count("cuStreamDestroy_v2")
    assert found[-1] == "cuLaunchKernel"


def test_error_while_sweeping_is_reported(core: Core) -> None:
    core.fake("fail", "cuMemFreeAsync", 1, LAUNCH_FAILED)
    result = core.call("alloc 4 | alloc 4")
    assert (result.code, "cuMemFreeAsync failed" in result.message) == (LAUNCH_FAILED, True)
    assert live(core) == 1, "only the one whose free failed"


def test_first_error_is_kept(core: Core) -> None:
    core.call("alloc 4")
    core.fake("fail", "cuMemFreeAsync", 0, LAUNCH_FAILED)
    assert core.call("alloc 4 | assert 0 0").message == "sizes differ"


def test_launch_error_names_kernel_and_geometry(core: Core) -> None:
    core.fake("fail", "cuLaunchKernel", 1, 701)
    message = core.call("launch 0 2 3 4 64 1 1 16").message
    assert "cuLaunchKernel of square, grid 2 x 3 x 4, block 64 x 1 x 1, 16 bytes shared failed" in message
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)" in message


def test_assertion_in_a_kernel_says_that_the_context_is_lost(core: Core) -> None:
    core.fake("fail", "cuStreamSynchronize", 1, ASSERT_FAILED)
    result = core.call(LAUNCH, flags=MESSAGES)
    assert result.code == ASSERT_FAILED
    assert "assertion in a kernel failed" in result.message
    assert "context of this process is lost" in result.message


@pytest.mark.slow
@pytest.mark.parametrize("script", ["alloc 4 | host 8 | assert 0 0", "alloc 4 | alloc -1", "stream | event | oops 1"])
@pytest.mark.parametrize("flags", [0, FORK, HOST_SYNC])
def test_a_thousand_failing_calls_leave_nothing(core: Core, script: str, flags: int) -> None:
    core.call(script, flags=flags)
    streams = core.fake("live_streams")
    assert core.ask("repeat", 1000, script, flags) == 1000
    assert (live(core), core.fake("live_events"), core.fake("bad_frees")) == (0, streams, 0)
    assert core.fake("live_streams") == streams
