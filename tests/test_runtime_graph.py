"""Buffers of calls that are captured in a CUDA graph, on the fake driver (templates/runtime/rt_graph.c)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakecuda import Core, build_core, build_fake

FORK = 8
OUT_OF_MEMORY, UNSUPPORTED_IN_CAPTURE = 2, 900
PLAIN, POOLED = 2, 1
LAUNCH = "launch 0 1 1 1 32 1 1"
QUERIES = ("cuCtxGetId", "cuStreamGetCaptureInfo_v2", "cuThreadExchangeStreamCaptureMode", "cuLaunchKernel")


def capture(core: Core) -> int:
    """A stream that a new graph is captured from; all that a first call does is done, and the log is empty."""
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    stream = int(core.ask("new_stream"))
    core.fake("capture", stream, 1)
    core.log()
    return stream


def end_capture(core: Core, stream: int) -> int:
    """The graph that was captured."""
    core.fake("capture", stream, 0)
    return core.fake("graph_of", stream)


def calls(core: Core) -> list[str]:
    """What the driver was asked for, but for questions and launches."""
    return [line for line in core.log() if not line.startswith(QUERIES)]


def live(core: Core) -> tuple[int, int]:
    """Allocations of cuMemAlloc and of the pool; what was freed twice or from a destructor is an error."""
    assert (core.fake("bad_frees"), core.fake("bad_calls")) == (0, 0)
    return core.fake("live", PLAIN), core.fake("live", POOLED)


def trim(core: Core) -> tuple[int, int]:
    assert core.ask("core", "pool_trim", 0) == 0
    return live(core)


def test_graph_keeps_what_a_call_allocates(core: Core) -> None:
    stream = capture(core)
    assert core.call(f"alloc 400 | {LAUNCH} | free $0", stream=stream).code == 0
    assert calls(core) == ["cuMemAlloc_v2 512", "cuUserObjectCreate 1", "cuGraphRetainUserObject g1 o1 1"]
    graph = end_capture(core, stream)
    assert (trim(core), core.fake("live_objects")) == ((1, 0), 1)
    core.fake("graph_destroy", graph)
    assert (live(core), core.fake("live_objects")) == ((1, 0), 0), "a destructor may not free"
    assert trim(core) == (0, 0)


@pytest.mark.parametrize("script", [f"gpualloc 400 | {LAUNCH} | gpufree $0", f"gpualloc 400 | {LAUNCH}"])
def test_launch_level_functions_leave_theirs_too(core: Core, script: str) -> None:
    stream = capture(core)
    assert core.call(script, stream=stream).code == 0
    core.fake("graph_destroy", end_capture(core, stream))
    assert (live(core), trim(core)) == ((1, 0), (0, 0))


@pytest.mark.parametrize("status", [0, 2], ids=["not captured", "capture that is broken"])
def test_other_calls_use_the_pool(core: Core, status: int) -> None:
    stream = capture(core)
    core.fake("capture", stream, status)
    assert core.call("alloc 400", stream=stream).code == 0
    assert calls(core) == ["cuMemAllocFromPoolAsync 400 pool1 s1", "cuMemFreeAsync m2 s1"]


def test_legacy_stream_is_not_asked(core: Core) -> None:
    core.call("alloc 4")
    core.log()
    assert core.call("alloc 400").code == 0
    assert core.log() == ["cuCtxGetId", "cuMemAllocFromPoolAsync 400 pool1 s0", "cuMemFreeAsync m2 s0"]


@pytest.mark.parametrize(
    ("bytes_", "taken"), [(0, 512), (1, 512), (512, 512), (513, 1024), (40000, 65536), (65536, 65536), (65537, 0)]
)
def test_sizes(core: Core, bytes_: int, taken: int) -> None:
    stream = capture(core)
    assert core.call(f"alloc {bytes_}", stream=stream).code == 0
    expected = f"cuMemAlloc_v2 {taken}" if taken else f"cuMemAllocFromPoolAsync {bytes_} pool1 s1"
    assert calls(core)[0] == expected


def test_call_uses_again_what_it_freed(core: Core) -> None:
    stream = capture(core)
    result = core.call("alloc 400 | alloc 300 | free $0 | alloc 512 | alloc 100 | free $4 | alloc 600", stream=stream)
    first, second, _, third, fourth, _, large = result.values
    assert third == first
    assert len({first, second, fourth, large}) == 4
    result = core.call("alloc 4 | free $0 | free $0", stream=stream)
    assert "frees device memory that it does not own" in result.message
    core.fake("graph_destroy", end_capture(core, stream))
    assert trim(core) == (0, 0)


def test_negative_size_behind_what_was_freed(core: Core) -> None:
    stream = capture(core)
    result = core.call("alloc 400 | free $0 | alloc -400", stream=stream)
    assert result.message.endswith("negative size: -400 bytes of device memory")
    assert live(core) == (1, 0)


def test_loops_take_one_buffer(core: Core) -> None:
    stream = capture(core)
    script = "alloc 64" + "".join(f" | free ${2 * n} | alloc {64 + n}" for n in range(20))
    assert len(set(core.call(script, stream=stream).values[::2])) == 1
    assert live(core) == (1, 0)


def test_chain_of_a_call_does_not_take_what_another_frees(core: Core) -> None:
    """A chain does not come after what the caller's stream does from here on, nor the other way round."""
    stream = capture(core)
    chain = core.call("stream", flags=FORK, stream=stream).values[0]
    core.fake("capture_into", chain, core.fake("graph_of", stream))
    script = "stream | gpualloc 64 $0 | gpufree $1 $0 | gpualloc 64 | gpufree $3 | gpualloc 64 $0 | gpualloc 64"
    values = core.call(script, flags=FORK, stream=stream).values
    assert values[0] == chain
    assert len({values[1], values[3], values[5]}) == 3
    assert values[6] == values[3]


def test_every_call_has_its_own(core: Core) -> None:
    stream, fork, other = capture(core), int(core.ask("new_stream")), int(core.ask("new_stream"))
    core.fake("capture_into", fork, core.fake("graph_of", stream))
    core.fake("capture", other, 1)
    made = [core.call("alloc 64 | free $0", stream=on).values[0] for on in (stream, fork, stream, other)]
    assert len(set(made)) == 4
    core.fake("graph_destroy", end_capture(core, stream))
    assert (trim(core), core.fake("live_objects")) == ((1, 0), 1), "the other graph has one"


def test_memory_of_a_destroyed_graph_is_used_again(core: Core) -> None:
    stream = capture(core)
    first = core.call("alloc 64 | alloc 5000", stream=stream).values
    core.fake("graph_destroy", end_capture(core, stream))
    core.fake("capture", stream, 1)
    second = core.call("alloc 70 | alloc 8000 | alloc 1", stream=stream).values
    assert first == second[:2]
    assert live(core) == (3, 0)


def test_clones_have_references(core: Core) -> None:
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    graph = end_capture(core, stream)
    clone = core.fake("graph_clone", graph)
    core.fake("graph_destroy", graph)
    assert trim(core) == (1, 0)
    core.fake("graph_destroy", clone)
    assert trim(core) == (0, 0)


def test_graph_may_outlive_the_library(fake_cuda: Path, tmp_path: Path) -> None:
    core = Core(build_core(tmp_path), fake_cuda)  # sanitizers would keep it loaded
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    core.ask("close_core")
    core.fake("graph_destroy", end_capture(core, stream))
    assert core.fake("live_objects") == 0
    core.stop()


def test_failing_call_leaves_its_buffer_to_the_graph(core: Core) -> None:
    stream = capture(core)
    assert core.call(f"alloc 64 | {LAUNCH} | assert 0 0", stream=stream).code == -1
    assert trim(core) == (1, 0), "the launch is in the graph"
    core.fake("graph_destroy", end_capture(core, stream))
    assert trim(core) == (0, 0)


@pytest.mark.parametrize(
    "function",
    ["cuMemAlloc_v2", "cuUserObjectCreate", "cuGraphRetainUserObject", "cuStreamGetCaptureInfo_v2"],
)
def test_driver_refuses(core: Core, function: str) -> None:
    stream = capture(core)
    core.fake("fail", function, 1, 1)
    result = core.call("alloc 64", stream=stream)
    assert (result.code, result.message.partition(":")[0].partition("_v2")[0].split()[0]) == (
        1,
        function.partition("_v2")[0],
    )
    assert core.call("alloc 64", stream=stream).code == 0
    core.fake("graph_destroy", end_capture(core, stream))
    assert (trim(core), core.fake("live_objects")) == ((0, 0), 0)


@pytest.mark.parametrize("nth", [1, 2], ids=["made relaxed", "put back"])
def test_capture_mode_that_cannot_be_changed(core: Core, nth: int) -> None:
    stream = capture(core)
    core.fake("fail", "cuThreadExchangeStreamCaptureMode", nth, 1)
    assert "cuThreadExchangeStreamCaptureMode failed" in core.call("alloc 64", stream=stream).message
    assert trim(core) == (0, 0)


@pytest.mark.parametrize("core", [{"memory": 4096}], indirect=True)
def test_no_memory_is_told(core: Core) -> None:
    stream = capture(core)
    result = core.call("alloc 60000", stream=stream)
    assert result.code == OUT_OF_MEMORY
    assert "65536 bytes were asked for on device 0, 4096 of 4096 are free" in result.message


@pytest.mark.parametrize("core", [{"pools": 0}], indirect=True)
def test_devices_without_pools_are_captured(core: Core) -> None:
    stream = capture(core)
    assert core.call("alloc 64 | free $0 | alloc 64", stream=stream).code == 0
    assert core.call("alloc 100000", stream=stream).code == UNSUPPORTED_IN_CAPTURE, "as before"


@pytest.mark.parametrize(
    "lacking",
    ["cuStreamGetCaptureInfo_v2", "cuUserObjectCreate", "cuUserObjectRelease", "cuGraphRetainUserObject", "cuCtxGetId"],
)
def test_older_drivers_allocate_in_the_graph(core_library: Path, tmp_path: Path, lacking: str) -> None:
    core = Core(core_library, build_fake(tmp_path / "old", [lacking]))
    stream = capture(core)
    assert core.call("alloc 64", stream=stream).code == 0
    assert [line for line in core.log() if "Async" in line] == [
        "cuMemAllocFromPoolAsync 64 pool1 s1",
        "cuMemFreeAsync m2 s1",
    ]
    core.stop()


def test_memory_is_gone_with_its_context(core: Core) -> None:
    """Nor is it given to a context that has the dead one's handle."""
    core.call("alloc 4")
    home = core.ask("current")
    mine = core.fake("context_new", 0, 0)
    core.ask("use_context", mine)
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    graph = end_capture(core, stream)
    core.fake("context_destroy", mine)
    core.ask("use_context", home)
    core.fake("graph_destroy", graph)
    again = core.fake("context_new", 0, 0)
    assert again == mine, "the fake gives a handle again"
    core.ask("use_context", again)
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    assert live(core) == (2, 0), "new memory"
    core.fake("graph_destroy", end_capture(core, stream))
    assert trim(core) == (1, 0), "what the dead context had is not freed again"
    assert core.ask("current") == again


def test_trim_frees_in_the_context_that_it_came_from(core: Core) -> None:
    core.call("alloc 4")
    home, mine = core.ask("current"), core.fake("context_new", 0, 0)
    core.ask("use_context", mine)
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    core.fake("graph_destroy", end_capture(core, stream))
    core.ask("use_context", home)
    core.log()
    assert trim(core) == (0, 0)
    lines = core.log()
    assert lines[lines.index("cuMemFree_v2 m3") - 1].startswith("cuCtxSetCurrent")
    assert core.ask("current") == home


def test_trim_that_fails_loses_nothing(core: Core) -> None:
    stream = capture(core)
    core.call("alloc 64 | alloc 64", stream=stream)
    core.fake("graph_destroy", end_capture(core, stream))
    core.fake("fail", "cuMemFree_v2", 1, 1)
    assert core.ask("core", "pool_trim", 0) == 1
    assert (live(core), trim(core)) == ((2, 0), (0, 0))


def test_trim_beside_another_capture(core: Core) -> None:
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    core.fake("graph_destroy", end_capture(core, stream))
    core.fake("capture", stream, 1)
    assert trim(core) == (0, 0)


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_trim_of_another_device(core: Core) -> None:
    stream = capture(core)
    core.call("alloc 64", stream=stream)
    core.fake("graph_destroy", end_capture(core, stream))
    assert core.ask("core", "pool_trim", 1) == 0
    assert (live(core), trim(core)) == ((1, 0), (0, 0))


def test_threads_capture_and_destroy_at_once(core: Core) -> None:
    capture(core)
    assert core.ask("threads_keep", 4, 200, "alloc 64 | alloc 3000 | free $0 | alloc 64") == [0, 0, 0, 0]
    assert core.fake("live_objects") == 0
    assert trim(core) == (0, 0)


def test_graphs_come_and_go_without_leaks(core: Core) -> None:
    capture(core)
    core.ask("threads_keep", 1, 100, "alloc 64 | alloc 64")
    assert live(core) == (2, 0)
