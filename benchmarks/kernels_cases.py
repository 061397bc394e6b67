"""Memory-bound work in ``benchmarks/kernels.py``: the fixed lists of cases, and float64's word on results.

In: a family and an element type. Out: Cases: large ones, well past the L2 cache, each with a static and the
dynamic function; ``SMALL`` ones, short or odd, with the dynamic function; ``AWKWARD`` ones, which are only checked.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import kernels_sources as sources
import torch
from kernels_case import EPSILON, Call, Case, Group, Shape, compiled

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
F16_STEP = 6e-8
"""Distance of neighbours among the smallest f16 numbers."""
SMALL = ((64, 128), (1024, 1000), (333, 1023), (127, 4097), (4, 262144))
SMALL_HEADS = ((2, 77, 12, 128),)
AWKWARD = ((1, 1), (3, 5), (7, 33), (5, 1000), (9, 1001), (130, 1023), (2, 8200), (3, 30001), (70, 257), (1, 100003))
AWKWARD_HEADS = ((3, 5, 7, 128),)
POINTWISE = {
    "add": (2, lambda x, y: x + y),
    "add_relu": (2, lambda x, y: torch.relu(x + y)),
    "bias_gelu": (2, lambda x, y: torch.nn.functional.gelu(x + y)),
    "silu_mul": (2, lambda x, y: torch.nn.functional.silu(x) * y),
    "cast": (1, lambda x: x.to(torch.bfloat16)),
}
SUMS = {"sum_rows": (1,), "sum_columns": (0,), "sum_all": (0, 1)}


@dataclass(frozen=True)
class Work:
    """A case, as this module puts it."""

    family: str
    name: str
    kind: str
    shape: Shape
    statics: str | None
    """Suffix of the function with static extents."""
    eager: Call
    inputs: tuple[Shape, ...]
    output: Shape
    out_dtype: torch.dtype
    tolerance: float = 4.0
    """Steps of the result's type, relative to its size and the magnitude of what is summed."""

    def case(self) -> Case:
        """The same, as the benchmark takes it."""
        size = DTYPES[self.kind].itemsize
        suffixes = (("static", self.statics), ("dynamic", "dyn"))
        return Case(
            *(self.family, self.name, self.kind, self.shape),
            {column: f"{self.family}_{self.kind}.{self.name}_{suffix}" for column, suffix in suffixes if suffix},
            lambda device: [torch.randn(shape, device=device).to(DTYPES[self.kind]) for shape in self.inputs],
            *(self.output, self.out_dtype),
            {"eager": lambda: self.eager, "compile": lambda: compiled(self.eager), "triton": self._triton},
            lambda arrays, got: wrong(self, arrays, got),
            size * sum(map(math.prod, self.inputs)) + self.out_dtype.itemsize * math.prod(self.output),
            is_copy_like=self.name not in ("sum_columns", "sum_all"),
        )

    def _triton(self) -> Call | None:
        # Where nothing is compared with Triton it need not be there.
        made = importlib.import_module("kernels_triton").make(self.family, self.name, self.shape[-1], self.out_dtype)
        return cast("Call | None", made)


def large(family: str, kind: str) -> Iterator[Case]:
    """The sizes that the family is judged by."""
    return (each.case() for each in _large(family, kind))


def _large(family: str, kind: str) -> Iterator[Work]:
    if family in ("pointwise", "transposes"):
        m, n = sources.POINTWISE if family == "pointwise" else sources.TRANSPOSE
        yield from _shaped(family, kind, m, n, f"n{n}")
    elif family == "sums":
        for m, n in sources.SUMS:
            yield from _shaped(family, kind, m, n, f"m{m}_n{n}")
    else:
        for n in {"softmax": sources.SOFTMAX, "argmax": sources.ARGMAX}.get(family, sources.NORM):
            yield from _shaped(family, kind, sources.ROWS[n], n, f"n{n}")
    if family == "transposes":
        yield _heads(kind, sources.HEADS, "static")


def small(family: str, kind: str) -> Iterator[Case]:
    """Short and odd sizes, which are timed too."""
    return (each.case() for each in _dynamic(family, kind, SMALL, SMALL_HEADS))


def awkward(family: str, kind: str) -> Iterator[Case]:
    """Sizes at the edges of what tiles can take, which are only checked."""
    return (each.case() for each in _dynamic(family, kind, AWKWARD, AWKWARD_HEADS))


def _dynamic(family: str, kind: str, shapes: tuple[Shape, ...], heads: tuple[Shape, ...]) -> Iterator[Work]:
    for m, n in shapes:
        yield from _shaped(family, kind, m, n, None)
    for shape in heads if family == "transposes" else ():
        yield _heads(kind, shape, None)


def _shaped(family: str, kind: str, m: int, n: int, statics: str | None) -> Iterator[Work]:
    """Cases of one family on a matrix."""
    own = DTYPES[kind]
    if family == "pointwise":
        for name, (count, eager) in POINTWISE.items():
            if name == "cast" and kind != "f32":
                continue
            second = [(n,) if name == "bias_gelu" else (m, n)] * (count - 1)
            out = torch.bfloat16 if name == "cast" else own
            yield Work(family, name, kind, (m, n), statics, eager, ((m, n), *second), (m, n), out)
    elif family == "softmax":
        eager = lambda x: torch.softmax(x, -1)  # noqa: E731
        yield Work(family, "softmax", kind, (m, n), statics, eager, ((m, n),), (m, n), own, 16.0)
    elif family in ("layernorm", "rmsnorm"):
        eager = _norm(family == "layernorm")
        weights = ((n,),) * (2 if family == "layernorm" else 1)
        yield Work(family, family, kind, (m, n), statics, eager, ((m, n), *weights), (m, n), own, 32.0)
    elif family == "sums":
        for name, dims in SUMS.items():
            eager = lambda x, dims=dims: x.sum(dims)  # noqa: E731
            out_shape = tuple(e for d, e in enumerate((m, n)) if d not in dims)
            yield Work(family, name, kind, (m, n), statics, eager, ((m, n),), out_shape, own, 64.0)
    elif family == "argmax":
        eager = lambda x: x.argmax(-1)  # noqa: E731
        yield Work(family, "argmax", kind, (m, n), statics, eager, ((m, n),), (m,), torch.int64)
    elif family == "transposes":
        eager = lambda x: x.t().contiguous()  # noqa: E731
        yield Work(family, "transpose", kind, (m, n), statics, eager, ((m, n),), (n, m), own)


def _norm(layer: bool) -> Call:
    def layernorm(x: Any, g: Any, b: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), g, b, 1e-5)

    def rmsnorm(x: Any, g: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), g, 1e-5)

    return layernorm if layer else rmsnorm


def _heads(kind: str, shape: Shape, statics: str | None) -> Work:
    b, s, h, d = shape
    eager = lambda x: x.transpose(1, 2).contiguous()  # noqa: E731
    return Work("transposes", "heads", kind, shape, statics, eager, (shape,), (b, h, s, d), DTYPES[kind])


def wrong(case: Work, arrays: list[Any], got: Any) -> str:
    """Why a result is wrong, compared with float64; empty when it is right."""
    wide = [each.double() for each in arrays]
    if case.name == "argmax":
        return _wrong_places(wide[0], got)
    want = case.eager(*wide).double()
    size = want.abs().clamp_min(1e-6)
    if case.family == "sums":
        size = size + wide[0].square().sum(SUMS[case.name]).sqrt()
    elif case.family not in ("softmax", "transposes"):
        size = size + 1.0
    error = ((got.double() - want).abs() / size).nan_to_num(float("inf")).max()
    limit = case.tolerance * EPSILON[case.out_dtype]
    if case.family == "softmax" and case.out_dtype == torch.float16:
        limit += F16_STEP / 1e-6
    return f"error {float(error):.3g}, {limit:.3g} allowed" if float(error) > limit else ""


def _wrong_places(x: Any, got: Any) -> str:
    """Of argmax: every place must hold the row's largest element, and be the first such place."""
    best = x.max(-1).values
    inside = (got >= 0) & (got < x.shape[1])
    found = x.gather(1, got.clamp(0, x.shape[1] - 1).unsqueeze(1)).squeeze(1)
    first = (x == best.unsqueeze(1)).to(torch.uint8).argmax(-1)
    bad = ~(inside & (found == best) & (got == first))
    return f"{int(bad.sum())} places" if bool(bad.any()) else ""


GROUP = Group(
    "memory-bound",
    ("pointwise", "softmax", "layernorm", "rmsnorm", "sums", "argmax", "transposes"),
    tuple(DTYPES),
    ("eager", "compile", "triton"),
    *(large, small, awkward),
)
