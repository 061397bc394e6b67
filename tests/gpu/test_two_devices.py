"""Two GPUs in one process: the same package on both. Skipped where there are fewer than two."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from test_errors_gpu import run_script
from test_memory_gpu import COUNTED, WARM, free_memory

FIRST, SECOND = 0, 1


@pytest.fixture(scope="module")
def two(torch: ModuleType) -> Any:
    """torch, where it sees two devices."""
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs two GPUs, this machine shows {torch.cuda.device_count()}")
    return torch


def rows(torch: Any, device: int, seed: int = 0) -> Any:
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(200, 300, generator=generator).to(f"cuda:{device}")


def check_softmax(torch: Any, package: ModuleType, x: Any) -> None:
    y = package.softmax.softmax(x)
    assert y.device == x.device
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-6)


def test_devices_in_turn(demo: ModuleType, two: Any) -> None:
    for step in range(20):
        check_softmax(two, demo, rows(two, step % 2, step))


@pytest.mark.parametrize("current", [FIRST, SECOND])
@pytest.mark.parametrize("device", [FIRST, SECOND])
def test_current_device_stays(demo: ModuleType, two: Any, current: int, device: int) -> None:
    with two.cuda.device(current):
        check_softmax(two, demo, rows(two, device))
        assert two.cuda.current_device() == current
        assert two.empty(1, device="cuda").device.index == current


def test_two_threads_two_devices(demo: ModuleType, two: Any) -> None:
    failures: list[str] = []

    def work(device: int) -> None:
        try:
            for step in range(200):
                check_softmax(two, demo, rows(two, device, step))
        except AssertionError as error:
            failures.append(f"device {device}: {error}")

    threads = [threading.Thread(target=work, args=(device,)) for device in (FIRST, SECOND)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_one_thread_per_device_and_stream(demo: ModuleType, two: Any) -> None:
    """Late producers on each device's own stream: results wait for the right one."""
    streams = {device: two.cuda.Stream(device=device) for device in (FIRST, SECOND)}
    for step in range(1, 10):
        for device, stream in streams.items():
            with two.cuda.stream(stream):
                x = two.zeros(100_000, device=f"cuda:{device}")
                two.cuda._sleep(1_000_000)
                x.fill_(float(step))
                y = demo.vector_add.vector_add(x, x)
                assert y.eq(2 * step).all()


def test_arrays_of_two_devices_are_refused(demo: ModuleType, two: Any) -> None:
    x, y = (two.ones(10, device=f"cuda:{device}") for device in (FIRST, SECOND))
    with pytest.raises(ValueError, match=r"(?s)vector_add.*(0.*1|1.*0)"):
        demo.vector_add.vector_add(x, y)
    check_softmax(two, demo, rows(two, SECOND))


@pytest.mark.parametrize("kind", ["torch", "int"])
def test_stream_of_the_other_device_is_refused(demo: ModuleType, two: Any, kind: str) -> None:
    x = two.ones(10, device=f"cuda:{FIRST}")
    stream = two.cuda.Stream(device=SECOND)
    with pytest.raises(ValueError, match="stream"):
        demo.vector_add.vector_add(x, x, stream=stream if kind == "torch" else stream.cuda_stream)


def test_out_on_the_other_device_is_refused(demo: ModuleType, two: Any) -> None:
    x, out = two.ones(10, device=f"cuda:{FIRST}"), two.empty(10, device=f"cuda:{SECOND}")
    with pytest.raises(ValueError, match="out"):
        demo.vector_add.vector_add(x, x, out=out)


def test_kernels_run_where_their_arrays_are(demo: ModuleType, two: Any) -> None:
    for device in (FIRST, SECOND, FIRST):
        x = two.randn(4096, device=f"cuda:{device}")
        partial = two.zeros(16, device=f"cuda:{device}")
        demo.block_sum.block_sum(x, partial)
        assert two.allclose(partial.sum(), x.sum(), atol=1e-2)


def test_printing_on_each_device(demo: ModuleType, two: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for device in (FIRST, SECOND):
        with two.cuda.device(device):
            demo.hello.hello()
    assert capfd.readouterr().out.count("Hello") == 4


def test_check_and_preload(demo: ModuleType, two: Any) -> None:
    for device in (FIRST, SECOND):
        demo.preload(device)
        assert demo.check(device), str(demo.check(device))
    with pytest.raises((ValueError, RuntimeError)):
        demo.preload(two.cuda.device_count())


def test_preload_of_one_leaves_the_other_alone(demo: ModuleType, two: Any) -> None:
    """Only the device that is asked for gets a context."""
    done = run_script(
        "import ctypes, demo_kernels as k\n"
        "k.preload(1)\n"
        "cuda, active, flags = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(), ctypes.c_uint()\n"
        "states = []\n"
        "for device in (0, 1):\n"
        "    cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))\n"
        "    states.append(active.value)\n"
        "print(*states)\n"
    )
    assert done.stdout.split() == ["0", "1"], done.stderr[-2000:]


def test_peer_access_stays_off(demo: ModuleType, two: Any) -> None:
    done = run_script(
        "import ctypes, torch, demo_kernels as k\n"
        "for d in (0, 1): k.softmax.softmax(torch.randn(8, 9, device=f'cuda:{d}'))\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "context = ctypes.c_void_p()\n"
        "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)\n"
        "torch.cuda.set_device(0); torch.zeros(1, device='cuda:0')\n"
        "print(cuda.cuCtxDisablePeerAccess(context))\n"  # 705: it was not enabled
    )
    assert done.stdout.split() == ["705"], done.stderr[-2000:]


def test_visible_devices_set_after_import(demo: ModuleType, two: Any) -> None:
    done = run_script(
        "import demo_kernels as k, os\n"
        "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
        "import torch\n"
        "x = torch.randn(8, 9, device='cuda')\n"
        "print(torch.cuda.device_count(), torch.allclose(k.softmax.softmax(x), torch.softmax(x, 1), atol=1e-6))\n"
    )
    assert done.stdout.split() == ["1", "True"], done.stderr[-2000:]


def test_a_process_per_device(demo: ModuleType, two: Any) -> None:
    """As DistributedDataParallel runs: a worker for each device, side by side."""
    texts = [
        "import torch, demo_kernels as k\n"
        f"torch.cuda.set_device({rank})\n"
        "x = torch.randn(64, 65, device='cuda')\n"
        "results = [k.softmax.softmax(x) for _ in range(50)]\n"
        "print(all(torch.allclose(y, torch.softmax(x, 1), atol=1e-6) for y in results), results[0].device)\n"
        for rank in (FIRST, SECOND)
    ]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run_script, texts))
    assert [each.stdout.split() for each in done] == [["True", "cuda:0"], ["True", "cuda:1"]], done


def test_graphs_on_each(demo: ModuleType, two: Any) -> None:
    captured = {}
    for device in (FIRST, SECOND):
        with two.cuda.device(device):
            x = rows(two, device)
            graph = two.cuda.CUDAGraph()
            # torch's own capture stream is one for all devices: the one that was current when it was made.
            with two.cuda.graph(graph, stream=two.cuda.Stream(device=device)):
                captured[device] = (graph, x, demo.softmax.softmax(x))
    for step in range(5):
        for device, (graph, x, out) in captured.items():
            with two.cuda.device(device):
                x.copy_(rows(two, device, step + 10))
                graph.replay()
                assert two.allclose(out, two.softmax(x, 1), atol=1e-6)


@pytest.mark.parametrize("device", [FIRST, SECOND])
def test_calls_keep_no_memory(demo: ModuleType, two: Any, device: int) -> None:
    with two.cuda.device(device):
        x = rows(two, device)
        for _ in range(WARM):
            demo.softmax.softmax(x)
        before = free_memory(two, demo)
        for _ in range(COUNTED):
            demo.softmax.softmax(x)
        assert free_memory(two, demo) == before
