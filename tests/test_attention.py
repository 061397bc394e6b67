"""Attention on tensor cores by ``mma.sync``: values on the CPU, which kernel is chosen, and what ptxas makes of it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cpucall
import ml_dtypes
import numpy as np
import pytest
from attention_source import Attention, expected
from compiledsource import compiled
from cpurun import build
from test_hopper import chosen, tiles

from aot.lower import tensor
from aot.lower.contract.attention import decode, mmaflash
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.mma import tensorcores

AMPERE = tensor.Options(capabilities=((8, 0),))
DTYPES = {"f16": "f2", "bf16": ml_dtypes.bfloat16}


@pytest.fixture(autouse=True)
def _few_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the products that are launched where copies of 16 bytes cannot read the arrays."""
    monkeypatch.setattr(tensorcores, "_TILES", tensorcores._TILES[-1:])


def inputs(of: Any, group: int, queries: int, keys: int, shift: int = 0) -> list[Any]:
    """Arrays, the destination last; ``shift``: elements by which the keys are not aligned."""
    random, kind = np.random.default_rng(queries + keys), DTYPES[of.kind]

    def array(*shape: int) -> Any:
        memory = random.standard_normal(int(np.prod(shape)) + shift).astype(kind)
        return memory[shift:].reshape(shape)

    rows = (of.depth, keys) if of.turned else (keys, of.depth)
    arrays = [array(1, 2, group, queries, of.depth), array(1, 2, *rows), array(1, 2, keys, of.width)]
    if "array" in of.mask:
        arrays.append(np.where(random.random((1, keys)) < 0.3, -np.inf, 1.0).astype("f4"))
    return [*arrays, np.full((1, 2, group, queries, of.width), np.nan, kind)]


def check(of: Any, program: Any, arrays: list[Any]) -> None:
    got = program.call("f", *arrays).results[0].astype("f8")
    mask = arrays[3] if "array" in of.mask else None
    q, k, v = arrays[:3]
    want = expected(q, k.swapaxes(-1, -2) if of.turned else k, v, causal="causal" in of.mask, mask=mask)
    allowed = 2e-3 if of.kind == "f16" else 1.6e-2
    np.testing.assert_allclose(got, want, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("backwards", [False, True])
def test_all_keys(backwards: bool) -> None:
    """Few queries, and all that read the same keys count, share the keys among blocks; many do not."""
    of = Attention(group=3, width=48)
    program = build(of.text(), backwards=backwards, options=AMPERE)
    for queries, keys in ((1, 1), (1, 77), (1, 1500), (5, 600), (77, 129), (129, 64)):
        check(of, program, inputs(of, 3, queries, keys))
    check(of, program, inputs(of, 3, 7, 40, shift=1))


@pytest.mark.parametrize(("depth", "width", "mask"), [(72, 40, ""), (24, 8, "causal"), (88, 120, "array")])
def test_elements_that_are_no_multiple_of_16(depth: int, width: int, mask: str) -> None:
    """Zeros stand behind them; what follows in memory is the next row."""
    of = Attention(group=1, depth=depth, width=width, mask=mask)
    program = build(of.text(), options=AMPERE)
    for queries, keys in ((1, 1), (1, 77), (5, 600), (77, 129)):
        check(of, program, inputs(of, 1, queries, keys))


@pytest.mark.parametrize(("depth", "width", "mask"), [(32, 32, ""), (72, 64, "causal"), (160, 16, "array")])
def test_keys_below_each_other(depth: int, width: int, mask: str) -> None:
    """As caches have them that are read for products: ``[batch, heads, depth, keys]``."""
    of = Attention(group=1, depth=depth, width=width, mask=mask, turned=True)
    assert any(each.schedule == "mma-flash" for each in chosen(of.text(), ((8, 0),)))
    program = build(of.text(), options=AMPERE)
    for queries, keys in ((1, 8), (1, 1000), (5, 600), (77, 136), (40, 77)):
        check(of, program, inputs(of, 1, queries, keys))


def test_values_without_bound() -> None:
    """An infinite one makes its column infinite, whatever number of blocks shares the keys."""
    of = Attention(group=2)
    program = build(of.text(), options=AMPERE)
    for queries, keys in ((1, 1500), (40, 150)):
        arrays = inputs(of, 2, queries, keys)
        arrays[2][0, 0, -1, 3] = np.inf
        check(of, program, arrays)


def test_keys_up_to_the_query() -> None:
    of = Attention("bf16", (1, 2), 1, 200, 150, 80, 16, "causal")
    check(of, build(of.text(), backwards=True, options=AMPERE), inputs(of, 1, 200, 150))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_keys_up_to_the_query_by_numbers_that_may_wrap(bits: int) -> None:
    """In 8 bits, places are compared as the source has them: those beyond 127 are negative."""
    of = Attention(group=1, mask="causal")
    whole = "%seen = arith.cmpi ule, %j, %i : index"
    casts = "".join(f"%{each}c = arith.index_cast %{each} : index to i{bits}\n" for each in "ij")
    assert whole in of.text()
    text = of.text().replace(whole, f"{casts}%seen = arith.cmpi sle, %jc, %ic : i{bits}")
    assert any(", causal" in each for each in tiles(chosen(text, ((8, 0),)), "mma-flash")) == (bits >= 32)
    arrays = inputs(of, 1, 5, 150)
    queries, keys = (np.arange(count).astype(f"i{bits // 8}") for count in (5, 150))
    seen = np.where(keys <= queries[:, None], 0.0, -np.inf)
    scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125 + seen
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), arrays[2].astype("f8"))
    got = build(text, options=AMPERE).call("f", *arrays).results[0]
    np.testing.assert_allclose(got.astype("f8"), want, rtol=2e-3, atol=2e-3)


CAUSAL = """%seen = arith.cmpi ule, %j, %i : index
    %u = arith.select %seen, %t, %nothing : f32"""
WIDE = (
    "%a = arith.index_cast %i : index to i64\n%b = arith.index_cast %j : index to i64\n%d = arith.subi %b, %a : i64\n"
)
NUMBERS = """%zero = arith.constant 0 : i64
  %true = arith.constant true
  %one = arith.constant 1 : index
  %low = arith.constant -3.0e38 : f32
  %minus = arith.constant -9.0 : f32
  """
WINDOW = """%seen = arith.cmpi ule, %j, %i : index
    %w = arith.constant 16 : index
    %end = arith.addi %j, %w : index
    %near = arith.cmpi ugt, %end, %i : index
    %both = arith.andi %seen, %near : i1
    %u = arith.select %both, %t, {low} : f32"""
AS_MASKS_ARE_WRITTEN = [
    (
        "added",
        f"{CAUSAL.replace('%t, %nothing', '%z, %nothing').replace('%u =', '%m =')}\n%u = arith.addf %t, %m : f32",
        0,
    ),
    (
        "in f16",
        """%c = arith.cmpi slt, %i, %j : index
    %least = arith.constant -65504.0 : f16
    %half = arith.truncf %t : f32 to f16
    %m = arith.select %c, %least, %half : f16
    %u = arith.extf %m : f16 to f32""",
        0,
    ),
    ("a difference", f"{WIDE}%c = arith.cmpi sgt, %d, %zero : i64\n%u = arith.select %c, %low, %t : f32", 0),
    (
        "what is not hidden",
        f"{WIDE}%c = arith.cmpi sgt, %d, %zero : i64\n%seen = arith.xori %c, %true : i1\n"
        "%u = arith.select %seen, %t, %nothing : f32",
        0,
    ),
    ("near keys", WINDOW.format(low="%low"), 0),
    ("not its own", CAUSAL.replace("ule", "ult"), -1),
    ("not its own, by low numbers", CAUSAL.replace("ule", "ult").replace("%nothing", "%low"), None),
    (
        "one more",
        CAUSAL.replace("%j, %i", "%j, %x1").replace("%seen", "%x1 = arith.addi %i, %one : index\n%seen", 1),
        1,
    ),
    (
        "a difference without sign",
        f"{WIDE}%c = arith.cmpi ugt, %d, %zero : i64\n%u = arith.select %c, %low, %t : f32",
        None,
    ),
    ("low scores", CAUSAL.replace("%nothing", "%minus"), None),
    (
        "low numbers that others make up for",
        CAUSAL.replace("%t, %nothing", "%t, %low").replace("%u =", "%x1 =")
        + "\n%high = arith.constant 3.0e38 : f32\n%u = arith.addf %x1, %high : f32",
        None,
    ),
]


@pytest.mark.parametrize(
    ("form", "behind"), [row[1:] for row in AS_MASKS_ARE_WRITTEN], ids=[row[0] for row in AS_MASKS_ARE_WRITTEN]
)
def test_keys_that_are_hidden_are_left_out_however_it_is_written(form: str, behind: int | None) -> None:
    """``behind``: the last key that a query sees, less its own place; None if scores of others count, too."""
    of = Attention(group=1, mask="causal")
    assert CAUSAL in of.text()
    text = of.text().replace("%nothing = arith", f"{NUMBERS}%nothing = arith").replace(CAUSAL, form)
    remark = ", 1 ahead" if behind == 1 else ", causal"
    assert any(remark in each for each in tiles(chosen(text, ((8, 0),)), "mma-flash")) == (behind is not None)
    if behind is None:
        return
    arrays = inputs(of, 1, 90, 150)
    distances = np.arange(150) - np.arange(90)[:, None]
    seen = (distances <= behind) & (distances > (-16 if "near" in form else -np.inf))
    scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125
    with np.errstate(invalid="ignore"):
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        want = np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), arrays[2].astype("f8"))
    got = build(text, options=AMPERE).call("f", *arrays).results[0]
    np.testing.assert_allclose(got.astype("f8"), want, rtol=2e-3, atol=2e-3)


def test_sums_of_places_may_wrap() -> None:
    """``j <= i + 2147483647`` holds for no key but the first query's: all rows but that are no numbers."""
    of = Attention(group=1, mask="causal")
    form = """%a = arith.index_cast %i : index to i32
    %b = arith.index_cast %j : index to i32
    %far = arith.constant 2147483647 : i32
    %end = arith.addi %a, %far : i32
    %before = arith.cmpi sle, %b, %a : i32
    %near = arith.cmpi sle, %b, %end : i32
    %seen = arith.andi %before, %near : i1
    %u = arith.select %seen, %t, %nothing : f32"""
    arrays = inputs(of, 1, 20, 150)
    got = build(of.text().replace(CAUSAL, form), options=AMPERE).call("f", *arrays).results[0].astype("f8")
    assert np.isnan(got[:, :, :, 1:]).all()
    np.testing.assert_allclose(got[:, :, :, 0], arrays[2][:, :, None, 0], rtol=2e-3, atol=2e-3)


def test_a_mask_from_memory() -> None:
    """Where no key is left, the softmax is no number, as the source has it."""
    of = Attention(group=1, mask="array")
    program = build(of.text(), options=AMPERE)
    for queries in (2, 33):
        arrays = inputs(of, 1, queries, 301)
        check(of, program, arrays)
        arrays[3][:] = -np.inf
        assert np.isnan(program.call("f", *arrays).results[0]).all()


def test_a_mask_of_the_least_number() -> None:
    """A piece that is hidden so weighs nothing beside others, and all keys weigh the same if there is nothing else."""
    of, least = Attention(group=1, mask="array"), np.finfo("f4").min
    program = build(of.text(), options=AMPERE)
    for queries, keys in ((2, 1500), (33, 150)):
        arrays = inputs(of, 1, queries, keys)
        arrays[3][:] = np.where(np.arange(keys) < 130, least, 0)
        check(of, program, arrays)
        arrays[3][:] = least
        got, want = program.call("f", *arrays).results[0], arrays[2].astype("f8").mean(2)[:, :, None, None]
        np.testing.assert_allclose(got.astype("f8"), np.broadcast_to(want, got.shape), rtol=2e-3, atol=2e-3)


BY_HAND = """%rows = tensor.empty(%nb, %nh, %ng, %nm) : tensor<?x?x?x?xf32>
  %least = arith.constant {begin} : f32
  %l = linalg.fill ins(%least : f32) outs(%rows : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %most = linalg.reduce {{ arith.{largest} }} ins(%scores : tensor<?x?x?x?x?xf32>) outs(%l : tensor<?x?x?x?xf32>)
    dimensions = [4]
  %power = linalg.generic {{indexing_maps = [#id, affine_map<(b, h, g, m, n) -> (b, h, g, m)>, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}}
      ins(%scores, %most : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?xf32>) outs(%e : tensor<?x?x?x?x?xf32>) {{
  ^bb0(%x: f32, %y: f32, %old: f32):
    %d = arith.subf %x, %y : f32
    %a = math.exp %d : f32
    linalg.yield %a : f32
  }} -> tensor<?x?x?x?x?xf32>
  %zeros = linalg.fill ins(%z : f32) outs(%rows : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
  %all = linalg.reduce {{ arith.addf }} ins(%power : tensor<?x?x?x?x?xf32>) outs(%zeros : tensor<?x?x?x?xf32>)
    dimensions = [4]
  %w = linalg.generic {{indexing_maps = [#id, affine_map<(b, h, g, m, n) -> (b, h, g, m)>, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}}
      ins(%power, %all : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?xf32>) outs(%e : tensor<?x?x?x?x?xf32>) {{
  ^bb0(%x: f32, %y: f32, %old: f32):
    %a = arith.divf %x, %y : f32
    linalg.yield %a : f32
  }} -> tensor<?x?x?x?x?xf32>"""


@pytest.mark.parametrize(
    ("largest", "begin", "fused"),
    [
        ("maximumf", "0xFF800000", True),
        ("maxnumf", "0xFF800000", True),
        ("maxnumf", "0x7FC00000", True),
        ("maximumf", "0x7FC00000", False),
    ],
)
def test_where_the_largest_score_begins(largest: str, begin: str, fused: bool) -> None:
    """From NaN on, all is NaN, but for the operation that leaves NaN out."""
    of = Attention(group=1)
    (softmax,) = (line for line in of.text().splitlines() if "linalg.softmax" in line)
    text = of.text().replace(softmax, BY_HAND.format(largest=largest, begin=begin))
    assert any(each.schedule == "mma-flash" for each in chosen(text, ((8, 0),))) == fused
    program, arrays = build(text, options=AMPERE), inputs(of, 1, 20, 9)
    if fused:
        check(of, program, arrays)
    else:
        assert np.isnan(program.call("f", *arrays).results[0]).all()


@pytest.mark.parametrize(
    ("power", "quotient"),
    [
        ("%a = math.exp2 %d : f32", "%a = arith.divf %x, %y : f32"),
        ("%a = math.exp %d : f32", "%i = arith.divf %one, %y : f32\n    %a = arith.mulf %i, %x : f32"),
    ],
    ids=["powers of two", "inverse totals"],
)
def test_softmax_as_kernels_are_written(power: str, quotient: str) -> None:
    of = Attention(group=1)
    (softmax,) = (line for line in of.text().splitlines() if "linalg.softmax" in line)
    by_hand = BY_HAND.format(begin="0xFF800000", largest="maximumf").replace("%a = math.exp %d : f32", power)
    by_hand = by_hand.replace("%a = arith.divf %x, %y : f32", quotient)
    text = of.text().replace(softmax, f"  %one = arith.constant 1.0 : f32\n{by_hand}")
    assert any(each.schedule == "mma-flash" for each in chosen(text, ((8, 0),)))
    arrays = inputs(of, 1, 40, 90)
    got = build(text, options=AMPERE).call("f", *arrays).results[0].astype("f8")
    if "exp2" in power:
        arrays[0] = (arrays[0].astype("f8") * np.log(2)).astype("f8")
    np.testing.assert_allclose(got, expected(*arrays[:3]), rtol=2e-3, atol=2e-3)


IN_16_BITS = """  %hs = tensor.empty(%nb, %nh, %ng, %nm, %nn) : tensor<?x?x?x?x?x{t}>
  %half = linalg.generic {{indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}}
      ins(%scores : tensor<?x?x?x?x?xf32>) outs(%hs : tensor<?x?x?x?x?x{t}>) {{
  ^bb0(%x: f32, %old: {t}):
    %na = arith.truncf %x : f32 to {t}
    linalg.yield %na : {t}
  }} -> tensor<?x?x?x?x?x{t}>
  %hw = linalg.softmax dimension(4) ins(%half : tensor<?x?x?x?x?x{t}>) outs(%hs : tensor<?x?x?x?x?x{t}>)
    -> tensor<?x?x?x?x?x{t}>
"""


@pytest.mark.parametrize(("kind", "mask", "zeros"), [("f16", "causal", False), ("bf16", "array", True)])
def test_softmax_of_16_bits(kind: str, mask: str, zeros: bool) -> None:
    """Its intermediate results are not rounded; with sums in 16 bits it stays what the source says."""
    of = Attention(kind, group=1, mask=mask)
    text = of.text()
    text = text[: text.index("  %w = linalg.softmax")] + IN_16_BITS.format(t=kind) + text[text.index("  %re = ") :]
    assert any(each.schedule == "mma-flash" for each in chosen(text, ((8, 0),)))
    program = build(text, options=replace(AMPERE, masked_zeros=zeros))
    for queries, keys in ((2, 70), (40, 90)):
        check(of, program, inputs(of, 1, queries, keys))
    native = build(text, options=replace(AMPERE, wide_accumulation=False))
    assert "mma-flash" not in native.ir


ON_BUFFERS = """
#query = affine_map<(m, n, k) -> (m, k)>
#key = affine_map<(m, n, k) -> (n, k)>
#value = affine_map<(m, n, k) -> (k, n)>
#score = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
func.func @f(%q: memref<?x32xf16>, %k: memref<?x32xf16>, %v: memref<?x32xf16>, %o: memref<?x32xf32>)
    -> memref<?x32xf32> {{
  %z = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %nm = memref.dim %q, %c0 : memref<?x32xf16>
  %nn = memref.dim %k, %c0 : memref<?x32xf16>
  %s = memref.alloc(%nm, %nn) : memref<?x?xf32>
  %e = memref.alloc(%nm, %nn) : memref<?x?xf32>
  %w = memref.alloc(%nm, %nn) : memref<?x?xf16>
  %most = memref.alloc(%nm) : memref<?xf32>
  %all = memref.alloc(%nm) : memref<?xf32>
  linalg.fill ins(%z : f32) outs(%s : memref<?x?xf32>)
  linalg.generic {{indexing_maps = [#query, #key, #score], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%q, %k : memref<?x32xf16>, memref<?x32xf16>) outs(%s : memref<?x?xf32>) {{{product}
  }}
  {begin}
  linalg.reduce {{ arith.maximumf }} ins(%s : memref<?x?xf32>) outs(%most : memref<?xf32>) dimensions = [1]
  linalg.generic {{indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%s, %most : memref<?x?xf32>, memref<?xf32>) outs(%e : memref<?x?xf32>) {{
  ^bb0(%x: f32, %y: f32, %old: f32):
    %d = arith.subf %x, %y : f32
    %a = math.exp %d : f32
    linalg.yield %a : f32
  }}
  linalg.fill ins(%z : f32) outs(%all : memref<?xf32>)
  linalg.reduce {{ arith.addf }} ins(%e : memref<?x?xf32>) outs(%all : memref<?xf32>) dimensions = [1]
  linalg.generic {{indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%e, %all : memref<?x?xf32>, memref<?xf32>) outs(%w : memref<?x?xf16>) {{
  ^bb0(%x: f32, %y: f32, %old: f16):
    %d = arith.divf %x, %y : f32
    %a = arith.truncf %d : f32 to f16
    linalg.yield %a : f16
  }}
  {result}
  linalg.fill ins(%z : f32) outs(%r : memref<?x32xf32>)
  linalg.generic {{indexing_maps = [#query, #value, #score], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%w, %v : memref<?x?xf16>, memref<?x32xf16>) outs(%r : memref<?x32xf32>) {{{last}
  }}
  return %r : memref<?x32xf32>
}}
"""
PRODUCT = """
  ^bb0(%x: f16, %y: f16, %old: f32):
    %wx = arith.extf %x : f16 to f32
    %wy = arith.extf %y : f16 to f32
    %p = arith.mulf %wx, %wy : f32
    %t = arith.addf %old, %p : f32
    linalg.yield %t : f32"""
BEGINS = "linalg.fill ins(%least : f32) outs(%most : memref<?xf32>)"
BEGINS_ELSEWHERE = """linalg.fill ins(%z : f32) outs(%most : memref<?xf32>)
  linalg.generic {indexing_maps = [affine_map<(m) -> ()>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]}
      ins(%least : f32) outs(%most : memref<?xf32>) {
  ^bb0(%x: f32, %old: f32):
    linalg.yield %old : f32
  }"""
OWN = "%r = memref.alloc(%nm) : memref<?x32xf32>"
GIVEN = "%r = memref.cast %o : memref<?x32xf32> to memref<?x32xf32>"


NEGATED = PRODUCT.replace("%wx, %wy", "%n, %wy").replace("    %p = ", "    %n = arith.negf %wx : f32\n    %p = ")


@pytest.mark.parametrize(
    ("begin", "result", "last", "fused"),
    [
        pytest.param(BEGINS, OWN, PRODUCT, True, id="memory of its own"),
        pytest.param(BEGINS, GIVEN, PRODUCT, False, id="results may lie where the queries do"),
        pytest.param(BEGINS_ELSEWHERE, OWN, PRODUCT, False, id="the largest score is 0 at least"),
        pytest.param(BEGINS, OWN, NEGATED, False, id="weights are negated"),
    ],
)
def test_attention_on_buffers(begin: str, result: str, last: str, fused: bool) -> None:
    text = ON_BUFFERS.format(begin=begin, result=result, product=PRODUCT, last=last)
    assert any(each.schedule == "mma-flash" for each in chosen(text, ((8, 0),))) == fused
    random = np.random.default_rng(5)
    q, k, v = (random.standard_normal((count, 32)).astype("f2") for count in (20, 9, 9))
    scores = q.astype("f8") @ k.astype("f8").T
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), 0 if begin == BEGINS_ELSEWHERE else -np.inf))
    want = weights / weights.sum(-1, keepdims=True) @ v.astype("f8") * (-1 if last == NEGATED else 1)
    got = build(text, options=AMPERE).call("f", q, k, v, np.full((20, 32), np.nan, "f4")).results[0]
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


ROWS = """
func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
"""


def test_rows_without_numbers_are_zeros_by_option() -> None:
    """On tensor cores, for few queries and many; in the steps of one; in a softmax alone, on GPU and CPU."""
    options = replace(AMPERE, masked_zeros=True)
    of = Attention(group=1, mask="array")
    program = build(of.text(), options=options)
    for queries, shift in ((2, 0), (33, 0), (2, 1)):
        arrays = inputs(of, 1, queries, 70, shift)
        check(of, program, arrays)
        arrays[3][:] = -np.inf
        assert not program.call("f", *arrays).results[0].any()
    x = np.float32([[1, 2, -np.inf], [-np.inf] * 3, [np.nan, 1, 2]])
    for rows in (build(ROWS, options=options), cpucall.build(ROWS, cpucall.runnable()[0], zeros=True)):
        got = rows.call("f", x).results[0]
        np.testing.assert_allclose(got[0], [0.26894142, 0.73105858, 0], rtol=1e-6)
        assert not got[1].any()
        assert np.isnan(got[2]).all()


FLASH = "queries 128, rows 32, keys {keys}, depth {d}, width {d}, stages 2"
CHOICES = [
    ("dynamic", Attention(depth=64, width=64), [FLASH.format(keys=64, d=64)], 1),
    ("causal", Attention(depth=128, width=128, mask="causal"), [FLASH.format(keys=48, d=128) + ", causal"], 0),
    ("one query", Attention(group=8, queries=1, depth=128, width=128), [], 1),
    ("too deep", Attention(depth=272), [], 0),
    ("no whole copies", Attention(depth=36), [], 0),
    ("zeros behind", Attention(depth=40, width=40), [FLASH.format(keys=64, d=48)], 1),
]


@pytest.mark.parametrize(("of", "flash", "decodes"), [row[1:] for row in CHOICES], ids=[row[0] for row in CHOICES])
def test_the_kernel_follows_the_extents(of: Any, flash: list[str], decodes: int) -> None:
    kernels = chosen(of.text(), ((8, 0), (12, 0)))
    assert tiles(kernels, "mma-flash") == flash
    assert len(tiles(kernels, "decode")) == len(tiles(kernels, "decode-combine")) == decodes


def test_shared_memory_suffices_everywhere() -> None:
    """The least of all architectures from sm_80 on: 99 KiB for a block."""
    for depth in range(16, 257, 16):
        for width in (16, depth, 256):
            for bounded, turned in itertools.product((False, True), (False, True)):
                job: Any = SimpleNamespace(depth=depth, width=width, bounded=bounded, turned=turned)
                layouts = [module._Layout(job, module.tile_for(job, Pick())) for module in (mmaflash, decode)]
                assert all(each.bytes <= tensorcores.EVERYWHERE for each in layouts), (depth, width)


def test_older_images_do_without() -> None:
    kernels = chosen(Attention(mask="causal").text(), ((7, 5), (8, 0)))
    assert [each.needs for each in kernels if each.schedule == "mma-flash"] == ["sm_80"]


HOPPER_CHOICES = [
    ("short queries, few keys", Attention(keys=512, depth=64, width=64), "flash", ["queries 128, keys 128"]),
    (
        "short queries, any keys",
        Attention(depth=64, width=64),
        "flash",
        ["queries 128, keys 128", "queries 128, keys 128", "queries 192, keys 96"],
    ),
    ("long queries", Attention(keys=4096, depth=128, width=128), "flash", ["queries 128, keys 128"]),
    ("one query", Attention(group=8, queries=1, depth=128, width=128), "hopper-decode", ["rows 16, keys 64"] * 2),
    ("a mask", Attention(depth=64, width=64, mask="array"), "flash", ["queries 128, keys 128"]),
    ("a mask, many elements", Attention(depth=128, width=128, mask="array"), "flash", ["queries 128, keys 96"]),
    ("zeros behind", Attention(depth=72, width=40), "flash", ["queries 128, keys 128"]),
    (
        "one query, zeros behind",
        Attention(group=8, queries=1, depth=80, width=80),
        "hopper-decode",
        ["rows 16, keys 64"] * 2,
    ),
    (
        "keys below each other",
        Attention(keys=4096, depth=128, width=128, turned=True),
        "flash",
        ["queries 128, keys 128"],
    ),
    ("more than boxes of TMA", Attention(depth=136, width=136), "flash", []),
]


@pytest.mark.parametrize(
    ("of", "schedule", "expected_"), [row[1:] for row in HOPPER_CHOICES], ids=[row[0] for row in HOPPER_CHOICES]
)
def test_hopper_has_kernels_of_its_own(of: Any, schedule: str, expected_: list[str]) -> None:
    kernels = chosen(of.text(), ((9, 0),))
    assert [", ".join(each.split(", ")[:2]) for each in tiles(kernels, schedule)] == expected_
    assert all(each.needs == "sm_90a" for each in kernels if each.schedule == schedule)


ATTENTION = ("flash", "mma-flash", "hopper-decode", "decode", "decode-combine")
COMPILED = [
    ("sm_80", Attention(keys=4096, depth=128, width=128, mask="causal"), 1),
    ("sm_90", Attention(depth=64, width=64), 9),
    ("sm_90", Attention(depth=64, width=64, mask="array"), 7),
    ("sm_80", Attention(depth=64, width=128), 3),
]


@pytest.mark.parametrize(("arch", "of", "count"), COMPILED)
def test_attention_compiles_to_good_code(tmp_path: Path, arch: str, of: Any, count: int) -> None:
    source = compiled(tmp_path, of.text(), arch)
    assert source.fatbin is not None
    ours = {each.symbol for each in source.kernels if each.schedule in ATTENTION}
    assert len(ours) == count
    assert {used.spill_bytes for symbol, _, used in source.fatbin.usage if symbol in ours} == {0}
    assert [note for note in source.notes if "(C7" in note] == [], "products that wait for each other"
