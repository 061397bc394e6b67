"""Memory-bound kernels from tensor level against PyTorch, its compiler and Triton, side by side on a GPU.

    python benchmarks/kernels.py FAMILY [--site FOLDER] [--types f32 --types f16] [--check]

FAMILY: pointwise, softmax, layernorm, rmsnorm, sums, argmax, transposes. The package ``bench_kernels`` is built from
``benchmarks/kernels_sources.py``; ``--site`` is a folder that holds it. Every contender is captured in a CUDA graph
over several sets of inputs, more than the L2 cache holds; graphs are replayed in turn: ours, static and dynamic, the
peers, ours, ... Times are medians in microseconds; ``x`` is the best peer's time over ours. Results are compared with
float64 before; ``--check`` does only that, at awkward sizes, too.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import kernels_sources as sources

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
EPSILON = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
ROUNDS, REPLAYS = 9, 5
ROTATED_BYTES = 256 << 20
AWKWARD = ((1, 1), (3, 5), (7, 33), (5, 1000), (9, 1001), (130, 1023), (2, 8200), (3, 30001), (70, 257), (1, 100003))
"""Rows and columns of the dynamic functions with ``--check``."""


@dataclass(frozen=True)
class Case:
    """One thing to compute."""

    family: str
    name: str
    kind: str
    shape: tuple[int, ...]
    statics: str | None
    """Suffix of the function with static extents."""
    eager: Callable[..., Any]
    exact: Callable[..., Any]
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    out_dtype: torch.dtype
    tolerance: float = 4.0
    """Steps of the result's type, relative to its size and the magnitude of what is summed."""

    def bytes(self) -> int:
        size = DTYPES[self.kind].itemsize
        return size * sum(map(math.prod, self.inputs)) + self.out_dtype.itemsize * math.prod(self.output)


def _norm(layer: bool) -> Callable[..., Any]:
    def layernorm(x: Any, g: Any, b: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), g, b, 1e-5)

    def rmsnorm(x: Any, g: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), g, 1e-5)

    return layernorm if layer else rmsnorm


POINTWISE = {
    "add": (2, lambda x, y: x + y),
    "add_relu": (2, lambda x, y: torch.relu(x + y)),
    "bias_gelu": (2, lambda x, y: torch.nn.functional.gelu(x + y)),
    "silu_mul": (2, lambda x, y: torch.nn.functional.silu(x) * y),
    "cast": (1, lambda x: x.to(torch.bfloat16)),
}
SUMS = {"sum_rows": (1,), "sum_columns": (0,), "sum_all": (0, 1)}


def _shaped(family: str, kind: str, m: int, n: int, statics: str | None) -> Iterator[Case]:
    """Cases of one family on a matrix."""
    own = DTYPES[kind]
    if family == "pointwise":
        for name, (count, eager) in POINTWISE.items():
            if name == "cast" and kind != "f32":
                continue
            second = [(n,) if name == "bias_gelu" else (m, n)] * (count - 1)
            out = torch.bfloat16 if name == "cast" else own
            yield Case(family, name, kind, (m, n), statics, eager, eager, ((m, n), *second), (m, n), out)
    elif family == "softmax":
        eager = lambda x: torch.softmax(x, -1)  # noqa: E731
        yield Case(family, "softmax", kind, (m, n), statics, eager, eager, ((m, n),), (m, n), own, 16.0)
    elif family in ("layernorm", "rmsnorm"):
        eager = _norm(family == "layernorm")
        weights = ((n,),) * (2 if family == "layernorm" else 1)
        yield Case(family, family, kind, (m, n), statics, eager, eager, ((m, n), *weights), (m, n), own, 32.0)
    elif family == "sums":
        for name, dims in SUMS.items():
            eager = lambda x, dims=dims: x.sum(dims)  # noqa: E731
            out_shape = tuple(e for d, e in enumerate((m, n)) if d not in dims)
            yield Case(family, name, kind, (m, n), statics, eager, eager, ((m, n),), out_shape, own, 64.0)
    elif family == "argmax":
        eager = lambda x: x.argmax(-1)  # noqa: E731
        yield Case(family, "argmax", kind, (m, n), statics, eager, eager, ((m, n),), (m,), torch.int64)
    elif family == "transposes":
        eager = lambda x: x.t().contiguous()  # noqa: E731
        yield Case(family, "transpose", kind, (m, n), statics, eager, eager, ((m, n),), (n, m), own)


def cases(family: str, kind: str) -> Iterator[Case]:
    """The fixed list of a family."""
    if family in ("pointwise", "transposes"):
        m, n = sources.POINTWISE if family == "pointwise" else sources.TRANSPOSE
        yield from _shaped(family, kind, m, n, f"n{n}")
    elif family == "sums":
        for m, n in sources.SUMS:
            yield from _shaped(family, kind, m, n, f"m{m}_n{n}")
    else:
        lists = {"softmax": sources.SOFTMAX, "argmax": (1000, 4096, 50257)}
        for n in lists.get(family, sources.NORM):
            yield from _shaped(family, kind, sources.ROWS[n], n, f"n{n}")
    if family == "transposes":
        yield _heads(kind, sources.HEADS, "static")


def _heads(kind: str, shape: tuple[int, ...], statics: str | None) -> Case:
    b, s, h, d = shape
    eager = lambda x: x.transpose(1, 2).contiguous()  # noqa: E731
    return Case("transposes", "heads", kind, shape, statics, eager, eager, (shape,), (b, h, s, d), DTYPES[kind])


def awkward(family: str, kind: str) -> Iterator[Case]:
    """Small and odd sizes, for the dynamic functions."""
    for m, n in AWKWARD:
        yield from _shaped(family, kind, m, n, None)
    if family == "transposes":
        yield _heads(kind, (3, 5, 7, 128), None)


def _arrays(case: Case) -> list[Any]:
    return [torch.randn(shape, device="cuda").to(DTYPES[case.kind]) for shape in case.inputs]


def _ours(package: Any, case: Case, suffix: str) -> Callable[..., Any]:
    function = getattr(getattr(package, f"{case.family}_{case.kind}"), f"{case.name}_{suffix}")

    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


def _poisoned(case: Case) -> Any:
    out = torch.empty(case.output, device="cuda", dtype=case.out_dtype)
    return out.fill_(-1 if case.out_dtype == torch.int64 else float("nan"))


def wrong(case: Case, arrays: list[Any], got: Any) -> str:
    """Why a result is wrong, compared with float64; empty when it is right."""
    with torch.no_grad():
        wide = [each.double() for each in arrays]
        if case.name == "argmax":
            best = wide[0].max(-1).values
            inside = (got >= 0) & (got < case.shape[1])
            found = wide[0].gather(1, got.clamp(0, case.shape[1] - 1).unsqueeze(1)).squeeze(1)
            first = (wide[0] == best.unsqueeze(1)).to(torch.uint8).argmax(-1)
            bad = ~(inside & (found == best) & (got == first))
            return f"{int(bad.sum())} places" if bool(bad.any()) else ""
        want = case.exact(*wide).double()
        size = want.abs().clamp_min(1e-6)
        if case.family == "sums":
            dims = SUMS[case.name]
            size = size + wide[0].square().sum(dims).sqrt()
        elif case.family != "softmax" and case.family != "transposes":
            size = size + 1.0
        error = ((got.double() - want).abs() / size).nan_to_num(float("inf")).max()
        limit = case.tolerance * EPSILON[case.out_dtype] + (6e-8 / 1e-6 if case.out_dtype == torch.float16 else 0.0) * (
            case.family == "softmax"
        )
    return f"error {float(error):.3g}, {limit:.3g} allowed" if float(error) > limit else ""


def check(package: Any, case: Case, suffixes: list[str]) -> list[str]:
    """Faults of our functions."""
    faults = []
    arrays = _arrays(case)
    for suffix in suffixes:
        got = _ours(package, case, suffix)(*arrays, _poisoned(case))
        torch.cuda.synchronize()
        reason = wrong(case, arrays, got)
        if reason:
            faults.append(f"{case.name}_{suffix} {case.kind} {case.shape}: {reason}")
    return faults


def _graph(call: Callable[..., Any], sets: list[list[Any]]) -> Any:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for arrays in sets[:2]:
            call(*arrays)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for arrays in sets:
            call(*arrays)
    return graph


def _times(graphs: dict[str, Any], count: int) -> dict[str, float]:
    """Median microseconds of one call, by contender."""
    found: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            begin.record()
            for _ in range(REPLAYS):
                graph.replay()
            end.record()
            end.synchronize()
            found[name].append(begin.elapsed_time(end) * 1000 / REPLAYS / count)
    return {name: statistics.median(times) for name, times in found.items()}


def measure(package: Any, case: Case, *, compiled: bool) -> dict[str, float]:
    """Times of all contenders; those that cannot run are left out."""
    count = max(2, -(-ROTATED_BYTES // case.bytes()))
    plain = [_arrays(case) for _ in range(count)]
    given = [[*arrays, _poisoned(case)] for arrays in plain]
    peers: dict[str, Callable[..., Any]] = {"eager": case.eager}
    if compiled:
        torch._dynamo.reset()
        peers["compile"] = torch.compile(case.eager, dynamic=False)
    kernels_triton = importlib.import_module("kernels_triton")
    triton_kernel = kernels_triton.make(case.family, case.name, case.shape[-1], case.out_dtype)
    if triton_kernel is not None:
        peers["triton"] = triton_kernel
    graphs = {}
    for suffix in (case.statics, "dyn"):
        if suffix is not None:
            label = "dynamic" if suffix == "dyn" else "static"
            graphs[label] = _graph(_ours(package, case, suffix), given)
    for name, call in peers.items():
        try:
            graphs[name] = _graph(call, plain)
        except Exception as error:
            print(f"  {name} does not run: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    copy = torch.empty(case.bytes() // 8, device="cuda", dtype=torch.float32)
    graphs["copy"] = _graph(lambda x: copy.copy_(x), [[torch.empty_like(copy)] for _ in range(2)])
    return _times(graphs, count) | {"copy": _times({"copy": graphs["copy"]}, 2)["copy"]}


def row(case: Case, times: dict[str, float]) -> tuple[str, list[float]]:
    """A line of the table, and the ratios of the static and the dynamic function."""
    best = min((times[name] for name in ("eager", "compile", "triton") if name in times), default=math.nan)
    ratios = [best / times[name] for name in ("static", "dynamic") if name in times]
    cells = [
        f"{times.get(name, math.nan):9.1f}" for name in ("static", "dynamic", "eager", "compile", "triton", "copy")
    ]
    speed = case.bytes() / min(times[n] for n in ("static", "dynamic") if n in times) / 1e6
    shape = "x".join(map(str, case.shape))
    label = f"{case.name:12} {case.kind:5} {shape:16}"
    return f"{label} {' '.join(cells)}  x {' '.join(f'{r:5.2f}' for r in ratios)}  {speed:5.2f} TB/s", ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="+")
    parser.add_argument("--site", type=Path)
    parser.add_argument("--types", action="append", choices=list(DTYPES))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    if options.site:
        sys.path.insert(0, str(options.site))
    package = importlib.import_module("bench_kernels")
    torch.manual_seed(1)
    faults: list[str] = []
    ratios: list[float] = []
    begun = time.time()
    for family in options.family:
        for kind in options.types or list(DTYPES):
            for case in awkward(family, kind) if options.check else ():
                faults += check(package, case, ["dyn"])
            if not options.check:
                names = " ".join(f"{n:>9}" for n in ("static", "dynamic", "eager", "compile", "triton", "copy"))
                print(f"{family} {kind}: us per call".ljust(36), names)
            for case in cases(family, kind):
                faults += check(package, case, [case.statics or "dyn", "dyn"])
                if not options.check:
                    line, found = row(case, measure(package, case, compiled=not options.no_compile))
                    ratios += found
                    print(line, flush=True)
                torch.cuda.empty_cache()
    for fault in faults:
        print("WRONG", fault)
    mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan
    print(f"{len(faults)} wrong; geometric mean {mean:.3f}; {time.time() - begun:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
