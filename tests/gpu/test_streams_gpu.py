"""Streams, graphs, threads: work goes to the caller's stream and waits for nothing that it need not wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gpu_calls import to_numpy, to_torch
from references import newton_sqrt
from test_errors_gpu import run_script
from test_memory_gpu import free_memory

CAPTURED = {
    "gelu": (lambda k, x: k.gelu.gelu(x.view(-1)), (64, 128)),
    "softmax": (lambda k, x: k.softmax.softmax(x), (64, 128)),
    "matmul": (lambda k, x: k.matmul.matmul(x, x), (96, 96)),
    "attention": (lambda k, x: k.attention.attention(x, x, x), (2, 33, 16)),
}


@pytest.mark.parametrize(("function", "shape"), CAPTURED.values(), ids=CAPTURED)
def test_graph_capture(demo: ModuleType, torch: Any, function: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = function(demo, x)
    for _ in range(3):
        x.copy_(torch.randn(shape, device="cuda"))
        graph.replay()
        assert torch.equal(captured, function(demo, x))


def test_graph_capture_of_many_launches(demo: ModuleType, torch: Any) -> None:
    x, out = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        demo.smooth.smooth(x, out, 4, False)
    x.copy_(torch.randn(1000, device="cuda"))
    graph.replay()
    expected = torch.empty_like(out)
    demo.smooth.smooth(x, expected, 4, False)
    assert torch.equal(out, expected)


def _chain(k: ModuleType, x: Any, wait: Callable[[], object]) -> Any:
    """Calls that read what other blocks of the call ahead wrote, and write where it read; kernels of torch between."""
    out = x.clone()
    for _ in range(10):
        x = k.softmax.softmax(k.matmul.matmul(x, x) * 0.1)
        wait()
        x = k.vector_add.vector_add(x.view(-1), x.t().reshape(-1)).view_as(x)
        wait()
        k.smooth.smooth(x.view(-1), out.view(-1), 2, False)
        wait()
        k.smooth.smooth(out.view(-1), x.view(-1), 3, True)
        wait()
    return x


@pytest.mark.parametrize("size", [48, 1024])
def test_calls_begin_early_and_wait_for_what_is_ahead(demo: ModuleType, torch: Any, size: int) -> None:
    x = torch.randn(size, size, device="cuda")
    expected = _chain(demo, x, torch.cuda.synchronize)
    assert torch.equal(_chain(demo, x, lambda: None), expected)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            forked = _chain(demo, x, lambda: None)
        captured = _chain(demo, x, lambda: None)
        torch.cuda.current_stream().wait_stream(side)
        both = demo.vector_add.vector_add(forked.view(-1), captured.view(-1))
    graph.replay()
    assert torch.equal(captured, expected)
    assert torch.equal(both.view_as(x), 2 * expected)


# ------------------------------------------------------------------ buffers between launches, which a graph keeps


def captured_sums(cases: ModuleType, torch: Any, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """A graph of sums of all elements, two launches each, and the results."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums = [cases.sums.total(x) for x in arrays]
    return graph, sums


def whole(torch: Any, *shape: int) -> Any:
    """Small whole numbers: sums of them are exact in f32, in any order."""
    return torch.randint(-8, 9, shape, device="cuda").float()


def test_captured_sums_are_replayed_many_times(cases: ModuleType, torch: Any) -> None:
    arrays = [whole(torch, 300 + n, 1000) for n in range(8)]
    graph, sums = captured_sums(cases, torch, arrays)
    for step in range(1000):
        arrays[step % 8].random_(-8, 9)
        graph.replay()
        if step % 50 == 0:
            assert [float(each) for each in sums] == [float(x.sum()) for x in arrays], f"replay {step}"
    assert [float(each) for each in sums] == [float(x.sum()) for x in arrays]


def test_two_graphs_run_at_once(cases: ModuleType, torch: Any) -> None:
    made = []
    for n in range(2):
        arrays = [whole(torch, 1000 + n, 1000) for _ in range(20)]
        made.append((*captured_sums(cases, torch, arrays), arrays, torch.cuda.Stream()))
    torch.cuda.synchronize()
    for _ in range(50):
        for graph, _, arrays, stream in made:
            with torch.cuda.stream(stream):
                arrays[7].random_(-8, 9)
                graph.replay()
    torch.cuda.synchronize()
    for _, sums, arrays, _ in made:
        assert [float(each) for each in sums] == [float(x.sum()) for x in arrays]


def test_streams_of_one_capture_have_buffers_of_their_own(cases: ModuleType, torch: Any) -> None:
    arrays = [whole(torch, 2000, 1000 + n) for n in range(4)]
    graph, sums = torch.cuda.CUDAGraph(), []
    sides = [torch.cuda.Stream() for _ in arrays]
    with torch.cuda.graph(graph):
        for x, side in zip(arrays, sides, strict=True):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                sums.append([cases.sums.total(x) for _ in range(20)])
        for side in sides:
            torch.cuda.current_stream().wait_stream(side)
    for _ in range(20):
        for x in arrays:
            x.random_(-8, 9)
        graph.replay()
        for x, found in zip(arrays, sums, strict=True):
            assert [float(each) for each in found] == 20 * [float(x.sum())]


def test_destroyed_graphs_give_their_memory_back(cases: ModuleType, torch: Any) -> None:
    arrays = [whole(torch, 1000, 1000) for _ in range(3)]

    def rounds(count: int) -> int:
        for _ in range(count):
            graphs = [captured_sums(cases, torch, 100 * arrays)[0] for _ in range(3)]
            graphs[0].replay()
            del graphs
        return free_memory(torch, cases)

    rounds(1)
    time.sleep(0.2)  # destructors run when the driver comes to it
    before = rounds(1)
    time.sleep(0.2)
    after = max(rounds(10), free_memory(torch, cases))
    assert after >= before - (2 << 20), f"{before - after} bytes gone"


CAPTURE_FIRST = """
import torch, demo_kernels as k
x = torch.randn(64, 128, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = k.softmax.softmax(x)
graph.replay()
torch.cuda.synchronize()
print(torch.allclose(y, torch.softmax(x, 1), atol=1e-6))
"""


def test_first_call_may_be_captured(demo: ModuleType) -> None:
    done = run_script(CAPTURE_FIRST)
    assert done.stdout.split() == ["True"], done.stderr[-2000:]


CAPTURE_READ = """
import torch, hazard_kernels as k
x, times = torch.ones(8, device="cuda"), torch.tensor(2, device="cuda")
k.control.doubled(x, times)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        k.control.doubled(x, times)
except RuntimeError as error:
    print("raised")
torch.cuda.synchronize()
print(k.control.doubled(x, times).tolist() == [4.0] * 8)
"""


def test_host_reads_cannot_be_captured(hazards: ModuleType) -> None:
    done = run_script(CAPTURE_READ)
    assert done.stdout.split() == ["raised", "True"], done.stderr[-2000:]


def test_two_streams_interleaved(demo: ModuleType, torch: Any) -> None:
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [torch.randn(200, 300, device="cuda") for _ in range(40)]
    torch.cuda.synchronize()
    results = []
    for index, x in enumerate(inputs):
        with torch.cuda.stream(streams[index % 2]):
            results.append(demo.softmax.softmax(x))
    torch.cuda.synchronize()
    for x, got in zip(inputs, results, strict=True):
        assert torch.allclose(got, torch.softmax(x, 1), atol=1e-6)


def slow_fill(torch: Any, x: Any, value: float) -> None:
    """Queues about a millisecond of work before x gets its value."""
    torch.cuda._sleep(2_000_000)
    x.fill_(value)


@pytest.mark.parametrize("kind", ["torch", "int", "protocol"])
def test_another_stream_is_ordered_both_ways(demo: ModuleType, torch: Any, kind: str) -> None:
    """x is filled late on the current stream, the call runs on another, its result is used on the current one."""
    other = torch.cuda.Stream()
    handle = other.cuda_stream

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, handle

    stream = {"torch": other, "int": handle, "protocol": Protocol()}[kind]
    x = torch.zeros(100_000, device="cuda")
    for step in range(1, 20):
        slow_fill(torch, x, float(step))
        y = demo.vector_add.vector_add(x, x, stream=stream)
        assert (y * 2).eq(4 * step).all()


def test_call_returns_before_the_work_is_done(demo: ModuleType, torch: Any) -> None:
    x = torch.zeros(1000, device="cuda")
    demo.gelu.gelu(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    demo.gelu.gelu(x)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


def test_side_thread(demo: ModuleType, torch: Any) -> None:
    x = torch.randn(30, 40, device="cuda")
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(demo.softmax.softmax(x)))
    thread.start()
    thread.join()
    assert torch.allclose(results[0], torch.softmax(x, 1), atol=1e-6)


def test_four_threads_on_four_streams(cases: ModuleType, torch: Any) -> None:
    """Functions with and without host reads, all at once."""
    failures: list[str] = []

    def work(index: int) -> None:
        rng = np.random.default_rng(index)
        x = (1 + 99 * rng.random(5000 + 17 * index)).astype("f4")
        root, steps = newton_sqrt(x, 1e-3)
        with torch.cuda.stream(torch.cuda.Stream()):
            device, rows = to_torch(x), torch.randn(200 + index, 300, device="cuda")
            expected = torch.softmax(rows, 1)
            for _ in range(100):
                got, count = cases.newton_sqrt.newton_sqrt(device, 1e-3)
                if count != steps or not np.allclose(to_numpy(got), root, 1e-5):
                    failures.append(f"thread {index}: newton_sqrt took {count} steps, expected {steps}")
                if not torch.allclose(cases.softmax_named.softmax(rows), expected, atol=1e-6):
                    failures.append(f"thread {index}: softmax")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]


def test_first_calls_of_many_threads(demo: ModuleType) -> None:
    done = run_script(
        "import threading, torch, demo_kernels as k\n"
        "x, bad = torch.randn(10, 20, device='cuda'), []\n"
        "def work():\n"
        "    if not torch.allclose(k.softmax.softmax(x), torch.softmax(x, 1), atol=1e-6): bad.append(1)\n"
        "threads = [threading.Thread(target=work) for _ in range(16)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(bad))\n"
    )
    assert done.stdout.split() == ["0"], done.stderr[-2000:]
