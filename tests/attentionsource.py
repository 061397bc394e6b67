"""Sources of attention with grouped queries, as tests and ``tests/gpu`` use them.

``f(q, k, v, [mask,] o)``: queries ``[batch, heads, group, queries, depth]``, keys ``[batch, heads, keys, depth]``,
values ``[batch, heads, keys, width]``; scores are multiplied with ``SCALE``; a mask ``[batch, keys]`` of f32 is added.

>>> Attention(group=4, queries=1).text().count("func.func @f")
1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SCALE = 0.125
_HEAD = """
#query = affine_map<(b, h, g, m, n, k) -> (b, h, g, m, k)>
#key = affine_map<(b, h, g, m, n, k) -> (b, h, n, k)>
#value = affine_map<(b, h, g, m, n, k) -> (b, h, k, n)>
#score = affine_map<(b, h, g, m, n, k) -> (b, h, g, m, n)>
#id = affine_map<(b, h, g, m, n) -> (b, h, g, m, n)>
#mask = affine_map<(b, h, g, m, n) -> (b, n)>
"""
_PARALLEL = ", ".join(['"parallel"'] * 5)
_PRODUCT = """
  ^bb0(%x: {t}, %y: {t}, %old: f32):
    %wx = arith.extf %x : {t} to f32
    %wy = arith.extf %y : {t} to f32
    %pr = arith.mulf %wx, %wy : f32
    %su = arith.addf %old, %pr : f32
    linalg.yield %su : f32"""
_NARROW = """
  ^bb0(%x: f32, %old: {t}):
    %na = arith.truncf %x : f32 to {t}
    linalg.yield %na : {t}"""
_SCORES = {
    "": "linalg.yield %t : f32",
    "causal": """%i = linalg.index 3 : index
    %j = linalg.index 4 : index
    %seen = arith.cmpi ule, %j, %i : index
    %u = arith.select %seen, %t, %nothing : f32
    linalg.yield %u : f32""",
    "array": """%u = arith.addf %t, %a : f32
    linalg.yield %u : f32""",
}
_FUNCTION = """
func.func @{name}(%q: {q}, %k: {k}, %v: {v}, {mask}%o: {o}) -> {o} {{
  %z = arith.constant 0.0 : f32
  %nothing = arith.constant 0xFF800000 : f32
  %scale = arith.constant {scale} : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %nb = tensor.dim %q, %c0 : {q}
  %nh = tensor.dim %q, %c1 : {q}
  %ng = tensor.dim %q, %c2 : {q}
  %nm = tensor.dim %q, %c3 : {q}
  %nn = tensor.dim %k, %c2 : {k}
  %e = tensor.empty(%nb, %nh, %ng, %nm, %nn) : {s}
  %f = linalg.fill ins(%z : f32) outs(%e : {s}) -> {s}
  %p = linalg.generic {{indexing_maps = [#query, #key, #score], iterator_types = [{parallel}, "reduction"]}}
      ins(%q, %k : {q}, {k}) outs(%f : {s}) {{{product}
  }} -> {s}
  %scores = linalg.generic {{indexing_maps = [#id, {mask_map}#id], iterator_types = [{parallel}]}}
      ins(%p{mask_value} : {s}{mask_type}) outs(%e : {s}) {{
  ^bb0(%x: f32, {mask_argument}%old: f32):
    %t = arith.mulf %x, %scale : f32
    {score}
  }} -> {s}
  %w = linalg.softmax dimension(4) ins(%scores : {s}) outs(%e : {s}) -> {s}
  %he = tensor.empty(%nb, %nh, %ng, %nm, %nn) : {h}
  %hw = linalg.generic {{indexing_maps = [#id, #id], iterator_types = [{parallel}]}}
      ins(%w : {s}) outs(%he : {h}) {{{narrow}
  }} -> {h}
  %re = tensor.empty(%nb, %nh, %ng, %nm) : {r}
  %rf = linalg.fill ins(%z : f32) outs(%re : {r}) -> {r}
  %rs = linalg.generic {{indexing_maps = [#query, #value, #score], iterator_types = [{parallel}, "reduction"]}}
      ins(%hw, %v : {h}, {v}) outs(%rf : {r}) {{{product}
  }} -> {r}
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = [{parallel}]}}
      ins(%rs : {r}) outs(%o : {o}) {{{narrow}
  }} -> {o}
  return %r : {o}
}}
"""


@dataclass(frozen=True)
class Attention:
    """One function."""

    kind: str = "f16"
    group: int | str = "?"
    """Heads of queries for each head of keys; ``?`` is a dynamic extent."""
    queries: int | str = "?"
    keys: int | str = "?"
    depth: int = 32
    width: int = 32
    mask: str = ""
    """``causal``, ``array``, or none."""
    name: str = "f"
    around: tuple[int | str, int | str] = ("?", "?")
    """Batch and heads of keys."""

    def text(self, *, head: bool = True) -> str:
        """The source; ``head``: with the maps that all functions of a file share."""
        b, h = self.around
        t, g, m, n = self.kind, self.group, self.queries, self.keys
        has_array = self.mask == "array"
        array = f"tensor<{b}x{n}xf32>"
        text = _FUNCTION.format(
            name=self.name,
            q=f"tensor<{b}x{h}x{g}x{m}x{self.depth}x{t}>",
            k=f"tensor<{b}x{h}x{n}x{self.depth}x{t}>",
            v=f"tensor<{b}x{h}x{n}x{self.width}x{t}>",
            o=f"tensor<{b}x{h}x{g}x{m}x{self.width}x{t}>",
            s="tensor<?x?x?x?x?xf32>",
            h=f"tensor<?x?x?x?x?x{t}>",
            r=f"tensor<?x?x?x?x{self.width}xf32>",
            parallel=_PARALLEL,
            product=_PRODUCT.format(t=t),
            narrow=_NARROW.format(t=t),
            score=_SCORES[self.mask],
            scale=SCALE,
            mask=f"%mask: {array}, " if has_array else "",
            mask_map="#mask, " if has_array else "",
            mask_value=", %mask" if has_array else "",
            mask_type=f", {array}" if has_array else "",
            mask_argument="%a: f32, " if has_array else "",
        )
        return _HEAD + text if head else text


def expected(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None) -> Any:
    """In float64."""
    q, k, v = (each.astype("f8") for each in (q, k, v))
    scores = np.einsum("bhgmd,bhnd->bhgmn", q, k) * SCALE
    if causal:
        queries, keys = scores.shape[-2:]
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None], scores, -np.inf)
    if mask is not None:
        scores = scores + mask[:, None, None, None]
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), v)
