"""The sources of attention in ``benchmarks/kernels.py``, and of its tests: one for each shape, with one function ``f``.

``f(q, k, v, [mask,] o)``: queries ``[batch, heads, group, queries, depth]``, keys ``[batch, heads, keys, depth]``,
values ``[batch, heads, keys, width]``; scores are multiplied with ``SCALE``; a mask ``[batch, keys]`` of f32 is added.

>>> Attention("f16", (4, 16), 1, 4096, 4096, 64, 64, "causal").source
'attention_causal_f16_4x16x1x4096x4096x64'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

SCALE = 0.125
KINDS = ("f16", "bf16")
DEPTHS = (64, 128)
SEQUENCES = ((32, 16, 512), (4, 16, 4096), (1, 16, 16384))
"""Batch, heads, queries and keys."""
GROUPED = (1, 8, 4, 4096)
"""Batch, heads of keys, heads of queries for each of them, queries and keys."""
BATCHES, KEYS = (1, 4, 16), 8192
"""Of single queries, with the heads of ``GROUPED``."""
MASKS = ("", "causal")
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
    "causal-half": """%half = arith.truncf %t : f32 to {t}
    %i = linalg.index 3 : index
    %j = linalg.index 4 : index
    %behind = arith.cmpi sgt, %j, %i : index
    %chosen = arith.select %behind, %lowest, %half : {t}
    %u = arith.extf %chosen : {t} to f32
    linalg.yield %u : f32""",
    "array": """%u = arith.addf %t, %a : f32
    linalg.yield %u : f32""",
    "causal-array": """%added = arith.addf %t, %a : f32
    %i = linalg.index 3 : index
    %j = linalg.index 4 : index
    %seen = arith.cmpi ule, %j, %i : index
    %u = arith.select %seen, %added, %nothing : f32
    linalg.yield %u : f32""",
    "window": """%i = linalg.index 3 : index
    %j = linalg.index 4 : index
    %window = arith.constant {window} : index
    %past = arith.subi %nn, %nm : index
    %own = arith.addi %i, %past : index
    %reach = arith.addi %j, %window : index
    %not_behind = arith.cmpi sle, %j, %own : index
    %near = arith.cmpi sgt, %reach, %own : index
    %seen = arith.andi %not_behind, %near : i1
    %u = arith.select %seen, %t, %nothing : f32
    linalg.yield %u : f32""",
}
_LOWEST = {"f16": "-6.550400e+04", "bf16": "-3.389531e+38"}
_FUNCTION = """
func.func @f(%q: {q}, %k: {k}, %v: {v}, {mask}%o: {o}) -> {o} {{
  %z = arith.constant 0.0 : f32
  %nothing = arith.constant 0xFF800000 : f32
  %lowest = arith.constant {lowest} : {t}
  %scale = arith.constant {scale} : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %nb = tensor.dim %q, %c0 : {q}
  %nh = tensor.dim %q, %c1 : {q}
  %ng = tensor.dim %q, %c2 : {q}
  %nm = tensor.dim %q, %c3 : {q}
  %nn = tensor.dim %k, %c{axis} : {k}
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
    around: tuple[int | str, int | str] = ("?", "?")
    """Batch and heads of keys; ``?`` is a dynamic extent."""
    group: int | str = "?"
    """Heads of queries for each head of keys."""
    queries: int | str = "?"
    keys: int | str = "?"
    depth: int = 32
    width: int = 32
    mask: str = ""
    """``causal``, ``causal-half`` (by the least number of 16 bits), ``window``, ``array``, ``causal-array``, none."""
    window: int = 256
    """Keys that a query sees of a ``window``; the last query sees the last key."""
    turned: bool = False
    """Keys are ``[batch, heads, depth, keys]``."""

    @property
    def source(self) -> str:
        """Name of its source."""
        extents = (*self.around, self.group, self.queries, self.keys)
        suffix = "dyn" if "?" in extents else "x".join(map(str, extents))
        return f"attention_{self.mask.replace('-', '_') or 'full'}_{self.kind}_{suffix}x{self.depth}"

    def text(self) -> str:
        """The source."""
        b, h = self.around
        t, g, m, n = self.kind, self.group, self.queries, self.keys
        has_array = "array" in self.mask
        array = f"tensor<{b}x{n}xf32>"
        head = _HEAD.replace("(b, h, n, k)", "(b, h, k, n)") if self.turned else _HEAD
        rows = f"{self.depth}x{n}" if self.turned else f"{n}x{self.depth}"
        return head + _FUNCTION.format(
            q=f"tensor<{b}x{h}x{g}x{m}x{self.depth}x{t}>",
            k=f"tensor<{b}x{h}x{rows}x{t}>",
            axis=3 if self.turned else 2,
            v=f"tensor<{b}x{h}x{n}x{self.width}x{t}>",
            o=f"tensor<{b}x{h}x{g}x{m}x{self.width}x{t}>",
            s="tensor<?x?x?x?x?xf32>",
            h=f"tensor<?x?x?x?x?x{t}>",
            r=f"tensor<?x?x?x?x{self.width}xf32>",
            parallel=_PARALLEL,
            product=_PRODUCT.format(t=t),
            narrow=_NARROW.format(t=t),
            score=_SCORES[self.mask].format(t=t, window=self.window),
            lowest=_LOWEST[t],
            t=t,
            scale=SCALE,
            mask=f"%mask: {array}, " if has_array else "",
            mask_map="#mask, " if has_array else "",
            mask_value=", %mask" if has_array else "",
            mask_type=f", {array}" if has_array else "",
            mask_argument="%a: f32, " if has_array else "",
        )


def attentions() -> Iterator[Attention]:
    """All static ones."""
    for kind in KINDS:
        for depth in DEPTHS:
            for mask in MASKS:
                for batch, heads, length in SEQUENCES:
                    yield Attention(kind, (batch, heads), 1, length, length, depth, depth, mask)
                batch, heads, group, length = GROUPED
                yield Attention(kind, (batch, heads), group, length, length, depth, depth, mask)
            for batch in BATCHES:
                yield Attention(kind, (batch, GROUPED[1]), GROUPED[2], 1, KEYS, depth, depth)


def dynamic(attention: Attention) -> Attention:
    """The same with dynamic extents."""
    return replace(attention, around=("?", "?"), group="?", queries="?", keys="?")


def sources() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for each in dict.fromkeys(found for one in attentions() for found in (one, dynamic(one))):
        yield each.source, each.text()
