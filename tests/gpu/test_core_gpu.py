"""The runtime core on a real driver: what a fake cannot tell (core_kernels.ptx holds the kernels)."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakecuda import Core, build_core

HERE = Path(__file__).parent
READS, HOST_SYNC, MESSAGES, FORK = 1, 2, 4, 8
E_CAPTURE, E_FORKED = -9, -8
LAUNCH_FAILED = 719
COUNT = "alloc 4 | memset32 $0 0 1 | launch 0 2 1 1 64 1 1 0 0 0 0 0 0 $0 0 | load32 $0"
AWAIT_AND_SET = (
    "alloc 8 | memset32 $0 0 2 | stream | stream | launch 1 1 1 1 128 1 1 0 0 0 0 $2 0 $0 9"
    " | launch 2 1 1 1 1 1 1 0 0 0 0 $3 0 $0 9"
)


def missing_part() -> str:
    """What this machine lacks for these tests."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver on this machine"
    return "" if shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") else "no C compiler"


pytestmark = pytest.mark.skipif(bool(missing_part()), reason=missing_part() or "all is there")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core, compiled on this machine."""
    return build_core(tmp_path_factory.mktemp("core"))


@pytest.fixture
def gpu_core(library: Path) -> Iterator[Core]:
    """A process of its own, so that what it does to its context stays there."""
    running = Core(library, None)
    running.ask("use_image", str(HERE / "core_kernels.ptx"))
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("script", "flags", "last"),
    [
        pytest.param(COUNT, READS, 128, id="launch and read"),
        pytest.param(
            "gpualloc 8 0 1 | poke $0 5 | launch 0 1 1 1 3 1 1 0 0 0 0 0 1 $0 0 | peek $0", HOST_SYNC, 8, id="managed"
        ),
        pytest.param(
            "host 4096 | poke $0 9 | register $0 4 4 4 | launch 0 1 1 1 3 1 1 0 0 0 0 0 1 $0 0 | peek $0",
            HOST_SYNC,
            12,
            id="registered",
        ),
        pytest.param("host 8 | poke $0 9 | gpualloc 8 | memcpy $2 $0 8 | load32 $2", READS, 9, id="copy"),
        pytest.param(
            "gpualloc 64 | gpualloc 64 | memset32 $0 3 16 | memset32 $1 0 16 | copy $0 $1 2 4 6 4 | load32 $1",
            READS,
            3,
            id="strided copy",
        ),
        pytest.param(f"{AWAIT_AND_SET} | sync $2 | load64 $0", FORK | READS, 9, id="chains really run together"),
        pytest.param(
            "alloc 8 | memset32 $0 0 2 | stream | launch 1 1 1 1 128 1 1 0 0 0 0 $2 0 $0 9 | stream"
            " | launch 2 1 1 1 1 1 1 0 0 0 0 $4 0 $0 9 | sync $2 | load64 $0",
            FORK | READS,
            9,
            id="a chain may start while another waits for it",
        ),
        pytest.param("lowered 2", 0, 0, id="registered module"),
    ],
)
def test_calls(gpu_core: Core, script: str, flags: int, last: int) -> None:
    for _ in range(3):
        result = gpu_core.call(script, flags=flags)
        assert (result.code, result.message, result.values[-1]) == (0, "", last)


@pytest.mark.parametrize("cluster", [1, 2, 8, 16])
def test_clusters(gpu_core: Core, cluster: int) -> None:
    script = "alloc 4 | memset32 $0 0 1 | launch 0 16 1 1 32 1 1 0 {} 1 1 0 0 $0 0 | load32 $0"
    result = gpu_core.call(script.format(cluster), flags=READS)
    if cluster > 1 and result.code and "clusters need compute capability 9.0" in result.message:
        pytest.skip("this GPU has no clusters")
    assert (result.message, result.values[-1]) == ("", 512)
    assert gpu_core.call(COUNT, flags=READS).values[-1] == 128, "launches without clusters go on working"


def test_shared_memory_to_the_limit(gpu_core: Core) -> None:
    assert gpu_core.call("launch 0 1 1 1 32 1 1 65536").code == 0
    assert "that device 0 allows" in gpu_core.call("launch 0 1 1 1 32 1 1 10000000").message


@pytest.mark.parametrize(
    ("script", "flags", "code"),
    [
        pytest.param("alloc 400 | launch 0 2 1 1 64 1 1 0 0 0 0 0 0 $0 0 | free $0 | alloc 8", 0, 0, id="memory"),
        pytest.param("alloc 4 | launch 0 1 1 1 1 1 1", MESSAGES, 0, id="messages"),
        pytest.param(AWAIT_AND_SET, FORK, 0, id="chains"),
        pytest.param("gpualloc 65536 | tma $0 64 64 128 128 32 16 1 0 6", 0, 0, id="TMA descriptor"),
        pytest.param("alloc 4 | launch 0 1 1 1 1 1 1 | assert 0 0", 0, -1, id="failing call"),
        pytest.param("alloc 4 | load32 $0", 0, E_CAPTURE, id="host read"),
        pytest.param("alloc 4 | load32 $0", READS, E_CAPTURE, id="declared host read"),
    ],
)
def test_capture_survives(gpu_core: Core, script: str, flags: int, code: int) -> None:
    gpu_core.call("alloc 4")
    stream = gpu_core.ask("new_stream")
    result = gpu_core.ask("captured", script, flags, stream, 3)
    assert result["code"] == code
    assert set(result["steps"]) == {0}


SMALL = "alloc 4 | memset32 $0 0 1 | launch 0 2 1 1 64 1 1 0 0 0 0 0 0 $0 0 | free $0 | alloc 65536 | alloc 8"


@pytest.mark.parametrize("how", [{"instances": 2}, {"child": True}, {"instances": 3, "child": True}], ids=str)
def test_graphs_without_allocations_are_cloned(gpu_core: Core, how: dict[str, int]) -> None:
    stream = gpu_core.ask("new_stream") if gpu_core.call("alloc 4").code == 0 else 0
    result = gpu_core.ask("captured", SMALL, 0, stream, 3, **how)
    assert (result["code"], set(result["steps"])) == (0, {0})


def test_threads_capture_at_once(gpu_core: Core) -> None:
    gpu_core.call("alloc 4 | other")
    assert gpu_core.ask("threads_capture", 4, 50, SMALL) == [0, 0, 0, 0]


def test_graph_that_outlives_its_context(gpu_core: Core) -> None:
    gpu_core.call("alloc 4")
    first, mine = gpu_core.ask("current"), gpu_core.ask("new_context")
    assert set(gpu_core.ask("captured", SMALL, 0, gpu_core.ask("new_stream"), 1)["steps"]) == {0}
    assert gpu_core.ask("destroy_context", mine) == 0
    gpu_core.ask("use_context", first)
    for _ in range(2):
        assert set(gpu_core.ask("captured", SMALL, 0, gpu_core.ask("new_stream"), 1)["steps"]) == {0}
        assert gpu_core.ask("core", "pool_trim", 0) == 0
    assert gpu_core.call(COUNT, flags=READS).values[-1] == 128


def test_first_call_may_be_in_a_capture(gpu_core: Core) -> None:
    gpu_core.ask("preload")  # makes the context; nothing of the pool is used yet
    stream = gpu_core.ask("new_stream")
    assert set(gpu_core.ask("captured", "other | alloc 4", 0, stream, 1)["steps"]) == {0}


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="other workers change the GPU's free memory")
def test_nothing_stays(gpu_core: Core) -> None:
    scripts = ["alloc 1000000 | alloc 5000000 | launch 0 1 1 1 1 1 1 | assert 0 0", "alloc 3000000 | result 0 70000"]
    for script in scripts:
        gpu_core.call(script)
    stream = gpu_core.ask("new_stream")
    gpu_core.ask("captured", SMALL, 0, stream, 1)
    gpu_core.ask("free_bytes")
    time.sleep(0.2)  # the driver destroys what a graph had when it comes to it
    before = gpu_core.ask("free_bytes")
    for script in scripts:
        gpu_core.ask("repeat", 500, script)
    for _ in range(100):
        gpu_core.ask("captured", SMALL, 0, stream, 2, instances=2)
    time.sleep(0.2)
    assert gpu_core.ask("free_bytes") == before


def test_threads(gpu_core: Core) -> None:
    assert gpu_core.ask("threads", 4, 300, COUNT, READS) == [0, 0, 0, 0]


def test_contexts_come_and_go(gpu_core: Core) -> None:
    assert gpu_core.call(COUNT, flags=READS).values[-1] == 128
    first = gpu_core.ask("current")
    for _ in range(3):
        mine = gpu_core.ask("new_context")
        assert gpu_core.call(COUNT, flags=READS).values[-1] == 128
        assert gpu_core.ask("destroy_context", mine) == 0
    gpu_core.ask("use_context", first)
    assert gpu_core.call(COUNT, flags=READS).values[-1] == 128


def test_two_devices(gpu_core: Core) -> None:
    gpu_core.call("alloc 4")
    if gpu_core.ask("devices") < 2:
        pytest.skip("one GPU")
    first = gpu_core.ask("current")
    for device in (1, 0, 1, 0):
        assert gpu_core.call(COUNT, flags=READS, device=device).values[-1] == 128
    assert gpu_core.ask("current") == first
    script = f"device 1 | {COUNT.replace('$0', '$1')}"
    assert gpu_core.call(script, flags=READS).values[-1] == 128
    assert gpu_core.ask("current") == first
    assert "it has used that device already" in gpu_core.call("alloc 4 | device 1").message


def test_reset_of_the_device(gpu_core: Core) -> None:
    gpu_core.call(COUNT, flags=READS)
    assert gpu_core.ask("reset_device") == 0
    for _ in range(2):
        assert gpu_core.call(COUNT, flags=READS).values[-1] == 128


def test_forked_child(gpu_core: Core) -> None:
    gpu_core.call(COUNT, flags=READS)
    assert gpu_core.ask("in_child", "alloc 4")["code"] == E_FORKED


def test_trap_ends_the_context(gpu_core: Core) -> None:
    result = gpu_core.call("alloc 4 | launch 0 1 1 1 1 1 1 0 0 0 0 0 0 $0 666 | load32 $0", flags=READS)
    assert (result.code, "context of this process is lost" in result.message) == (LAUNCH_FAILED, True)
    assert gpu_core.call("alloc 4").code == LAUNCH_FAILED


def test_printing(gpu_core: Core) -> None:
    result = gpu_core.call("gpualloc 8 | memset32 $0 0x3fc00000 2 | print $0 2")
    assert result.out.endswith("sizes = [2] strides = [1] data = \n[1.5,  1.5]\n")
