"""The runtime core on the fake driver: loading, launching, memory, errors, contexts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakecuda import Core, build_fake

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
    used = set(names(core.log())) - {"cuCtxGetDevice", "cuMemFreeAsync"}
    assert used == {function for function, _ in injected()}


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


# ------------------------------------------------------------------ loading


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            NO_BINARY, ["Fake GPU (device 0, compute capability 9.0)", "sm_80 (cubin), sm_90a (cubin)"], id="gpu"
        ),
        pytest.param(
            218, ["cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX (218)", "driver's log: line 3: oops"], id="jit"
        ),
    ],
)
def test_load_errors(core: Core, code: int, expected: list[str]) -> None:
    core.fake("fail", "cuModuleLoadDataEx", 1, code)
    core.fake("set_jit_log", "line 3: oops\n")
    result = core.call(LAUNCH)
    assert result.code == code
    assert result.message.startswith("pack.kernels: ")
    for text in expected:
        assert text in result.message
    assert core.call(LAUNCH).code == 0, "a load that failed is tried again"


@pytest.mark.parametrize("core", [{"driver": 12040}], indirect=True)
@pytest.mark.parametrize("code", [200, 209, 218, 222])
def test_old_driver_is_named(core: Core, code: int) -> None:
    core.fake("fail", "cuModuleLoadDataEx", 1, code)
    message = core.call(LAUNCH).message
    assert "needs a driver for CUDA 13.0 or later, this one supports CUDA 12.4" in message
    assert "ptxas 13.5" in message


def test_kernel_that_the_image_lacks(core: Core) -> None:
    core.fake("hide_function", "m__hopper_only")
    assert core.call(LAUNCH).code == 0
    result = core.call("launch 2 1 1 1 1 1 1")
    assert result.code == 500
    assert "kernel hopper_only of pack.kernels is not in the image that the driver took for Fake GPU" in result.message


def test_load_in_a_capture_is_relaxed(core: Core) -> None:
    core.call(LAUNCH)
    assert "cuModuleLoadDataEx mode 2" in core.log()


def test_preload(core: Core) -> None:
    assert core.ask("preload")["code"] == 0
    core.log()
    core.call(LAUNCH)
    assert "cuModuleLoadDataEx" not in names(core.log())


def test_sources_load_apart(core: Core) -> None:
    core.call(LAUNCH)
    core.log()
    assert core.call(f"other | {LAUNCH} | other").code == 0
    assert names(core.log()).count("cuModuleLoadDataEx") == 1


def test_threads_load_once_and_do_not_disturb_each_other(core: Core) -> None:
    script = f"alloc 400 | poke $0 5 | {LAUNCH} | load32 $0 | alloc 8 | free $0"
    assert core.ask("threads", 4, 100, script, READS) == [0, 0, 0, 0]
    log = names(core.log())
    assert (log.count("cuModuleLoadDataEx"), log.count("cuMemPoolCreate"), log.count("cuInit")) == (1, 1, 1)
    assert (live(core), core.fake("bad_frees")) == (0, 0)


def test_kernel_called_from_c(core: Core) -> None:
    assert core.ask("kernel", 0, [2, 1, 1, 64, 1, 1, 0, 0, 0, 0])["code"] == 0
    failed = core.ask("kernel", 1, [2, 1, 1, 64, 1, 1, 0, 0, 0, 0])
    assert (failed["code"], "compiled for blocks" in failed["message"]) == (E_LIMIT, True)
    assert core.ask("kernel", 0, [0, 1, 1, 64, 1, 1, 0, 0, 0, 0])["code"] == 0


# ------------------------------------------------------------------ clusters


@pytest.mark.parametrize(
    ("cluster", "line"),
    [
        pytest.param("1 1 1", "cuLaunchKernel m__square grid 16x1x1 block 32x1x1 shared 0 s0", id="of one"),
        pytest.param("2 1 1", "cuLaunchKernelEx m__square grid 16x1x1 block 32x1x1 cluster 2x1x1 shared 0 s0", id="2"),
    ],
)
def test_clusters(core: Core, cluster: str, line: str) -> None:
    core.call(LAUNCH)
    core.log()
    assert core.call(f"launch 0 16 1 1 32 1 1 0 {cluster}").code == 0
    assert core.log()[-1] == line


def test_large_clusters_are_opted_in(core: Core) -> None:
    core.call(LAUNCH)
    core.log()
    assert core.call("launch 0 16 1 1 32 1 1 0 16 1 1").code == 0
    assert core.log()[1:] == [
        "cuFuncSetAttribute 14 1 m__square",
        "cuLaunchKernelEx m__square grid 16x1x1 block 32x1x1 cluster 16x1x1 shared 0 s0",
    ]


# ------------------------------------------------------------------ captures


@pytest.mark.parametrize(
    ("flags", "script", "message"),
    [
        pytest.param(READS, "alloc 4 | load32 $0", "host code reads device memory", id="declared read"),
        pytest.param(0, "alloc 4 | load32 $0", "host code reads device memory", id="read"),
        pytest.param(HOST_SYNC, "stream | sync $0", "host code waits for the device", id="wait"),
    ],
)
def test_waiting_in_a_capture_is_refused_before_it_breaks(core: Core, flags: int, script: str, message: str) -> None:
    stream = core.ask("new_stream") if core.call("alloc 4").code == 0 else 0
    core.fake("capture", stream, 1)
    result = core.call(script, flags=flags, stream=stream)
    assert (result.code, message in result.message) == (E_CAPTURE, True)
    assert "cuStreamSynchronize" not in " ".join(core.log())
    assert core.call(f"alloc 4 | {LAUNCH}", flags=MESSAGES, stream=stream).code == 0, "others can be captured"
    assert "cuStreamSynchronize" not in " ".join(core.log())


# ------------------------------------------------------------------ contexts and devices


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_two_devices(core: Core) -> None:
    for device in (0, 1, 0, 1):
        assert core.call(f"alloc 4 | {LAUNCH}", device=device).code == 0
    log = names(core.log())
    assert (log.count("cuModuleLoadDataEx"), log.count("cuMemPoolCreate")) == (2, 2)
    assert core.call("alloc 4", device=2).message == "there is no CUDA device 2"
    assert live(core) == 0


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_callers_context_comes_back(core: Core) -> None:
    core.call("alloc 4", device=0)
    before = core.ask("current")
    core.call("alloc 4", device=1)
    assert core.ask("current") == before


def test_own_context_is_used_and_its_handle_may_come_back(core: Core) -> None:
    core.call(LAUNCH)
    mine = core.fake("context_new", 0, 0)
    core.ask("use_context", mine)
    core.log()
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    assert names(core.log()).count("cuModuleLoadDataEx") == 1
    core.fake("context_destroy", mine)
    again = core.fake("context_new", 0, 0)
    assert again == mine, "the fake reuses handles, as the driver does"
    core.ask("use_context", again)
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    log = names(core.log())
    assert log.count("cuModuleLoadDataEx") == 1, "another context: loaded anew"
    assert "cuMemPoolCreate" not in log, "a pool is the device's"


def test_primary_context_that_was_reset_is_taken_again(core: Core) -> None:
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    core.fake("context_destroy", core.ask("current"))
    core.log()
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    log = names(core.log())
    assert (log.count("cuDevicePrimaryCtxRetain"), log.count("cuModuleLoadDataEx")) == (1, 1)


def test_forked_child_gets_an_error(core: Core) -> None:
    assert core.call(LAUNCH).code == 0
    child = core.ask("in_child", LAUNCH)
    assert child["code"] == E_FORKED
    assert "spawn" in child["message"]
    assert core.call(LAUNCH).code == 0


def test_fork_before_first_use_is_fine(core: Core) -> None:
    assert core.ask("in_child", LAUNCH)["code"] == 0


# ------------------------------------------------------------------ other drivers

OPTIONAL = (
    "cuCtxGetId",
    "cuFuncLoad",
    "cuLaunchKernelEx",
    "cuMemPoolCreate",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuTensorMapEncodeTiled",
)


def test_driver_without_the_optional_entries(core_library: Path, tmp_path: Path) -> None:
    core = Core(core_library, build_fake(tmp_path / "old", OPTIONAL), {"driver": 11010})
    assert core.call(f"alloc 4 | {LAUNCH} | free $0 | alloc 8").code == 0
    assert "cuMemFree_v2 m2" in core.log()
    message = core.call("launch 0 2 1 1 1 1 1 0 2 1 1").message
    assert "cuLaunchKernelEx needs an NVIDIA driver for CUDA 11.8 or later; this one supports CUDA 11.1" in message
    result = core.call("alloc 4096 | tma $0 0 64 64 64 64 8 0 2 7")
    assert (result.code, "CUDA 12.0 or later" in result.message) == (E_UNSUPPORTED, True)
    core.stop()


@pytest.mark.parametrize("core", [{"pools": 0}], indirect=True)
def test_device_without_pools_waits_before_it_frees(core: Core) -> None:
    assert core.call("alloc 4 | free $0").code == 0
    assert core.log()[-4:] == [
        "cuMemAlloc_v2 4",
        "cuPointerGetAttribute m1 9",
        "cuStreamSynchronize s0",
        "cuMemFree_v2 m1",
    ]


def test_trim_gives_the_pool_back(core: Core) -> None:
    core.call("alloc 4")
    assert core.ask("core", "pool_trim", 0) == 0
    assert core.log()[-1] == "cuMemPoolTrimTo pool1 0"


def test_entry_that_every_driver_must_have(core_library: Path, tmp_path: Path) -> None:
    core = Core(core_library, build_fake(tmp_path / "broken", ["cuStreamIsCapturing"]))
    result = core.call(LAUNCH)
    assert (result.code, "no cuStreamIsCapturing (CUDA 10.0" in result.message) == (E_NO_DRIVER, True)
    core.stop()


def test_library_that_cannot_be_opened(core_library: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    core = Core(core_library, tmp_path, steered=False)
    for result in (core.call(LAUNCH), core.call(LAUNCH)):
        assert (result.code, result.message.startswith("no NVIDIA driver on this machine: ")) == (E_NO_DRIVER, True)
    core.stop()


@pytest.mark.parametrize("core", [{"devices": 0}], indirect=True)
def test_no_device(core: Core) -> None:
    assert core.call(LAUNCH).message == "cuInit failed: CUDA_ERROR_NO_DEVICE (100), text of the driver"
