"""Schedules and tiles that ``aot.toml`` chooses: which kernels they give, that those compute right, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpurun import build
from kernelsources import sources

from aot import mlir
from aot.errors import ConfigError
from aot.lower import tensor
from aot.lower.launches import tiling
from aot.lower.tensor import Options
from aot.settings import config
from aot.settings.wishes import Dropped, Wish
from aot.tiling import Tiling

STATIC = sources.Shape("s", 5, 4096)
DYNAMIC = sources.Shape("d")
TWO = """
func.func @two(%x: tensor<?x128xf32>, %y: tensor<?x128xf32>) -> (tensor<?xf32>, tensor<128x?xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x128xf32>
  %n = tensor.dim %y, %c0 : tensor<?x128xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<?x128xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
  %t = tensor.empty(%n) : tensor<128x?xf32>
  %u = linalg.transpose ins(%y : tensor<?x128xf32>) outs(%t : tensor<128x?xf32>) permutation = [1, 0]
  return %s, %u : tensor<?xf32>, tensor<128x?xf32>
}"""


def text(shape: Any, kind: str = "f32") -> str:
    return str(sources._MAPS + sources.softmax(kind, shape).replace("KIND", f"tensor<?x?x{kind}>"))


def wishes(table: str, function: str) -> tuple[Wish, ...]:
    read = config.parse(f"edition = 1\n[source.s.function.{function}]\n{table}", "aot.toml")
    return read.source("s").wishes


def kernels(source: str, options: Options) -> list[tuple[str, Tiling]]:
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "test.mlir", ctx)
        done = tensor.lower(module, {}, options, mlir.no_dump)
        launches = [op for op in mlir.walk(done.module) if op.name == "gpu.launch"]
        found = [(tiling.schedule_of(op), tiling.read(op)) for op in launches]
        return [(name, each) for name, each in found if each is not None]


GRANTED = [
    (
        "a row in one block",
        STATIC,
        'schedule = "row"\nthreads = 512\nvectors = 2',
        "row",
        "threads 512, rows 1, vectors 2",
    ),
    ("other sizes only", STATIC, "threads = 128\nvectors = 8", "row", "threads 128, rows 1, vectors 8, width 4, exact"),
    ("a loop", STATIC, 'schedule = "long-row"\nthreads = 256', "long-row", "threads 256, rows 1, "),
    ("no vectors", STATIC, 'schedule = "any-row"', "any-row", "threads 256, rows 1, vectors 2, width 1"),
    ("the general one", STATIC, 'schedule = "general"', "general", "threads "),
    ("narrow vectors", DYNAMIC, 'schedule = "row"\nthreads = 16\nrows = 4\nwidth = 2', "row", "threads 16, rows 4, "),
    ("a loop for any length", DYNAMIC, 'schedule = "long-row"', "long-row", "threads 512, rows 1, "),
]


@pytest.mark.parametrize(("shape", "table", "name", "sizes"), [row[1:] for row in GRANTED], ids=[r[0] for r in GRANTED])
def test_a_wish_is_granted(shape: Any, table: str, name: str, sizes: str) -> None:
    options = Options(wishes=wishes(table, f"softmax_{shape.name}"))
    found = kernels(text(shape), options)
    assert found[0][0] == name
    assert found[0][1].text().startswith(sizes)
    # Where it cannot run, for alignment, something else does.
    assert name in ("any-row", "general") or found[-1][0] == "any-row"
    program = build(text(shape), options=options)
    for n in (4096,) if shape is STATIC else (5, 33, 100, 1000, 4099):
        x = np.random.default_rng(1).standard_normal((5, n)).astype("f4")
        got = program.call(f"softmax_{shape.name}", x, np.full_like(x, np.nan)).results[0]
        e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_registers_hold_a_long_row_where_it_is_wished() -> None:
    shape = sources.Shape("long", 3, 11008)
    assert kernels(text(shape), Options())[0][0] != "row"
    options = Options(wishes=wishes('schedule = "row"\nthreads = 704\nvectors = 4', "softmax_long"))
    name, tiling = kernels(text(shape), options)[0]
    assert name == "row"
    assert tiling.text().startswith("threads 704, rows 1, vectors 4, width 4, masked")


def test_regions_have_wishes_of_their_own() -> None:
    plain = {each.region: (name, each.kind) for name, each in kernels(TWO, Options())}
    assert (plain[1][1], plain[2]) == ("rows", ("transpose", "transposes"))
    both = wishes('width = 1\n[source.s.function.two.region.1]\nschedule = "general"', "two")
    found = kernels(TWO, Options(wishes=both))
    mine = [(name, dict(each.tile).get("width")) for name, each in found if each.region]
    assert mine == [("pointwise", 1), ("transpose", 1)]
    assert "general" in [name for name, _ in found]


REFUSED = [
    ("of another class", STATIC, 'schedule = "transpose"', r"'transpose' is not for it; possible are row, .*general"),
    ("no size of it", STATIC, 'schedule = "row"\nm = 3', "has no size 'm'; it has threads, rows, vectors, width"),
    ("odd width", STATIC, "width = 3", "width 3 is not possible"),
    ("wide", STATIC, "width = 8", "width 8 is not possible"),
    ("too few threads", STATIC, 'schedule = "row"\nthreads = 64\nvectors = 4', "hold 1024 columns of a row of 4096"),
    ("threads", STATIC, 'schedule = "row"\nthreads = 100', "threads 100 is not possible"),
    ("too many threads", DYNAMIC, 'schedule = "row"\nthreads = 2048', "threads 2048 is not possible"),
    ("rows of many threads", DYNAMIC, "threads = 64\nrows = 2", "rows 2 is not possible with more than 32 threads"),
    (
        "all at once",
        STATIC,
        "width = 3\nthreads = 100\nvectors = 99",
        "width 3 is not .*; threads 100 is .*; vectors 99",
    ),
    ("no sizes of it", STATIC, 'schedule = "row"\nm = 3\nn = 4', "has no size 'm', 'n'; it has threads"),
    ("too many rows", DYNAMIC, "threads = 32\nrows = 64", "more than 1024 threads"),
]


@pytest.mark.parametrize(("shape", "table", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_wish_is_refused(shape: Any, table: str, message: str) -> None:
    name = f"softmax_{shape.name}"
    with pytest.raises(
        ConfigError, match=rf"aot\.toml:2: \[source\.s\.function\.{name}\]: region 1 \(rows\): .*{message}"
    ):
        kernels(text(shape), Options(wishes=wishes(table, name)))


def test_work_that_nothing_reads_has_no_schedule() -> None:
    kind = "memref<64xf32>"
    source = f"""func.func @f(%x: {kind}) {{
      %t = memref.alloc() : {kind}
      memref.copy %x, %t : {kind} to {kind}
      return
    }}"""
    assert kernels(source, Options()) == []
    with pytest.raises(ConfigError, match=r"region 1 \(pointwise\): nothing that it writes is read"):
        kernels(source, Options(wishes=wishes("width = 1", "f")))


def test_a_region_that_is_not_there() -> None:
    both = wishes("[source.s.function.two.region.3]\nwidth = 1", "two")
    with pytest.raises(ConfigError, match=r"aot\.toml:3: .*region\.3\]: the function has 2 regions"):
        kernels(TWO, Options(wishes=both))


@pytest.mark.parametrize("shape", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_a_dropped_kernel_gives_way_to_smaller_ones(shape: Any) -> None:
    dropped: list[Dropped] = []
    seen: set[tuple[str, Tiling]] = set()
    for _ in range(3):
        found = kernels(text(shape), Options(dropped=tuple(dropped)))
        name, first = next((name, each) for name, each in found if name != "any-row")
        assert (name, first) not in seen
        assert found[-1][0] == "any-row"
        seen.add((name, first))
        dropped.append(Dropped(f"softmax_{shape.name}", name, first))


def test_a_convolution_alone_is_told_to_have_the_general_schedule() -> None:
    image, filters, result = "tensor<1x3x16x16xf32>", "tensor<8x3x3x3xf32>", "tensor<1x8x14x14xf32>"
    source = f"""func.func @f(%x: {image}, %w: {filters}, %out: {result}) -> {result} {{
      %y = linalg.conv_2d_nchw_fchw ins(%x, %w : {image}, {filters}) outs(%out : {result}) -> {result}
      return %y : {result}
    }}"""
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "test.mlir", ctx)
        told = tensor.lower(module, {}, Options(), mlir.no_dump).general.reasons
    assert [each.partition(" (line")[0] for each in told] == ["f: linalg.conv_2d_nchw_fchw"]


PRODUCT = """
func.func @product(%a: tensor<?x64xf32>, %b: tensor<64x64xf32>, %c: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = linalg.matmul ins(%a, %b : tensor<?x64xf32>, tensor<64x64xf32>) outs(%c : tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}"""


@pytest.mark.parametrize(
    ("table", "made"),
    [
        ("", {"two: general", "product: general"}),
        ("[source.s.function.two.region.2]\nwidth = 1", {"two: row", "two: transpose", "product: general"}),
        ('[source.s.function.two.region.2]\nschedule = "general"', {"two: row", "two: general", "product: general"}),
        ('[source.s.function.two]\nschedule = "general"', {"two: general", "product: general"}),
        ('[source.s.function.product]\nschedule = "mma"', {"two: general", "product: mma"}),
    ],
)
def test_without_fast_schedules_functions_with_a_table_have_what_it_says(table: str, made: set[str]) -> None:
    wished = config.parse(f"edition = 1\n{table}", "aot.toml").source("s").wishes
    options = Options(schedules="general", wishes=wished, precision="tf32", capabilities=((8, 0),))
    with mlir.context() as ctx:
        module = mlir.parse((TWO + PRODUCT).encode(), "test.mlir", ctx)
        done = tensor.lower(module, {}, options, mlir.no_dump)
        launches = [op for op in mlir.walk(done.module) if op.name == "gpu.launch"]
        functions = [next(each for each in mlir.parents(op) if each.name == "func.func") for op in launches]
        names = [f"{mlir.symbol_name(f)}: {tiling.schedule_of(op)}" for f, op in zip(functions, launches, strict=True)]
    assert {name for name in names if name.partition(": ")[2] in ("general", "row", "transpose", "mma")} == made
    off = [
        each.partition(":")[0] for each in done.general.reasons if each.endswith("all of it: fast schedules are off")
    ]
    assert off == [name for name in ("two", "product") if f"function.{name}" not in table]


@pytest.mark.parametrize(
    ("table", "advice"),
    [
        ("rows = 64", '; for sizes of theirs, `schedule = "mma"` is missing'),
        ("m = 128", '; for sizes of theirs, `schedule = "wgmma"` is missing'),
        ("width = 2", ""),
        ('schedule = "row"', " to choose; their other kernels are the tool's own picks"),
        ('schedule = "ffma"', " to choose; their other kernels are the tool's own picks"),
    ],
)
def test_schedules_of_products_are_named_where_others_are_asked_of_them(table: str, advice: str) -> None:
    a, b, c = "tensor<128x64xf16>", "tensor<64x128xf16>", "tensor<128x128xf32>"
    source = f"""func.func @f(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %y = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %y : {c}
    }}"""
    with pytest.raises(ConfigError, match=f"products have schedules 'wgmma' and 'mma'{advice}$"):
        kernels(source, Options(wishes=wishes(table, "f")))
