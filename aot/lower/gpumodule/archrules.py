"""Which architectures device operations need, so that a misfit is told before LLVM aborts on it.

In: a module with a gpu.module; then Targets. Out: what its operations need; for each target nothing, or ArchUnfit that
lists each operation with its place in the source, what it needs, and what to do.

Rules go by the operation's name, and by its types and attributes where these decide. They were tried out
with LLVM 22 and ptxas 13.5 on every architecture. Inline assembly is not looked into: ptxas tells about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from aot import mlir
from aot.errors import ArchUnfit, Diagnostic
from aot.model import Location
from aot.targets.arch import CUBIN, TABLE, Capability, Target

MOST_SHOWN = 8
"""Places listed in one message."""
TARGETS = tuple(
    Target(arch.capability, letter) for arch in TABLE for letter in ("", *(letter for letter, _ in arch.letters))
)


@dataclass(frozen=True)
class Need:
    """What an operation needs from an architecture."""

    least: Capability
    """First capability that has it."""
    letters: str = ""
    """Feature letters of which the target must have one: ``a``, ``af``; empty: any target will do."""
    only: tuple[Capability, ...] = ()
    """Only these capabilities have it; empty: all from ``least`` on."""

    def met_by(self, target: Target) -> bool:
        right_one = not self.only or target.capability in self.only
        return (
            target.capability >= self.least and right_one and (not self.letters or target.letter in tuple(self.letters))
        )

    def text(self) -> str:
        """``sm_80 or newer``, ``sm_90a``, ``sm_100a or sm_103a``."""
        letter = self.letters[:1]
        if not self.only:
            return f"sm_{self.least[0]}{self.least[1]}{letter} or newer"
        return " or ".join(f"sm_{major}{minor}{letter}" for major, minor in self.only)


@dataclass(frozen=True)
class Rule:
    """What operations need whose name begins so, and whose types and attributes match."""

    name: str
    need: Need
    pattern: str = ""
    """Regular expression, searched in ``attribute = value`` pairs and types; empty: all."""


ANY, TURING, AMPERE, ADA = Need((5, 0)), Need((7, 5)), Need((8, 0)), Need((8, 9))
VOLTA, HOPPER, BLACKWELL = Need((7, 0)), Need((9, 0)), Need((10, 0))
WGMMA = Need((9, 0), "a", ((9, 0),))
REGISTERS = Need((9, 0), "af")
NARROW_FLOATS = Need((10, 0), "af")
REDUX_FLOAT = Need((10, 0), "af", ((10, 0), (10, 3)))
STOCHASTIC = Need((10, 0), "a", ((10, 0), (10, 3)))
TENSOR_MEMORY = Need((10, 0), "a", ((10, 0), (10, 1)))
BLOCK_SCALE = Need((12, 0), "a", ((12, 0), (12, 1)))

RULES: tuple[Rule, ...] = (
    Rule("gpu.cluster_", HOPPER),
    Rule("nvgpu.device_async_", AMPERE),
    Rule("nvgpu.mbarrier.", HOPPER),
    Rule("nvgpu.mma.sp.sync", AMPERE),
    Rule("nvgpu.tma.", HOPPER),
    Rule("nvgpu.warpgroup.", WGMMA),
    Rule("nvvm.cluster.", HOPPER),
    Rule("nvvm.clusterlaunchcontrol.", BLACKWELL),
    Rule("nvvm.convert.bf16x2.to.f8x2", NARROW_FLOATS),
    Rule("nvvm.convert.f16x2.to.f8x2", ADA),
    Rule("nvvm.convert.f32x2.to.bf16x2", AMPERE),
    Rule("nvvm.convert.f32x2.to.bf16x2", STOCHASTIC, r"rnd_mode<rs>"),
    Rule("nvvm.convert.f32x2.to.f16x2", AMPERE),
    Rule("nvvm.convert.f32x2.to.f16x2", STOCHASTIC, r"rnd_mode<rs>"),
    Rule("nvvm.convert.f32x2.to.f4x2", NARROW_FLOATS),
    Rule("nvvm.convert.f32x2.to.f6x2", NARROW_FLOATS),
    Rule("nvvm.convert.f32x2.to.f8x2", ADA),
    Rule("nvvm.convert.f32x2.to.f8x2", NARROW_FLOATS, r"f8E8M0FNU"),
    Rule("nvvm.convert.f32x4.", STOCHASTIC),
    Rule("nvvm.convert.f4x2.", NARROW_FLOATS),
    Rule("nvvm.convert.f6x2.", NARROW_FLOATS),
    Rule("nvvm.convert.f8x2.to.bf16x2", NARROW_FLOATS),
    Rule("nvvm.convert.f8x2.to.f16x2", ADA),
    Rule("nvvm.convert.float.to.tf32", HOPPER),
    Rule("nvvm.convert.float.to.tf32", AMPERE, r"rnd_mode<rna>"),
    Rule("nvvm.cp.async.", AMPERE),
    Rule("nvvm.cp.async.bulk.", HOPPER),
    Rule("nvvm.elect.sync", HOPPER),
    Rule("nvvm.fence.", HOPPER),
    Rule("nvvm.fence.proxy", ANY, r"proxy_kind<alias>"),
    Rule("nvvm.griddepcontrol", HOPPER),
    Rule("nvvm.ldmatrix", TURING),
    Rule("nvvm.ldmatrix", NARROW_FLOATS, r"elt_type<b(8|6|4)"),
    Rule("nvvm.mapa", HOPPER),
    Rule("nvvm.mbarrier.", HOPPER),
    Rule("nvvm.mbarrier.init", AMPERE),
    Rule("nvvm.mbarrier.inval", AMPERE),
    Rule("nvvm.mbarrier.arrive", AMPERE),
    Rule("nvvm.mbarrier.arrive", HOPPER, r"ptr<7>"),
    Rule("nvvm.mbarrier.arrive.expect_tx", HOPPER),
    Rule("nvvm.mbarrier.arrive_drop", HOPPER),
    Rule("nvvm.memory.barrier", HOPPER, r"mem_scope<cluster>"),
    Rule("nvvm.mma.block_scale", BLOCK_SCALE),
    Rule("nvvm.mma.sp.", AMPERE),
    Rule("nvvm.mma.sp.block_scale", BLOCK_SCALE),
    Rule("nvvm.prefetch", HOPPER),
    Rule("nvvm.read.ptx.sreg.cluster", HOPPER),
    Rule("nvvm.read.ptx.sreg.nclusterid", HOPPER),
    Rule("nvvm.redux.sync", AMPERE),
    Rule("nvvm.redux.sync", REDUX_FLOAT, r"\bf32\b"),
    Rule("nvvm.setmaxregister", REGISTERS),
    Rule("nvvm.st.bulk", BLACKWELL),
    Rule("nvvm.stmatrix", HOPPER),
    Rule("nvvm.stmatrix", NARROW_FLOATS, r"elt_type<b8"),
    Rule("nvvm.tcgen05.", TENSOR_MEMORY),
    Rule("nvvm.tcgen05.shift", Need((10, 0), "a", ((10, 0), (10, 1), (10, 3)))),
    Rule("nvvm.wgmma.", WGMMA),
    # Matrix instructions: element types and shapes that came after the first ones. The first match counts.
    *(
        Rule(name, need, pattern)
        for name in ("nvvm.mma.sync", "nvvm.wmma.", "nvgpu.mma.sync", "gpu.subgroup_mma_")
        for need, pattern in (
            (ADA, r"\bf8E|\be4m3\b|\be5m2\b"),
            (AMPERE, r"\btf32\b|\bbf16\b|\bf64\b|tf32Enabled"),
            (AMPERE, r"m = 16, n = 8, k = (16|32|64)>|mmaShape = \[16, 8, (16|32|64)\]"),
            (VOLTA, ""),
        )
    ),
)


@dataclass(frozen=True)
class Use:
    """An operation that not every architecture has."""

    need: Need
    place: Location
    told: Diagnostic


@dataclass(frozen=True)
class Found:
    """What the kernels of a module need."""

    path: str
    """Of the source, for messages."""
    uses: tuple[Use, ...]


def check(found: Sequence[Found], target: Target) -> None:
    """ArchUnfit when an operation, of a source's kernels in parts, needs another architecture than ``target``."""
    misfits = [use for each in found for use in each.uses if not use.need.met_by(target)]
    if not misfits:
        return
    needed = _strongest({use.need for use in misfits})
    # An operation of the source may have become several: one message for its place.
    places: dict[Location, Diagnostic] = {}
    for use in misfits:
        if use.need in needed:
            places.setdefault(use.place, use.told)
    what = " and ".join(sorted(need.text() for need in needed))
    raise unfit(found[0].path, target, f"needs {what}", tuple(places.values())[:MOST_SHOWN])


def find(module: mlir.Module) -> Found:
    """What the operations of a module's kernels need, each kind of need once for a place."""
    found: dict[tuple[Need, Location], Use] = {}
    for op in mlir.walk(module):
        need = _need(op)
        if need is not ANY:
            place = mlir.location_of(op)
            if (need, place) not in found:
                found[need, place] = Use(need, place, mlir.diagnostic_at(op, f"'{op.name}' needs {need.text()}"))
    return Found(module.context.aot_path or "module", tuple(found.values()))


def _strongest(found: set[Need]) -> set[Need]:
    """The needs that no other one implies."""
    serving = {need: {each for each in TARGETS if need.met_by(each)} for need in found}
    return {need for need in found if not any(serving[other] < serving[need] for other in found)}


def unfit(path: str, target: Target, why: str, places: tuple[Diagnostic, ...]) -> ArchUnfit:
    """The error for code that this target cannot have; ``path`` is the source."""
    ptx = "" if target.kind == CUBIN else " (PTX; --no-ptx leaves it out)"
    return ArchUnfit(
        f"{path}: the code {why}, but {target.name} was asked for{ptx}",
        diagnostics=places,
        hint="ask for other architectures with --archs, or leave this one out for this source in aot.toml "
        '([source.<name>] with archs = ["…"] or min-arch = "…")',
    )


@cache
def _rules(name: str) -> tuple[Rule, ...]:
    """The rules for an operation, the most specific name first, and rules with a pattern first among these."""
    found = [rule for rule in RULES if name.startswith(rule.name)]
    return tuple(sorted(found, key=lambda rule: (-len(rule.name), not rule.pattern)))


def _need(op: mlir.Operation) -> Need:
    rules = _rules(op.name)
    text = _described(op) if any(rule.pattern for rule in rules) else ""
    return next((rule.need for rule in rules if not rule.pattern or re.search(rule.pattern, text)), ANY)


def _described(op: mlir.Operation) -> str:
    """Attributes and types of an operation, for patterns."""
    names = [getattr(each, "name", each) for each in op.attributes]
    attributes = [f"{name} = {op.attributes[name]}" for name in names]
    return " ".join([*attributes, *(str(value.type) for value in (*op.operands, *op.results))])
