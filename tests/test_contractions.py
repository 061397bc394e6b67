"""Values of contractions at awkward sizes, on the CPU: threads that wait for each other are fibers there.

What is computed with them (biases, residuals, casts), how operands lie (transposed, batched, shared by a batch), and
sizes that are no multiple of anything. Both orders of threads are run: a result that depends on the order is a race.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpurun import Program, build

from aot.lower.contract.mma import dmma, dmmachoice, tensorcores
from aot.lower.contract.products import kinds
from aot.lower.contract.simt import matvec
from aot.lower.tensor import Options
from aot.settings.wishes import ROOMY, Dropped, Wish
from aot.targets.arch import Capability
from aot.tiling import Tiling

SIZES = ((1, 8, 8), (7, 13, 17), (33, 64, 40), (130, 136, 24), (0, 4, 3), (5, 3, 0))

LAYER = """
func.func @layer(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %bias: tensor<?xf32>, %r: tensor<?x?xf16>,
                 %c: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %p = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  %o = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %bias, %r : tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf16>) outs(%c : tensor<?x?xf16>) {
  ^bb0(%x: f32, %y: f32, %s: f16, %old: f16):
    %t = arith.addf %x, %y : f32
    %u = arith.maximumf %t, %z : f32
    %v = arith.truncf %u : f32 to f16
    %w = arith.addf %v, %s : f16
    linalg.yield %w : f16
  } -> tensor<?x?xf16>
  return %o : tensor<?x?xf16>
}"""


@functools.cache
def program(source: str, *, backwards: bool = False, capability: Capability | None = None) -> Program:
    """The source as images of one capability have it, or those of the newest."""
    return build(source, backwards=backwards, options=Options(capabilities=(capability,) if capability else ()))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_layer(backwards: bool) -> None:
    random = np.random.default_rng(1)
    for m, n, k in SIZES:
        a, b = random.standard_normal((m, k)).astype("f4"), random.standard_normal((k, n)).astype("f4")
        bias, r = random.standard_normal(n).astype("f4"), random.standard_normal((m, n)).astype("f2")
        got = program(LAYER, backwards=backwards).call("layer", a, b, bias, r, np.full((m, n), np.nan, "f2"))
        want = np.maximum(a.astype("f8") @ b + bias, 0) + r
        np.testing.assert_allclose(got.results[0].astype("f8"), want, rtol=2e-3, atol=2e-3, err_msg=f"{m} {n} {k}")


GENERIC = """
func.func @f(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
  %r = linalg.generic {{indexing_maps = [affine_map<{maps[0]}>, affine_map<{maps[1]}>, affine_map<{maps[2]}>],
      iterator_types = [{kinds}]}} ins(%a, %b : {a}, {b}) outs(%c : {c}) {{
  ^bb0(%x: {left}, %y: {right}, %o: {sum}):
    {body}
    linalg.yield %t : {sum}
  }} -> {c}
  return %r : {c}
}}"""
_WIDENED = "%v = arith.extf %x : {0} to f32\n%w = arith.extf %y : {0} to f32\n"
_INTEGERS = "%v = arith.ext{0}i %x : i8 to i32\n%w = arith.ext{0}i %y : i8 to i32\n"
_F32 = "%p = arith.mulf %v, %w : f32\n%t = arith.addf %o, %p : f32"
_I32 = "%p = arith.muli %v, %w : i32\n%t = arith.addi %o, %p : i32"
BODIES = {
    ("f16", "f16", "f32"): _WIDENED.format("f16") + _F32,
    ("bf16", "bf16", "f32"): _WIDENED.format("bf16") + _F32,
    ("f8E4M3FN", "f8E4M3FN", "f32"): _WIDENED.format("f8E4M3FN") + _F32,
    ("f8E5M2", "f8E5M2", "f32"): _WIDENED.format("f8E5M2") + _F32,
    ("f8E4M3FN", "f8E5M2", "f32"): _WIDENED.format("f8E4M3FN").replace("%y : f8E4M3FN", "%y : f8E5M2") + _F32,
    ("i8", "i8", "i32"): _INTEGERS.format("s") + _I32,
    ("f32", "f32", "f32"): "%p = arith.mulf %x, %y : f32\n%t = arith.addf %o, %p : f32",
    ("f64", "f64", "f64"): "%p = arith.mulf %x, %y : f64\n%t = arith.addf %p, %o : f64",
    (
        "f32",
        "f64",
        "f64",
    ): "%w = arith.extf %x : f32 to f64\n%p = arith.mulf %w, %y : f64\n%t = arith.addf %p, %o : f64",
    ("i8", "i32", "i32"): "%w = arith.extsi %x : i8 to i32\n%p = arith.muli %w, %y : i32\n%t = arith.addi %o, %p : i32",
}
LAYOUTS = {
    "transposed": ("km,nk->mn", {"m": 24, "n": 40, "k": 36}),
    "result_transposed": ("mk,kn->nm", {"m": 24, "n": 40, "k": 36}),
    "heads": ("bqhd,bkhd->bhqk", {"b": 2, "q": 5, "h": 3, "d": 8, "k": 9}),
    "shared_by_a_batch": ("bsk,kn->bsn", {"b": 3, "s": 7, "k": 12, "n": 20}),
    "two_summed": ("mkl,kln->mn", {"m": 4, "k": 3, "l": 5, "n": 16}),
    "two_summed_apart": ("mkl,lkn->mn", {"m": 4, "k": 3, "l": 5, "n": 16}),
    "vector": ("mk,k->m", {"m": 11, "k": 33}),
    "row_of_columns": ("k,kn->n", {"k": 2100, "n": 72}),
    "row_of_rows": ("bk,nk->bn", {"b": 1, "k": 1100, "n": 9}),
    "outer_batches": ("amk,abkn->abmn", {"a": 2, "b": 2, "m": 3, "k": 8, "n": 4}),
}
DTYPES = {"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8", "i8": "i1", "i32": "i4"}
DTYPES |= {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def generic(einsum: str, extents: Mapping[str, object], types: tuple[str, str, str]) -> str:
    inputs, output = einsum.split("->")
    parts = [*inputs.split(","), output]
    loops = list(dict.fromkeys("".join(parts)))
    head = ", ".join(loops)
    maps = [f"({head}) -> ({', '.join(part)})" for part in parts]
    kinds = ", ".join('"parallel"' if loop in output else '"reduction"' for loop in loops)
    a, b, c = (
        f"tensor<{'x'.join(str(extents[loop]) for loop in part)}x{kind}>"
        for part, kind in zip(parts, types, strict=True)
    )
    return GENERIC.format(
        a=a, b=b, c=c, maps=maps, kinds=kinds, left=types[0], right=types[1], sum=types[2], body=BODIES[types]
    )


def numbers(shape: tuple[int, ...], kind: str) -> Any:
    random = np.random.default_rng(len(shape) + sum(shape))
    return random.integers(-9, 9, shape).astype(DTYPES[kind])


TENSOR_CORES = {
    "plain": ("mk,kn->mn", {"m": 130, "n": 72, "k": 136}),
    "right_by_columns": ("mk,nk->mn", {"m": 67, "n": 80, "k": 80}),
    "left_by_columns": ("km,kn->mn", {"m": 136, "n": 64, "k": 40}),
    "heads": ("bqhd,bkhd->bhqk", {"b": 2, "q": 5, "h": 2, "d": 64, "k": 24}),
    "few_rows": ("mk,kn->mn", {"m": 5, "n": 136, "k": 1160}),
    "few_rows_by_columns": ("bmk,nk->bmn", {"b": 2, "m": 3, "n": 24, "k": 600}),
    "parts": ("mk,kn->mn", {"m": 17, "n": 24, "k": 776}),
    "odd": ("mk,kn->mn", {"m": 35, "n": 67, "k": 33}),
    "odd_and_long": ("mk,nk->mn", {"m": 18, "n": 21, "k": 1031}),
    "words_across": ("bmk,bkn->bmn", {"b": 2, "m": 35, "n": 80, "k": 200}),
    "odd_batch": ("bkm,nk->bmn", {"b": 3, "m": 7, "n": 19, "k": 17}),
}


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        ("plain", "f16"),
        ("left_by_columns", "bf16"),
        ("right_by_columns", "i8"),
        ("heads", "f16"),
        ("odd", "i8"),
        ("odd_batch", "f16"),
        ("odd_and_long", "bf16"),
        ("few_rows", "bf16"),
        ("few_rows_by_columns", "i8"),
        ("parts", "f16"),
        ("words_across", "i8"),
        ("words_across", "f8E4M3FN"),
        ("odd_batch", "i8"),
        ("plain", "f8E4M3FN"),
        ("odd", "f8E5M2"),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_tensor_cores(layout: str, kind: str, backwards: bool) -> None:
    """Copies come as late as they may, or at once with threads in falling order."""
    einsum, extents = TENSOR_CORES[layout]
    types = next(each for each in BODIES if each[:2] == (kind, kind))
    built = program(generic(einsum, extents, types), backwards=backwards)
    assert 'aot.schedule = "mma"' in built.ir
    _check(built, einsum, extents, types)


@pytest.mark.parametrize("backwards", [False, True])
def test_bytes_of_two_kinds_on_tensor_cores(backwards: bool) -> None:
    """Floats with more and with less fraction; numbers with and without a sign."""
    einsum, extents = TENSOR_CORES["right_by_columns"]
    types = ("f8E4M3FN", "f8E5M2", "f32")
    built = program(generic(einsum, extents, types), backwards=backwards)
    assert 'remarks = ["e4m3 x e5m2"]' in built.ir
    _check(built, einsum, extents, types)
    signed = ("i8", "i8", "i32")
    source = generic(einsum, extents, signed).replace("arith.extsi %y", "arith.extui %y")
    built = program(source, backwards=backwards)
    assert 'remarks = ["s8 x u8"]' in built.ir
    a, b = (numbers(shape, "i8") for shape in ((67, 80), (80, 80)))
    got = built.call("f", a, b, np.zeros((67, 80), "i4")).results[0]
    np.testing.assert_array_equal(got, a.astype("i4") @ b.view("u1").astype("i4").T)


@pytest.mark.parametrize(
    ("capability", "schedules"), [((8, 0), {"pack", "mma"}), ((7, 5), {"ffma"})], ids=["sm_80", "sm_75"]
)
def test_small_floats_of_older_gpus(capability: Capability, schedules: set[str]) -> None:
    """What tensor cores do not multiply, they do as f16; without any, factors go through registers."""
    einsum, extents = TENSOR_CORES["right_by_columns"]
    types = next(each for each in BODIES if each[0] == "f8E4M3FN")
    built = program(generic(einsum, extents, types), capability=capability)
    assert {name for name in ("pack", "mma", "ffma") if f'aot.schedule = "{name}"' in built.ir} == schedules
    _check(built, einsum, extents, types)


DOUBLES = ("f64", "f64", "f64")
DOUBLE_TILES = {
    "right_by_rows": ("mk,kn->mn", dmma.LARGE),
    "right_by_columns": ("mk,nk->mn", dmma.MIDDLE),
    "left_by_columns": ("km,kn->mn", dmma.NARROW),
    "both_by_columns": ("km,nk->mn", dmma.SMALL),
}


@pytest.mark.parametrize(("capability", "instruction"), [((9, 0), "m16n8"), ((8, 0), "m8n8")])
@pytest.mark.parametrize(("einsum", "tile"), DOUBLE_TILES.values(), ids=DOUBLE_TILES)
def test_doubles_on_tensor_cores(
    einsum: str, tile: dmma.Tile, capability: Capability, instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dmma, "LEAST_SHARED", 0)
    # The time of the others decides against them.
    times = [(each, 1 if each == tile else 1000) for each, _ in dmmachoice.TIMES]
    monkeypatch.setattr(dmmachoice, "TIMES", tuple(times))
    options = Options(capabilities=(capability,))
    built = build(generic(einsum, dict.fromkeys("mnk", "?"), DOUBLES), backwards=True, options=options)
    assert set(re.findall(r"llvm\.nvvm\.mma\.(m\d+n8)k\d+\.", built.ir)) == {instruction}
    found = set(re.findall(r'aot.schedule = "dmma".*?"rows", (\d+), "columns", (\d+)', built.ir))
    assert tuple(map(str, tile.extents)) in found
    for m, n, k in ((35, 67, 33), (34, 40, 136)):
        _check(built, einsum, {"m": m, "n": n, "k": k}, DOUBLES)


@pytest.mark.parametrize("einsum", ["mk,kn->mn", "mk,nk->mn", "km,kn->mn"])
def test_doubles_are_copied_in_vectors_where_all_of_them_are_aligned(einsum: str) -> None:
    """16 bytes at a time, however they lie; a kernel of its own copies 8, one by one."""
    built = build(generic(einsum, dict.fromkeys("mnk", 1024), DOUBLES), options=Options(capabilities=((9, 0),)))
    sizes = [set(re.findall(r"cp\.async\.shared\.global %\d+, %\d+, (\d+)", each)) for each in _double_kernels(built)]
    assert sizes == [{"16"}, {"8"}]


@pytest.mark.parametrize(("size", "hidden"), [(4096, 3), (512, 0)], ids=["large", "small"])
def test_loops_over_many_doubles_are_not_told_static_extents(size: int, hidden: int) -> None:
    """So that they are those of dynamic functions, whose barrier is in the middle of the products."""
    built = program(generic("mk,kn->mn", dict.fromkeys("mnk", size), DOUBLES), capability=(9, 0))
    assert len(re.findall(rf'inline_asm has_side_effects "".* %c{size}_i32', _double_kernels(built)[0])) == hidden


def _double_kernels(built: Program) -> list[str]:
    """Bodies of the kernels on tensor cores."""
    parts = re.split(r'aot\.schedule = "(\w+)"', built.ir)
    return [body for body, name in zip(parts[::2], parts[1::2], strict=False) if name == "dmma"]


DOUBLE_SIZES = {
    (4096, 4096, 4096): (DOUBLES, dmma.LARGE),
    (1536, 1536, 1536): (DOUBLES, dmma.NARROW),
    (1024, 1024, 1024): (DOUBLES, dmma.MIDDLE),
    (512, 512, 512): (DOUBLES, dmma.SMALL),
    # A long sum, in parts; what is converted on its way goes through registers.
    (300, 520, 4104): (DOUBLES, dmma.MIDDLE),
    (4096, 4096, 2048): (("f32", "f64", "f64"), dmma.MIDDLE),
}


@pytest.mark.parametrize(("sizes", "types", "tile"), [(sizes, *rest) for sizes, rest in DOUBLE_SIZES.items()])
def test_a_tile_of_doubles_suits_the_sizes(
    sizes: tuple[int, int, int], types: tuple[str, str, str], tile: dmma.Tile
) -> None:
    source = generic("mk,kn->mn", dict(zip("mnk", sizes, strict=True)), types)
    found = re.search(r'aot.schedule = "dmma".*?"rows", (\d+), "columns", (\d+)', program(source, capability=(9, 0)).ir)
    assert found is not None
    assert (int(found[1]), int(found[2])) == tile.extents


@pytest.mark.parametrize("tile", [tile for tile, _ in dmmachoice.TIMES])
@pytest.mark.parametrize("along_k", list(itertools.product((False, True), repeat=2)))
def test_lanes_read_doubles_from_different_banks(tile: dmma.Tile, along_k: tuple[bool, bool]) -> None:
    """Half a warp 8 bytes each, or a quarter 16: two rows that are neighbours, for a step of ``k`` of four."""
    form = tile.form(along_k)
    for side, (shape, rows) in enumerate(zip(form.shapes, (2, 1), strict=True)):
        pairs = side == 0 and not shape.along_k
        size, lanes = (16, 8) if pairs else (8, 16)
        places = [lane % 4 * shape.k_bytes + lane // 4 * rows * shape.outer_bytes for lane in range(lanes)]
        assert sorted(place % 128 for place in places) == list(range(0, 128, size))


def test_a_stages_first_numbers_are_read_at_the_end_of_the_turn_before() -> None:
    """Behind the barrier, and where LLVM may not move them from: to the next turn, which would begin with a wait."""
    ir = program(generic("mk,kn->mn", dict.fromkeys("mnk", "?"), ("f32", "f32", "f32"))).ir
    turns = [re.findall(r"llvm\.load volatile|llvm\.load|scf\.yield", each) for each in ir.split("gpu.barrier")]
    ends = [each for each in turns if each[:5] == ["llvm.load volatile"] * 4 + ["scf.yield"]]
    assert len(ends) == ir.count('aot.schedule = "ffma"') == 2


@pytest.mark.parametrize("einsum", ["mk,kn->mn", "km,kn->mn"])
@pytest.mark.parametrize("backwards", [False, True])
def test_one_kernel_copies_vectors_and_what_is_not_aligned(einsum: str, backwards: bool) -> None:
    built = program(generic(einsum, dict.fromkeys("mnk", "?"), ("f32", "f32", "f32")), backwards=backwards)
    assert len(re.findall(r'aot.schedule = "ffma".*?"rows", (\d+)', built.ir)) == 2
    for extents in ({"m": 72, "n": 136, "k": 41}, {"m": 35, "n": 67, "k": 33}):
        for shift in (0, 1, 2):
            inputs = [
                _shifted(numbers(tuple(extents[loop] for loop in part), "f32"), shift) for part in einsum[:5].split(",")
            ]
            got = built.call("f", *inputs, np.zeros((extents["m"], extents["n"]), "f4")).results[0]
            np.testing.assert_array_equal(got, np.einsum(einsum, *inputs))


def _shifted(array: Any, elements: int) -> Any:
    """The array so many elements behind a vector's place."""
    lanes = 16 // array.itemsize
    memory = np.zeros(array.size + 2 * lanes, array.dtype)
    start = -memory.ctypes.data // array.itemsize % lanes + elements
    memory[start : start + array.size] = array.ravel()
    return memory[start : start + array.size].reshape(array.shape)


PRECISIONS = {
    "of the source": ("", "", "tf32", "mma"),
    "of a function": ("", ' attributes {aot.precision = "tf32"}', "f32", "mma"),
    "of a module": ("module", "", "f32", "mma"),
    "of an operation": ('aot.precision = "tf32", ', "", "f32", "mma"),
    "exact": ("", "", "f32", "ffma"),
    "exact by its own word": (
        'aot.precision = "f32", ',
        ' attributes {aot.precision = "tf32"}',
        "tf32",
        "ffma",
    ),
}


@pytest.mark.parametrize(("own", "function", "source", "schedule"), PRECISIONS.values(), ids=PRECISIONS)
def test_a_precision_may_be_asked_for(own: str, function: str, source: str, schedule: str) -> None:
    einsum, extents = TENSOR_CORES["odd"]
    types = ("f32", "f32", "f32")
    text = generic(einsum, extents, types)
    if own == "module":
        text = f'module attributes {{aot.precision = "tf32"}} {{ {text} }}'
    else:
        text = text.replace("linalg.generic {", f"linalg.generic {{{own}")
    text = text.replace(" {\n  %r", f"{function} {{\n  %r", 1)
    built = build(text, options=Options(precision=source))
    assert f'aot.schedule = "{schedule}"' in built.ir
    _check(built, einsum, extents, types)


TILES = [tile for tile, _ in tensorcores._TILES]


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: f"{tile.rows}x{tile.columns}")
def test_tiles(tile: Any) -> None:
    wish = Wish("f", 0, "mma", (("rows", tile.rows), ("columns", tile.columns)), "")
    einsum, extents, types = "mk,kn->mn", {"m": tile.rows + 8, "n": tile.columns + 8, "k": 200}, ("f16", "f16", "f32")
    built = build(generic(einsum, extents, types), options=Options(wishes=(wish,)))
    assert f'["rows", {tile.rows}, "columns", {tile.columns}' in built.ir
    _check(built, einsum, extents, types)


@pytest.mark.parametrize("tile", TILES[1:3], ids=lambda tile: f"{tile.rows}x{tile.columns}")
def test_the_place_of_a_tile_waits_in_shared_memory_where_registers_spilled(tile: Any) -> None:
    told = tile.told(kinds.HALF)
    wish = Wish("f", 0, "mma", (("rows", tile.rows), ("columns", tile.columns)), "")
    spilled = Dropped("f", "mma", Tiling("contractions", 0, tuple(told.sizes.items()), told.remarks))
    einsum, extents, types = (
        "bmk,bnk->bmn",
        {"b": 2, "m": tile.rows + 8, "n": tile.columns + 8, "k": 200},
        ("f16", "f16", "f32"),
    )
    built = build(generic(einsum, extents, types), options=Options(wishes=(wish,), dropped=(spilled,)))
    assert ROOMY in built.ir
    _check(built, einsum, extents, types)


def test_a_step_of_products_is_there_once_until_llvm_unrolls_it() -> None:
    tile, each = tensorcores._SMALL, (16, 8)
    built = program(generic("mk,kn->mn", {"m": 64, "n": 64, "k": 256}, ("f16", "f16", "f32")))
    products = tile.warp_rows // each[0] * (tile.warp_columns // each[1])
    assert built.ir.count("nvvm.mma.sync") == products


def _check(built: Program, einsum: str, extents: dict[str, int], types: tuple[str, str, str]) -> None:
    inputs, output = einsum.split("->")
    shapes = [tuple(extents[loop] for loop in part) for part in (*inputs.split(","), output)]
    a, b, c = (numbers(shape, kind) for shape, kind in zip(shapes, types, strict=True))
    got = built.call("f", a, b, c.copy()).results[0]
    np.testing.assert_array_equal(got, c + np.einsum(einsum, a.astype(c.dtype), b.astype(c.dtype)))


LAID_OUT = [(layout, ("f32", "f32", "f32")) for layout in LAYOUTS]
LAID_OUT += [("transposed", types) for types in BODIES if types[0] in ("f64", "i8")]


@pytest.mark.parametrize(("layout", "types"), LAID_OUT, ids=[f"{layout}-{types[0]}" for layout, types in LAID_OUT])
def test_layouts(layout: str, types: tuple[str, str, str]) -> None:
    einsum, extents = LAYOUTS[layout]
    _check(program(generic(einsum, extents, types)), einsum, extents, types)


@pytest.mark.parametrize("kind", ["i8", "f16"])
def test_any_number_of_rows(kind: str) -> None:
    """One row is read as it lies, several are packed or copied."""
    types = next(each for each in BODIES if each[:2] == (kind, kind))
    built = program(generic("mk,kn->mn", dict.fromkeys("mnk", "?"), types))
    for m, n, k in ((1, 32, 48), (1, 13, 17), (5, 32, 48), (20, 19, 33), (3, 520, 1033)):
        _check(built, "mk,kn->mn", {"m": m, "n": n, "k": k}, types)


@pytest.mark.parametrize("einsum", ["mk,kn->mn", "mk,nk->mn"])
@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
def test_one_row_of_small_floats(kind: str, einsum: str) -> None:
    """Instructions widen them; each code is what it is on its own."""
    types = (kind, kind, "f32")
    built = program(generic(einsum, dict.fromkeys("mnk", "?"), types))
    assert f"llvm.nvvm.{kind.lower()[2:6]}x2.to.f16x2.rn" in built.ir
    _check(built, einsum, {"m": 1, "n": 48, "k": 1104}, types)
    codes, k = np.arange(256, dtype="u1").view(DTYPES[kind]), 16
    right = np.zeros((256, k), DTYPES[kind])
    right[:, 3] = codes
    one = (np.arange(k) == 3).astype(DTYPES[kind])[None]
    got = built.call("f", one, right if "nk" in einsum else right.T.copy(), np.zeros((1, 256), "f4")).results[0]
    np.testing.assert_array_equal(got[0], codes.astype("f4"))


@pytest.mark.parametrize("kind", ["i8", "f16", "f8E4M3FN", "f32", "f64"])
@pytest.mark.parametrize("backwards", [False, True])
def test_one_row_in_clusters(kind: str, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of a cluster has a part of the sum: some of it, all of the last one, or nothing."""
    monkeypatch.setattr(matvec, "_BESIDE", 1000)
    types = next(each for each in BODIES if each[:2] == (kind, kind))
    built = program(generic("bmk,bkn->bmn", dict.fromkeys("bmnk", "?"), types), backwards=backwards, capability=(10, 0))
    blocks = {"i8": 8, "f16": 4, "f8E4M3FN": 8}.get(kind, 2)
    assert f'"cluster", {blocks}]' in built.ir
    for n, k in ((16, 1), (48, 33), (160, 1104), (144, 2100)):
        _check(built, "bmk,bkn->bmn", {"b": 2, "m": 1, "n": n, "k": k}, types)


CONVOLUTION = """
func.func @f(%x: tensor<?x?x?x16xf16>, %w: tensor<3x3x16x?xf16>, %o: tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16> {
  %z = arith.constant 0.0 : f16
  %f = linalg.fill ins(%z : f16) outs(%o : tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16>
  %r = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<?x?x?x16xf16>, tensor<3x3x16x?xf16>) outs(%f : tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16>
  return %r : tensor<?x?x?x?xf16>
}"""


def test_a_convolution() -> None:
    random = np.random.default_rng(2)
    for shape, filters, shift in (((2, 11, 9, 16), 24, 0), ((1, 20, 21, 16), 13, 0), ((1, 9, 9, 16), 8, 1)):
        memory = random.standard_normal(np.prod(shape) + shift).astype("f2")
        x = memory[shift:].reshape(shape)
        w = random.standard_normal((3, 3, 16, filters)).astype("f2")
        places = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), (3, 3), (1, 2))[:, ::2, ::2]
        want = np.einsum("nhwcij,ijcf->nhwf", places, w.astype("f8"))
        got = program(CONVOLUTION).call("f", x, w, np.full(want.shape, np.nan, "f2")).results[0]
        np.testing.assert_allclose(got.astype("f8"), want, rtol=2e-3, atol=2e-2)


TWO_STARTS = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %bias: tensor<?xf32>, %c: tensor<?x?xf32>,
             %d: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%bias : tensor<?xf32>) outs(%c, %d : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%x: f32, %old: f32, %older: f32):
    %t = arith.addf %x, %x : f32
    linalg.yield %x, %t : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%s#0 : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r, %s#1 : tensor<?x?xf32>, tensor<?x?xf32>
}"""


def test_what_starts_a_sum_may_make_something_else_too() -> None:
    random = np.random.default_rng(8)
    a, b, bias = (random.standard_normal(shape).astype("f4") for shape in ((6, 5), (5, 8), (8,)))
    c, d = (np.full((6, 8), np.nan, "f4") for _ in range(2))
    product, doubled = program(TWO_STARTS).call("f", a, b, bias, c, d).results
    np.testing.assert_allclose(product, a @ b + bias, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(doubled, np.broadcast_to(2 * bias, (6, 8)))


CROSSED = """
func.func @f(%a: tensor<?x?xf32>, %c: tensor<?x?xf32>, %d: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s:2 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%a : tensor<?x?xf32>) outs(%c, %d : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %z, %p : f32
    linalg.yield %t, %z : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %s#0, %s#1 : tensor<?x?xf32>, tensor<?x?xf32>
}"""


def test_two_results_of_three_operands_are_no_product() -> None:
    random = np.random.default_rng(9)
    a, c, d = (random.standard_normal(shape).astype("f4") for shape in ((3, 4), (4, 5), (3, 5)))
    want = c.copy()
    for m in range(3):
        for k in range(4):
            want[k] = d[m] + a[m, k] * want[k]
    got, same = program(CROSSED).call("f", a, c, d.copy()).results
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(same, d)
