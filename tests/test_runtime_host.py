"""What launch-level host code calls: streams, events, memory, registration, TMA, printing, async, halves."""

from __future__ import annotations

import pytest
from fakecuda import Core

READS, HOST_SYNC, MESSAGES, FORK, SERIAL = 1, 2, 4, 8, 16
ARRAY_ARGUMENT = 1 << 16
E_INTERNAL, E_LIMIT, E_UNSUPPORTED = -4, -3, -10
ON_STREAM = "launch 0 1 1 1 32 1 1 0 0 0 0"


def warm(core: Core, flags: int = 0) -> None:
    """Everything that a first call does is done, and the log is empty."""
    assert core.call(f"alloc 4 | {ON_STREAM}", flags=flags).code == 0
    core.log()


def log_of(core: Core, script: str, **how: int) -> list[str]:
    """The driver calls of a call that succeeds and leaves nothing."""
    result = core.call(script, **how)
    assert (result.code, result.message) == (0, "")
    assert core.fake("live", 0) == 0
    return core.log()[1:]


# ------------------------------------------------------------------ streams and events


def test_chains_start_after_the_callers_stream_and_end_before_it(core: Core) -> None:
    warm(core)
    stream = core.ask("new_stream")
    core.log()
    script = f"stream | {ON_STREAM} $0 | stream | {ON_STREAM} $2 | sync $0"
    expected = [
        "cuStreamCreate 1",
        "cuEventCreate 2",
        "cuEventRecord e1 s1",
        "cuStreamWaitEvent s2 e1",
        "cuLaunchKernel m__square grid 1x1x1 block 32x1x1 shared 0 s2",
        "cuStreamCreate 1",
        "cuEventCreate 2",
        "cuEventRecord e2 s1",
        "cuStreamWaitEvent s3 e2",
        "cuLaunchKernel m__square grid 1x1x1 block 32x1x1 shared 0 s3",
        "cuEventRecord e1 s2",
        "cuStreamWaitEvent s1 e1",
        "cuEventRecord e2 s3",
        "cuStreamWaitEvent s1 e2",
    ]
    assert log_of(core, script, flags=FORK, stream=stream) == expected


def test_streams_of_chains_are_used_again(core: Core) -> None:
    for _ in range(3):
        assert core.call("stream | stream | stream", flags=FORK).code == 0
    assert core.fake("live_streams") == 3


def test_streams_of_chains_that_a_graph_captures_are_left_to_it(core: Core) -> None:
    warm(core)
    mine = core.ask("new_stream")

    def chain(caller: int) -> int:
        return core.call("stream", flags=FORK, stream=caller).values[0]

    captured = chain(mine)
    core.fake("capture", captured, 1)
    assert chain(mine) == captured, "a further call of the capture"
    other = chain(0)
    assert other != captured
    core.fake("capture", captured, 0)
    assert {chain(0), chain(0)} <= {captured, other}


def test_chains_are_joined_when_the_call_fails(core: Core) -> None:
    warm(core)
    result = core.call("stream | gpualloc 16 $0 | oops 1", flags=FORK)
    assert result.code == E_INTERNAL
    log = core.log()
    assert log.index("cuStreamWaitEvent s0 e1") < log.index("cuMemFreeAsync m2 s0")


def test_buffers_of_chains_are_freed_where_the_program_says(core: Core) -> None:
    warm(core)
    log = log_of(core, "stream | gpualloc 16 $0 | gpufree $1 $0", flags=FORK)
    assert [line for line in log if "m2" in line or "16" in line] == [
        "cuMemAllocFromPoolAsync 16 pool1 s1",
        "cuMemFreeAsync m2 s1",
    ]


def test_events_between_chains(core: Core) -> None:
    warm(core)
    script = "stream | stream | event | record $2 $0 | waitevent $1 $2 | eventsync $2 | eventdestroy $2"
    log = log_of(core, script, flags=FORK)
    middle = log[log.index("cuEventRecord e3 s1") :][:4]
    assert middle == [
        "cuEventRecord e3 s1",
        "cuStreamWaitEvent s2 e3",
        "cuStreamWaitEvent s0 e3",
        "cuEventDestroy_v2 e3",
    ]


def test_event_that_the_program_forgot(core: Core) -> None:
    assert core.call("event | event", flags=FORK).code == 0
    assert core.fake("live_events") == 0


def test_unknown_event_never_reaches_the_driver(core: Core) -> None:
    result = core.call("record 4660 0", flags=FORK)
    assert (result.code, "did not create (0x1234)" in result.message) == (E_INTERNAL, True)


@pytest.mark.parametrize(
    ("script", "flags", "stream_name"),
    [
        pytest.param("stream | sync $0", HOST_SYNC, "s0", id="caller's stream"),
        pytest.param("event | eventsync $0", HOST_SYNC, "s0", id="event without forks"),
        pytest.param("stream | sync $0", HOST_SYNC | FORK, "s1", id="chain"),
    ],
)
def test_host_sync_really_waits(core: Core, script: str, flags: int, stream_name: str) -> None:
    warm(core)
    assert f"cuStreamSynchronize {stream_name}" in log_of(core, script, flags=flags)


HOST_CALLS = (
    "stream | stream | event | record $2 $0 | waitevent $1 $2 | eventdestroy $2 | gpualloc 65536 $0"
    " | tma $6 0 64 128 128 32 16 1 0 6 | gpualloc 8 0 1 | memset32 $6 0 4 | memset16 $6 0 4"
    " | host 64 | register $11 4 4 4 | memcpy $6 $11 64 | unregister $11 4 4 4 | print $6 2 | sync $0"
)


@pytest.mark.parametrize(
    ("function", "turn"),
    [
        *((name, 1) for name in ("cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent")),
        *((name, 2) for name in ("cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent")),
        *((name, 3) for name in ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent")),
        *((name, 1) for name in ("cuTensorMapEncodeTiled", "cuMemcpyHtoDAsync_v2", "cuMemAllocManaged")),
        *((name, 1) for name in ("cuMemsetD32Async", "cuMemsetD16Async", "cuMemHostRegister_v2", "cuMemcpyAsync")),
        *((name, 1) for name in ("cuPointerGetAttribute", "cuMemcpyDtoHAsync_v2", "cuDeviceGetAttribute")),
        *((name, turn) for name in ("cuStreamIsCapturing", "cuStreamSynchronize") for turn in (1, 2, 3)),
    ],
    ids=str,
)
def test_each_host_call_may_fail(core: Core, function: str, turn: int) -> None:
    core.call("lowered 1 | alloc 1")
    core.fake("fail", function, turn, 719)
    result = core.call(HOST_CALLS, flags=FORK | HOST_SYNC)
    assert result.code == 719
    assert function.removesuffix("_v2") in result.message
    assert core.fake("live", 0) == 0
    assert core.call(HOST_CALLS, flags=FORK | HOST_SYNC).message == ""
    assert (core.fake("live", 0), core.fake("bad_frees")) == (0, 0)
    assert core.fake("live_events") == core.fake("live_streams"), "only those of the pooled chains"


# ------------------------------------------------------------------ memory


@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [
        pytest.param(
            "gpualloc 16 0 0 | memset32 $0 7 4 | memset16 $0 1 2 | gpufree $0",
            0,
            [
                "cuMemAllocFromPoolAsync 16 pool1 s0",
                "cuMemsetD32Async m2 4 s0",
                "cuMemsetD16Async m2 2 s0",
                "cuMemFreeAsync m2 s0",
            ],
            id="device",
        ),
        pytest.param("memset32 0 7 0 | memset16 0 1 0 | memcpy 0 0 0", 0, [], id="nothing to do"),
        pytest.param("gpufree 0 | hostfree 0", 0, [], id="free of null"),
        pytest.param("host 8 | hostfree $0 | host 8 64", 0, [], id="host memory is no driver's business"),
        pytest.param(
            "gpualloc 16 0 1 | gpufree $0",
            0,
            ["cuMemAllocManaged 16", "cuStreamIsCapturing s0", "cuStreamSynchronize s0", "cuMemFree_v2 m2"],
            id="shared memory is freed after a wait",
        ),
        pytest.param(
            "gpualloc 16 0 1",
            0,
            ["cuMemAllocManaged 16", "cuStreamIsCapturing s0", "cuStreamSynchronize s0", "cuMemFree_v2 m2"],
            id="swept",
        ),
        pytest.param(
            "host 8", HOST_SYNC, ["cuStreamIsCapturing s0"] * 2 + ["cuStreamSynchronize s0"], id="copies may run"
        ),
    ],
)
def test_memory_calls(core: Core, script: str, flags: int, expected: list[str]) -> None:
    warm(core)
    assert log_of(core, script, flags=flags) == expected


def test_copies_move_bytes(core: Core) -> None:
    result = core.call("host 8 | poke $0 9 | gpualloc 8 | memcpy $2 $0 8 | load32 $2")
    assert result.values[4] == 9


REGISTER = "host 64 | register $0 4 4 4"


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        pytest.param(f"{REGISTER} | unregister $0 4 4 4 | hostfree $0", 0, "", id="in order"),
        pytest.param(REGISTER, 0, "", id="left registered"),
        pytest.param(f"{REGISTER} | hostfree $0", 0, "", id="freed while registered"),
        pytest.param("host 64 | register $0 0 4 4 | unregister $0 0 4 4", 0, "", id="empty"),
        pytest.param(f"{REGISTER} | register $0 4 4 4", 712, "is registered already", id="twice"),
        pytest.param("host 64 | register $0 2 4 8", E_UNSUPPORTED, "axis 0 has stride 8, not 4", id="not dense"),
        pytest.param("host 64 | unregister $0 4 4 4", E_INTERNAL, "did not register", id="never registered"),
        pytest.param("host 64 | gpufree $0", E_INTERNAL, "did not allocate with gpu.alloc", id="gpu.dealloc of host"),
    ],
)
def test_registration(core: Core, script: str, code: int, message: str) -> None:
    result = core.call(script, flags=HOST_SYNC)
    assert result.code == code
    assert message in result.message
    assert core.fake("live", 0) == 0


@pytest.mark.parametrize("core", [{"registered_host": 0}], indirect=True)
def test_device_that_cannot_use_host_addresses(core: Core) -> None:
    result = core.call(REGISTER, flags=HOST_SYNC)
    assert (result.code, "cannot use host addresses" in result.message) == (E_UNSUPPORTED, True)


# ------------------------------------------------------------------ gpu.set_default_device


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_default_device_moves_the_call_and_those_after(core: Core) -> None:
    warm(core)
    before = core.ask("current")
    log = log_of(core, f"device 1 | gpualloc 8 | {ON_STREAM}")
    assert "cuMemPoolCreate device 1" in log
    assert core.ask("current") == before
    assert core.ask("default_device") == 1


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
@pytest.mark.parametrize(
    ("script", "flags", "code", "message"),
    [
        pytest.param("device 0", 0, 0, "", id="where it is"),
        pytest.param("device 2", 0, 101, "has 2 CUDA devices, numbered from 0", id="no such device"),
        pytest.param("device -1", 0, 101, "gpu.set_default_device -1", id="negative"),
        pytest.param("alloc 4 | device 1", 0, E_UNSUPPORTED, "it has used that device already", id="work done"),
        pytest.param("device 1", ARRAY_ARGUMENT, E_UNSUPPORTED, "its array arguments are there", id="arrays"),
    ],
)
def test_default_device_refusals(core: Core, script: str, flags: int, code: int, message: str) -> None:
    result = core.call(script, flags=flags)
    assert result.code == code
    assert message in result.message
    assert core.ask("default_device") == 0, "a refused device is not the next call's"


# ------------------------------------------------------------------ sources lowered elsewhere


def test_registered_module_is_loaded_at_its_first_launch(core: Core) -> None:
    warm(core)
    core.call("lowered 2 | lowered 3 | lowered 0 | loweredcluster 2 4")
    log = core.log()
    assert [line for line in log if "lowered" in line or line.startswith("cuModuleLoad")] == [
        "cuModuleLoadDataEx mode 2",
        "cuModuleGetFunction mod2 lowered",
        "cuFuncLoad lowered",
        "cuFuncGetAttribute 0 lowered",
        "cuFuncGetAttribute 1 lowered",
        "cuFuncSetAttribute 8 232448 lowered",
        "cuLaunchKernel lowered grid 2x1x1 block 32x1x1 shared 0 s0",
        "cuLaunchKernel lowered grid 3x1x1 block 32x1x1 shared 0 s0",
        "cuLaunchKernelEx lowered grid 4x1x1 block 32x1x1 cluster 2x1x1 shared 0 s0",
    ]


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_registered_module_in_two_contexts(core: Core) -> None:
    for device in (0, 1, 0, 1):
        assert core.call("lowered 1", device=device).code == 0
    assert sum(line.startswith("cuModuleLoadDataEx") for line in core.log()) == 2


@pytest.mark.parametrize("function", ["cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel"])
def test_registered_module_errors(core: Core, function: str) -> None:
    warm(core)
    core.fake("fail", function, 1, 719)
    assert function in core.call("lowered 1").message
    assert core.call("lowered 1").code == 0


# ------------------------------------------------------------------ TMA descriptors


def test_tma_descriptor(core: Core) -> None:
    script = "gpualloc 65536 | tma $0 64 64 128 128 32 16 3 0 6 | load64 $1"
    result = core.call(script)
    assert (result.code, result.message) == (0, "")
    assert result.values[2] == result.values[0] + 128, "the offset counts, in elements of f16"
    assert core.fake("live", 0) == 0
    assert core.fake("count", "cuMemcpyHtoDAsync_v2") == 1


def test_tma_descriptor_in_a_capture_does_not_copy_from_the_stack(core: Core) -> None:
    warm(core)
    stream = core.ask("new_stream")
    core.fake("capture", stream, 1)
    assert core.call("gpualloc 65536 | tma $0 0 64 128 128 32 16 3 0 6", stream=stream).code == 0
    assert (core.fake("count", "cuMemcpyHtoDAsync_v2"), core.fake("count", "cuMemsetD32Async")) == (0, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param("0 64 128 128 32 16 0 6 6", "rank 6 is not between 1 and 5", id="rank"),
        pytest.param("0 64 128 128 32 16 0 0 13", "unknown element type 13", id="type"),
        pytest.param("4 64 128 128 32 16 0 0 6", "not aligned to 16 bytes", id="alignment"),
        pytest.param("0 64 128 128 32 257 0 0 6", "the box is 514 bytes long on axis 0", id="inner box"),
        pytest.param("0 64 128 128 32 264 0 0 6", "the box is 264 long on axis 0", id="box"),
        pytest.param("0 64 128 128 300 16 0 0 6", "the box is 300 long on axis 1", id="outer box"),
        pytest.param(
            "0 64 128 129 32 16 0 0 6", "the stride of axis 1 (counted from the innermost) is 258", id="stride"
        ),
        pytest.param("0 0 128 128 32 16 0 0 6", "axis 1 (counted from the innermost) is 0 long", id="empty"),
        pytest.param("0 64 128 128 32 64 2 0 6", "the 64-byte swizzle allows 64", id="swizzle"),
    ],
)
def test_tma_errors_name_the_axis(core: Core, arguments: str, message: str) -> None:
    result = core.call(f"gpualloc 65536 | tma $0 {arguments}")
    assert result.code in (E_LIMIT, E_INTERNAL)
    assert message in result.message


# ------------------------------------------------------------------ TMA descriptors by value


MAP = "axis 128 2 64 | axis 64 256 32 | map 4096 6 3"
"""64 x 128 elements of f16 in boxes of 32 x 64."""


def test_descriptors_by_value_are_kept(core: Core) -> None:
    first = core.call(f"{MAP} | word $2 0 | word $2 1 | word $2 3 | word $2 4 | word $2 8")
    assert first.values[3:8] == [4096, 6 | 2 << 8 | 3 << 24, 128 | 64 << 40, 64 | 32 << 40, 256]
    assert "cuTensorMapEncodeTiled rank 2 type 6" in core.log()
    again = core.call(f"{MAP} | word $2 8 | axis 128 2 64 | axis 64 512 32 | map 4096 6 3 | word $6 8")
    assert (again.values[3], again.values[7]) == (256, 512)
    assert core.log().count("cuTensorMapEncodeTiled rank 2 type 6") == 1, "only the one with another stride is new"


WALK = "axis 64 2 64 | axis 9 128 1 | walk 2 2 | axis 7 1152 1 | walk 1 4 | axis 5 8064 1 | pixels 128 | map 4096 6 3"
"""5 images of 7 x 9 pixels of 64 elements, every second pixel of a row but its last two."""


def test_descriptors_of_walks(core: Core) -> None:
    first = core.call(f"{WALK} | " + " | ".join(f"word $7 {number}" for number in (1, 4, 5, 9, 12, 13)))
    assert "cuTensorMapEncodeIm2col rank 4 type 6 channels 64 pixels 128" in core.log()
    assert first.values[8:] == [6 | 4 << 8 | 3 << 24, 9 | 2 << 40, 7 | 1 << 40, 1152, -2 << 32, -4 << 32]
    assert core.call(MAP).code == 0, "nothing is left of it"
    assert core.call(WALK).code == 0
    assert not any("Im2col" in call for call in core.log()), "it is kept, too"


def test_descriptors_of_a_launch_are_apart(core: Core) -> None:
    found = core.call(f"{MAP} | axis 128 2 64 | axis 64 256 32 | map 8192 6 3 | word $2 0 | word $5 0")
    assert found.values[6:8] == [4096, 8192]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("axis 128 2 64 | axis 64 250 32 | map 4096 6 3", "stride of axis 1", id="stride"),
        pytest.param("axis 128 2 64 | axis 0 256 32 | map 4096 6 3", "axis 1 (counted from", id="extent"),
        pytest.param("axis 128 2 64 | axis 64 256 32 | map 4104 6 3", "not aligned to 16 bytes", id="address"),
        pytest.param(WALK.replace("walk 2 2", "walk 9 2"), "a walk in steps of 9", id="step"),
        pytest.param(WALK.replace("pixels 128", "pixels 2000"), "a walk over 2000 pixels", id="pixels"),
    ],
)
def test_descriptors_that_cannot_be(core: Core, script: str, message: str) -> None:
    failed = core.call(script)
    assert (failed.code, message in failed.message) == (-3, True)
    assert core.call(MAP).code == 0, "nothing is left of it"
