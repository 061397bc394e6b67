"""How kernels are launched: clusters, cooperative and dependent launches, priorities, of the kernel or of the call."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
Launch = driver.CUlaunchAttributeID


@pytest.fixture
def kernels(launched: ModuleType, needs: Any) -> ModuleType:
    needs((9, 0))
    return launched.attributes


def done(result: tuple[Any, ...]) -> Any:
    """What a driver call gives, without its code."""
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS
    return values[0] if len(values) == 1 else values


def graph_of(torch: Any, calls: Any) -> Any:
    """The graph of what ``calls(stream)`` launches."""
    stream = torch.cuda.Stream()
    done(driver.cuStreamBeginCapture(stream.cuda_stream, RELAXED))
    calls(stream)
    return done(driver.cuStreamEndCapture(stream.cuda_stream))


def attribute(graph: Any, name: Any) -> Any:
    """Of the graph's only kernel."""
    nodes, count = done(driver.cuGraphGetNodes(graph, 1))
    assert count == 1
    return done(driver.cuGraphKernelNodeGetAttribute(nodes[0], name))


@pytest.mark.parametrize("cluster", [(2, 2, 2), (1, 2, 2), (4, 1, 2), (1, 1, 8), 2])
def test_clusters_of_the_call(kernels: ModuleType, torch: Any, cluster: Any) -> None:
    grid = (4, 6, 8)
    places = torch.full((4 * 6 * 8, 3), -1, device="cuda", dtype=torch.int32)
    kernels.clusters(places, grid=grid, block=1, cluster=cluster)
    sizes = cluster if isinstance(cluster, tuple) else (cluster, 1, 1)
    expected = [[x % sizes[0], y % sizes[1], z % sizes[2]] for z in range(8) for y in range(6) for x in range(4)]
    assert places.tolist() == expected


def test_clusters_of_the_kernel(kernels: ModuleType, torch: Any) -> None:
    sizes = torch.zeros(3, device="cuda", dtype=torch.int32)
    kernels.clusters_1x2x4(sizes, grid=(3, 4, 8), block=1)
    assert sizes.tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("cluster", "text"), [((3, 1, 1), "cannot be divided into clusters of 3 x 1 x 1"), ((4, 6, 1), "has more than 16")]
)
def test_clusters_that_do_not_fit(kernels: ModuleType, torch: Any, cluster: Any, text: str) -> None:
    places = torch.zeros((192, 3), device="cuda", dtype=torch.int32)
    with pytest.raises(ValueError, match=text):
        kernels.clusters(places, grid=(4, 6, 8), block=1, cluster=cluster)


def test_cooperative(launched: ModuleType, kernels: ModuleType, torch: Any) -> None:
    """All blocks meet. More than the device can hold are refused, unless the launch is an ordinary one."""
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    count, seen = (torch.zeros(n, device="cuda", dtype=torch.int32) for n in (1, blocks))
    kernels.meeting(count, seen, grid=blocks, block=1)
    assert seen.tolist() == [blocks] * blocks
    with pytest.raises(launched.CudaError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"):
        kernels.meeting(count, seen, grid=1_000_000, block=1)
    with pytest.raises(launched.CudaError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"):
        kernels.first(count, 1, grid=1_000_000, block=1, cooperative=True)
    kernels.first(count, 1, grid=1_000_000, block=1)
    torch.cuda.synchronize()


def test_cooperative_of_the_call(kernels: ModuleType, torch: Any) -> None:
    count, seen = (torch.zeros(1, device="cuda", dtype=torch.int32) for _ in range(2))

    def flag(**option: Any) -> int:
        graph = graph_of(torch, lambda s: kernels.meeting(count, seen, grid=1, block=1, stream=s, **option))
        return int(attribute(graph, Launch.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative)

    assert (flag(), flag(cooperative=False)) == (1, 0)


def test_priority(kernels: ModuleType, torch: Any) -> None:
    x, y = (torch.zeros(1, device="cuda", dtype=torch.int32) for _ in range(2))

    def priority(call: Any) -> int:
        return int(attribute(graph_of(torch, call), Launch.CU_LAUNCH_ATTRIBUTE_PRIORITY).priority)

    assert priority(lambda s: kernels.second(x, y, grid=1, block=1, stream=s)) == -1
    assert priority(lambda s: kernels.second(x, y, grid=1, block=1, priority=-2, stream=s)) == -2
    assert priority(lambda s: kernels.first(x, 1, grid=1, block=1, priority=-3, stream=s)) == -3


def test_dependent_launch(kernels: ModuleType, torch: Any) -> None:
    """The second kernel may start before the first one ends, and waits for its memory."""
    x, y = (torch.zeros(1, device="cuda", dtype=torch.int32) for _ in range(2))
    for rounds in (1, 20_000, 3, 10_000):
        kernels.first(x, rounds, grid=1, block=1)
        kernels.second(x, y, grid=1, block=1)
        assert y.tolist() == [rounds]


@pytest.mark.parametrize("programmatic", [None, True, False])
def test_dependent_launch_of_the_call(kernels: ModuleType, torch: Any, programmatic: Any) -> None:
    x, y = (torch.zeros(1, device="cuda", dtype=torch.int32) for _ in range(2))

    def both(stream: Any) -> None:
        kernels.first(x, 1, grid=1, block=1, stream=stream)
        kernels.second(x, y, grid=1, block=1, stream=stream, programmatic=programmatic)

    *_, edges, count = done(driver.cuGraphGetEdges(graph_of(torch, both), 1))
    assert count == 1
    dependent = driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
    assert (int(edges[0].type) == int(dependent)) is (programmatic is not False)
