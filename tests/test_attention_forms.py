"""Attention as front ends write it becomes one kernel, and is right: repeated heads, late divisions, other scores."""

from __future__ import annotations

import numpy as np
import pytest
from attention_source import Attention
from cpurun import build
from test_attention import AMPERE, BY_HAND, CAUSAL, inputs
from test_hopper import chosen, tiles

REPEATED = """
#four = affine_map<(b, h, m, n) -> (b, h, m, n)>
#row = affine_map<(b, h, m, n) -> (b, h, m, 0)>
#one = affine_map<(b, h, g, n, d) -> (b, h, 0, n, d)>
#five = affine_map<(b, h, g, n, d) -> (b, h, g, n, d)>
#three = affine_map<(b, h, g, n, d) -> (b, h, n, d)>
func.func @f(%q: tensor<?x6x?x32xf16>, %k: tensor<?x2x?x32xf16>, %v: tensor<?x2x?x32xf16>) -> tensor<?x6x?x32xf16> {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c6 = arith.constant 6 : index
  %z = arith.constant 0.0 : f32
  %zh = arith.constant 0.0 : f16
  %least = arith.constant 0xFF800000 : f32
  %low = arith.constant -65504.0 : f16
  %scale = arith.constant 0.125 : f16
  %b = tensor.dim %q, %c0 : tensor<?x6x?x32xf16>
  %m = tensor.dim %q, %c2 : tensor<?x6x?x32xf16>
  %n = tensor.dim %k, %c2 : tensor<?x2x?x32xf16>
  %bh = arith.muli %b, %c6 : index
{repeats}
  %et = tensor.empty(%b, %n) : tensor<?x6x32x?xf16>
  %kt = linalg.transpose ins(%kc : tensor<?x6x?x32xf16>) outs(%et : tensor<?x6x32x?xf16>) permutation = [0, 1, 3, 2]
  %q3 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<?x6x?x32xf16> into tensor<?x?x32xf16>
  %k3 = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<?x6x32x?xf16> into tensor<?x32x?xf16>
  %es = tensor.empty(%bh, %m, %n) : tensor<?x?x?xf16>
  %fs = linalg.fill ins(%zh : f16) outs(%es : tensor<?x?x?xf16>) -> tensor<?x?x?xf16>
  %s3 = linalg.batch_matmul ins(%q3, %k3 : tensor<?x?x32xf16>, tensor<?x32x?xf16>) outs(%fs : tensor<?x?x?xf16>)
    -> tensor<?x?x?xf16>
  %s4 = tensor.expand_shape %s3 [[0, 1], [2], [3]] output_shape [%b, 6, %m, %n] : tensor<?x?x?xf16>
    into tensor<?x6x?x?xf16>
  %ex = tensor.empty(%b, %m, %n) : tensor<?x6x?x?xf32>
  %x = linalg.generic {{indexing_maps = [#four, #four],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%s4 : tensor<?x6x?x?xf16>) outs(%ex : tensor<?x6x?x?xf32>) {{
  ^bb0(%a: f16, %old: f32):
    %p = arith.mulf %a, %scale : f16
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %behind = arith.cmpi sgt, %j, %i : index
    %c = arith.select %behind, %low, %p : f16
    %w = arith.extf %c : f16 to f32
    linalg.yield %w : f32
  }} -> tensor<?x6x?x?xf32>
{most}
  %powers = linalg.generic {{indexing_maps = [#four, {row}, #four],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%x, %most : tensor<?x6x?x?xf32>, {kind}) outs(%ex : tensor<?x6x?x?xf32>) {{
  ^bb0(%a: f32, %l: f32, %old: f32):
    %d = arith.subf %a, %l : f32
    %p = math.exp %d : f32
    linalg.yield %p : f32
  }} -> tensor<?x6x?x?xf32>
{all}
  %eh = tensor.empty(%b, %m, %n) : tensor<?x6x?x?xf16>
  %weights = linalg.generic {{indexing_maps = [#four, {row}, #four],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%powers, %all : tensor<?x6x?x?xf32>, {kind}) outs(%eh : tensor<?x6x?x?xf16>) {{
  ^bb0(%a: f32, %l: f32, %old: f16):
    %d = arith.divf %a, %l : f32
    %p = arith.truncf %d : f32 to f16
    linalg.yield %p : f16
  }} -> tensor<?x6x?x?xf16>
  %w3 = tensor.collapse_shape %weights [[0, 1], [2], [3]] : tensor<?x6x?x?xf16> into tensor<?x?x?xf16>
  %v3 = tensor.collapse_shape %vc [[0, 1], [2], [3]] : tensor<?x6x?x32xf16> into tensor<?x?x32xf16>
  %eo = tensor.empty(%bh, %m) : tensor<?x?x32xf16>
  %fo = linalg.fill ins(%zh : f16) outs(%eo : tensor<?x?x32xf16>) -> tensor<?x?x32xf16>
  %o3 = linalg.batch_matmul ins(%w3, %v3 : tensor<?x?x?xf16>, tensor<?x?x32xf16>) outs(%fo : tensor<?x?x32xf16>)
    -> tensor<?x?x32xf16>
  %o = tensor.expand_shape %o3 [[0, 1], [2], [3]] output_shape [%b, 6, %m, 32] : tensor<?x?x32xf16>
    into tensor<?x6x?x32xf16>
  return %o : tensor<?x6x?x32xf16>
}}
"""
KEPT = """
  %e{x} = tensor.empty(%b, %m) : tensor<?x6x?x1xf32>
  %f{x} = linalg.fill ins({begin} : f32) outs(%e{x} : tensor<?x6x?x1xf32>) -> tensor<?x6x?x1xf32>
  %{x} = linalg.generic {{indexing_maps = [#four, #row],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins({value} : tensor<?x6x?x?xf32>) outs(%f{x} : tensor<?x6x?x1xf32>) {{
  ^bb0(%a: f32, %old: f32):
    %p = arith.{combine} %a, %old : f32
    linalg.yield %p : f32
  }} -> tensor<?x6x?x1xf32>"""
REPEATED_ROWS = """
  %e{x} = tensor.empty(%b, %m) : tensor<?x6x?xf32>
  %f{x} = linalg.fill ins({begin} : f32) outs(%e{x} : tensor<?x6x?xf32>) -> tensor<?x6x?xf32>
  %r{x} = linalg.reduce {{ arith.{combine} }} ins({value} : tensor<?x6x?x?xf32>) outs(%f{x} : tensor<?x6x?xf32>)
    dimensions = [3]
  %{x} = linalg.broadcast ins(%r{x} : tensor<?x6x?xf32>) outs(%ex : tensor<?x6x?x?xf32>) dimensions = [3]"""
ROWS = {
    "kept": {"row": "#row", "kind": "tensor<?x6x?x1xf32>", "reduction": KEPT},
    "repeated": {"row": "#four", "kind": "tensor<?x6x?x?xf32>", "reduction": REPEATED_ROWS},
}
EXPANDED = """
  %{x}e = tensor.expand_shape %{x} [[0], [1, 2], [3], [4]] output_shape [%b, 2, 1, %n, 32] : tensor<?x2x?x32xf16>
    into tensor<?x2x1x?x32xf16>
  %{x}m = tensor.empty(%b, %n) : tensor<?x2x3x?x32xf16>
  %{x}r = linalg.generic {{indexing_maps = [#one, #five],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}}
      ins(%{x}e : tensor<?x2x1x?x32xf16>) outs(%{x}m : tensor<?x2x3x?x32xf16>) {{
  ^bb0(%a: f16, %old: f16):
    linalg.yield %a : f16
  }} -> tensor<?x2x3x?x32xf16>"""
BROADCAST = """
  %{x}m = tensor.empty(%b, %n) : tensor<?x2x3x?x32xf16>
  %{x}r = linalg.broadcast ins(%{x} : tensor<?x2x?x32xf16>) outs(%{x}m : tensor<?x2x3x?x32xf16>) dimensions = [2]"""
COLLAPSED = """
  %{x}c = tensor.collapse_shape %{x}r [[0], [1, 2], [3], [4]] : tensor<?x2x3x?x32xf16> into tensor<?x6x?x32xf16>"""


@pytest.mark.parametrize("rows", list(ROWS))
@pytest.mark.parametrize("form", [EXPANDED, BROADCAST], ids=["expanded", "broadcast"])
def test_heads_of_keys_are_read_where_they_lie(form: str, rows: str) -> None:
    """Each is for three heads of queries; a front end repeats them."""
    how = ROWS[rows]
    text = REPEATED.format(
        repeats="".join((form + COLLAPSED).format(x=x) for x in "kv"),
        most=how["reduction"].format(x="most", begin="%least", value="%x", combine="maximumf"),
        all=how["reduction"].format(x="all", begin="%z", value="%powers", combine="addf"),
        **how,
    )
    kernels = chosen(text, ((8, 0),))
    assert len(tiles(kernels, "mma-flash")) == 1
    assert kernels[0].schedule == "mma-flash", "something is copied before"
    random = np.random.default_rng(3)
    q, k, v = (
        random.standard_normal((2, heads, count, 32)).astype("f2") for heads, count in ((6, 40), (2, 70), (2, 70))
    )
    keys, values = (np.repeat(each.astype("f8"), 3, axis=1) for each in (k, v))
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype("f8"), keys) * 0.125
    scores = np.where(np.arange(70) <= np.arange(40)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhmn,bhnd->bhmd", weights / weights.sum(-1, keepdims=True), values)
    got = build(text, options=AMPERE).call("f", q, k, v).results[0]
    np.testing.assert_allclose(got.astype("f8"), want, rtol=4e-3, atol=4e-3)


DIVIDED = """  %r = linalg.generic {{indexing_maps = [#id, affine_map<(b, h, g, m, n) -> (b, h, g, m)>, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}}
      ins(%rs, %all : tensor<?x?x?x?x32xf32>, tensor<?x?x?x?xf32>) outs(%o : tensor<?x?x1x?x32xf16>) {{
  ^bb0(%x: f32, %y: f32, %old: f16):
    {quotient}
    %na = arith.truncf %d : f32 to f16
    linalg.yield %na : f16
  }} -> tensor<?x?x1x?x32xf16>
  return %r : tensor<?x?x1x?x32xf16>
}}
"""
QUOTIENTS = [
    ("divided", "%d = arith.divf %x, %y : f32", True),
    ("by the inverse", "%i = arith.divf %one, %y : f32\n%d = arith.mulf %x, %i : f32", True),
    ("by more", "%t = arith.addf %y, %one : f32\n%d = arith.divf %x, %t : f32", False),
    ("twice", "%t = arith.divf %x, %y : f32\n%d = arith.divf %t, %y : f32", False),
    ("and more", "%t = arith.divf %x, %y : f32\n%d = arith.addf %t, %x : f32", False),
]


@pytest.mark.parametrize(("quotient", "fused"), [row[1:] for row in QUOTIENTS], ids=[row[0] for row in QUOTIENTS])
@pytest.mark.parametrize("queries", [3, 40])
def test_results_divided_by_totals(quotient: str, queries: int, *, fused: bool) -> None:
    """As fused kernels are written: weights are powers, and the sum with them is divided at the end."""
    text = Attention(group=1, mask="").text()
    (softmax,) = (line for line in text.splitlines() if "linalg.softmax" in line)
    by_hand = BY_HAND.format(begin="0xFF800000", largest="maximumf")
    text = text.replace(
        softmax, f"%one = arith.constant 1.0 : f32\n{by_hand[: by_hand.index('  %w = linalg.generic')]}"
    )
    text = text.replace("ins(%w : ", "ins(%power : ")
    text = text[: text.index("  %r = linalg.generic")] + DIVIDED.format(quotient=quotient)
    assert any(each.schedule == "mma-flash" for each in chosen(text, ((8, 0),))) == fused
    arrays = inputs(Attention(group=1), 1, queries, 90)
    scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    x, y = np.einsum("bhgmn,bhnw->bhgmw", weights, arrays[2].astype("f8")), weights.sum(-1, keepdims=True)
    want = {QUOTIENTS[2][1]: x / (y + 1), QUOTIENTS[3][1]: x / y / y, QUOTIENTS[4][1]: x / y + x}.get(quotient, x / y)
    got = build(text, options=AMPERE).call("f", *arrays).results[0].astype("f8")
    np.testing.assert_allclose(got, want, rtol=4e-3, atol=2e-3)


SCORES = {
    "soft cap": """%cap = arith.constant 2.0 : f32
    %c = arith.divf %t, %cap : f32
    %h = math.tanh %c : f32
    %d = arith.mulf %h, %cap : f32""",
    "slopes": """%hn = linalg.index 1 : index
    %k1 = arith.addi %hn, %c1 : index
    %hi = arith.index_cast %k1 : index to i32
    %hf = arith.sitofp %hi : i32 to f32
    %eight = arith.constant -4.0 : f32
    %e1 = arith.mulf %hf, %eight : f32
    %slope = math.exp2 %e1 : f32
    %between = arith.subi %j, %i : index
    %bi = arith.index_cast %between : index to i32
    %far = arith.sitofp %bi : i32 to f32
    %bias = arith.mulf %far, %slope : f32
    %d = arith.addf %t, %bias : f32""",
}
"""As Gemma caps them, and with ALiBi's slopes; causal, too."""


@pytest.mark.parametrize("form", list(SCORES))
def test_other_scores(form: str) -> None:
    of = Attention(group=1, mask="causal")
    seen = CAUSAL.replace("%t, %nothing", "%d, %nothing")
    text = of.text().replace(CAUSAL, f"{SCORES[form]}\n    {seen}")
    assert any(", causal" in each for each in tiles(chosen(text, ((8, 0),)), "mma-flash"))
    arrays = inputs(of, 1, 70, 90)
    scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125
    distances = np.arange(90) - np.arange(70)[:, None]
    if form == "slopes":
        scores = scores + distances * np.exp2(-4.0 * (np.arange(2) + 1))[:, None, None, None]
    else:
        scores = 2 * np.tanh(scores / 2)
    scores = np.where(distances <= 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), arrays[2].astype("f8"))
    got = build(text, options=AMPERE).call("f", *arrays).results[0].astype("f8")
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


WITHOUT_GROUPS = (
    ("(b, h, g, m, ", "(b, h, m, "),
    (", ".join(['"parallel"'] * 5), ", ".join(['"parallel"'] * 4)),
    ("%nb, %nh, %ng, %nm", "%nb, %nh, %nm"),
    ("%nm = tensor.dim %q, %c3", "%nm = tensor.dim %q, %c2"),
    ("tensor<?x?x?x?x", "tensor<?x?x?x"),
    ("linalg.index 3", "linalg.index 2"),
    ("linalg.index 4", "linalg.index 3"),
    ("dimension(4)", "dimension(3)"),
    ("{heads}x1x?", "{heads}x?"),
    (", %o: tensor<2x{heads}x?x32xf16>", ""),
    ("  %r = linalg.generic", "  %o = tensor.empty(%nm) : tensor<2x{heads}x?x32xf16>\n  %r = linalg.generic"),
    ("-> (b, h, n, k)>", "-> (b, h floordiv 3, n, k)>"),
    ("-> (b, h, k, n)>", "-> (b, h floordiv 3, k, n)>"),
    ("%k: tensor<2x{heads}", "%k: tensor<2x2"),
    ("%v: tensor<2x{heads}", "%v: tensor<2x2"),
    ("%k, %c2 : tensor<2x{heads}", "%k, %c2 : tensor<2x2"),
    ("%k : tensor<2x{heads}x?x32xf16>, tensor<2x{heads}", "%k : tensor<2x{heads}x?x32xf16>, tensor<2x2"),
    ("%v : tensor<?x?x?x?xf16>, tensor<2x{heads}", "%v : tensor<?x?x?x?xf16>, tensor<2x2"),
)


BY_INDEX = """%i{x}0 = linalg.index 0 : index
    %i{x}1 = linalg.index 1 : index
    %i{x}3 = linalg.index 3 : index
    %i{x}4 = linalg.index 4 : index
    %head{x} = arith.divui %i{x}1, %c3 : index
    %y = tensor.extract %{x}[%i{x}0, %head{x}, {place}] : tensor<2x2x?x32xf16>
    %wx"""
EXTRACTED = {"k": ("#key, ", "%i{x}3, %i{x}4"), "v": ("#value, ", "%i{x}4, %i{x}3")}


def extracted(text: str, x: str) -> str:
    """The same with a factor that its product extracts."""
    name, place = EXTRACTED[x]
    before, behind = text.split(f"[#query, {name}")
    product, rest = behind.split("%wx", 1)
    product = product.replace(f", %{x} :", " :").replace(", tensor<2x2x?x32xf16>)", ")").replace(", %y: f16", "")
    return f"{before}[#query, {product}{BY_INDEX.format(x=x, place=place.format(x=x))}{rest}"


@pytest.mark.parametrize("by_index", [False, True], ids=["map", "index"])
@pytest.mark.parametrize(("heads", "fused"), [(6, True), (5, False)])
def test_heads_of_keys_that_are_found_by_a_division(heads: int, *, fused: bool, by_index: bool) -> None:
    """Of some the last head of keys is read by two heads alone; there may be more keys than are extracted."""
    text = Attention(around=(2, heads), group=1, mask="causal").text()
    for old, new in WITHOUT_GROUPS:
        text = text.replace(old.format(heads=heads), new.format(heads=heads))
    if by_index:
        text = extracted(extracted(text, "k"), "v").replace("%nn = tensor.dim %k", "%nn = tensor.dim %v")
    kernels = chosen(text, ((8, 0),))
    assert (kernels[0].schedule == "mma-flash") == fused
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((2, each, 40, 32)).astype("f2") for each in (heads, 2, 2))
    given = np.concatenate([k, k[:, :, ::-1]], axis=2) if by_index else k
    keys, values = (np.repeat(each.astype("f8"), 3, axis=1)[:, :heads] for each in (k, v))
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype("f8"), keys) * 0.125
    scores = np.where(np.arange(40) <= np.arange(40)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhmn,bhnd->bhmd", weights / weights.sum(-1, keepdims=True), values)
    got = build(text, options=AMPERE).call("f", q, given, v).results[0]
    np.testing.assert_allclose(got.astype("f8"), want, rtol=4e-3, atol=4e-3)
