"""Traced programs over a package's functions: ``python torch_cases.py cpu|cuda`` in a process of its own.

In: the package ``traced_kernels`` on the path, made from traced.mlir. Out: exit code 0, or what differs.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import traced_kernels
import traced_kernels.torch as kernels

DEVICE = "cpu"


def compiled(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend="aot_eager" if DEVICE == "cpu" else "inductor")


def case_names() -> None:
    assert kernels.twice is kernels.traced.twice
    assert kernels.twice.__name__ == "twice"
    assert {"traced", "twice", "iota"} <= set(dir(kernels))
    schema = str(torch.ops.traced_kernels.traced__scaled_into.default._schema)
    assert schema == "traced_kernels::traced__scaled_into(Tensor x, float s, Tensor(a2!) out) -> ()"


def case_new_arrays() -> None:
    x = torch.randn(5, 4, device=DEVICE)
    assert torch.equal(kernels.twice(x), traced_kernels.twice(x))
    call = torch.compile(lambda a: kernels.twice(a + 1).sum(0), fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (5, 3):
        y = torch.randn(rows, 4, device=DEVICE)
        torch.testing.assert_close(call(y), (2 * (y + 1)).sum(0))
    torch.library.opcheck(torch.ops.traced_kernels.traced__twice.default, (x,))


def case_destinations() -> None:
    x, out = torch.randn(7, device=DEVICE), torch.empty(7, device=DEVICE)
    assert kernels.scaled_into(x, s=3.0, out=out) is out
    torch.testing.assert_close(out, 3 * x)

    def program(a: Any, b: Any) -> Any:
        y = kernels.scaled_into(a, 2.0, b)
        return y + 1, y is b

    got, same = compiled(program)(x, out)
    assert same
    torch.testing.assert_close(out, 2 * x)
    torch.testing.assert_close(got, 2 * x + 1)
    torch.library.opcheck(torch.ops.traced_kernels.traced__scaled_into.default, (x, 2.0, out))


def case_references() -> None:
    x = torch.randn(9, device=DEVICE)
    before = x.clone()
    got = compiled(lambda a: kernels.incremented(a) * 2)(x)
    torch.testing.assert_close(x, before + 1)
    torch.testing.assert_close(got, 2 * x)


def case_numbers() -> None:
    x = torch.randn(6, device=DEVICE)
    assert kernels.two(x)[1] == 6
    with torch._dynamo.config.patch(capture_scalar_outputs=True):

        def program(a: Any) -> Any:
            y, n = kernels.two(a)
            return y * n

        torch.testing.assert_close(compiled(program)(x), 12 * x)


def case_extents_that_depend_on_data() -> None:
    call = compiled(lambda a: kernels.counted(a) + 1)
    for count in (4, 6):
        assert call(torch.tensor([count], device=DEVICE)).tolist() == list(range(1, count + 1))


def case_export() -> None:
    class Module(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            return kernels.twice(a) + 1

    example = torch.ones(5, 4, device=DEVICE)
    program = torch.export.export(Module(), (example,), dynamic_shapes={"a": {0: torch.export.Dim("n")}})
    assert "torch.ops.traced_kernels.traced__twice.default" in program.graph_module.code
    assert torch.equal(program.module()(torch.ones(3, 4, device=DEVICE)), torch.full((3, 4), 3.0, device=DEVICE))


def case_wrong_arguments() -> None:
    for wrong, text in ((torch.ones(5, 3), "another extent"), (torch.ones(5), "another rank"), (3, "Tensor")):
        said = ""
        try:
            kernels.twice(wrong.to(DEVICE) if isinstance(wrong, torch.Tensor) else wrong)
        except (ValueError, TypeError, RuntimeError) as error:
            said = str(error)
        assert text in said, (wrong, said)


def case_graph() -> None:
    """On a GPU only."""
    x, out = torch.randn(64, device=DEVICE), torch.zeros(64, device=DEVICE)
    call = torch.compile(lambda a: kernels.two(a)[0] + 1, fullgraph=True, mode="reduce-overhead")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for _ in range(4):
            torch.testing.assert_close(call(x), 2 * x + 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.scaled_into(x, 2.0, out)
    graph.replay()
    torch.testing.assert_close(out, 2 * x)


def case_without_arrays() -> None:
    """On a GPU only: that is where such a call goes."""
    call = torch.compile(lambda n: kernels.iota(n) * 2, fullgraph=True, backend="aot_eager", dynamic=True)
    assert call(5).tolist() == [0, 2, 4, 6, 8]


GPU_ONLY = {case_graph, case_without_arrays}

if __name__ == "__main__":
    DEVICE = sys.argv[1]
    for name, case in list(globals().items()):
        if name.startswith("case_") and (DEVICE == "cuda" or case not in GPU_ONLY):
            print(name, flush=True)
            case()
