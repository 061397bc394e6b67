"""Which architectures device operations need, so that a misfit is told before LLVM aborts on it.

In: a module with a gpu.module, and a Target. Out: nothing, or ArchUnfit that lists each operation with
its place in the source, what it needs, and what to do.

The table is by operation name (the longest prefix wins); matrix instructions are looked up by their types.
Inline assembly is not looked into: ptxas tells about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from aot import mlir
from aot.arch import CUBIN, TABLE, Capability, Target
from aot.errors import ArchUnfit, Diagnostic
from aot.model import Location

MOST_SHOWN = 8
"""Places listed in one message."""


@dataclass(frozen=True)
class Need:
    """What an operation needs from an architecture."""

    least: Capability
    """First capability that has it."""
    letter: bool = False
    """Only the architecture-specific targets (``a``, or ``f`` where there is one) have it."""
    majors: tuple[int, ...] = ()
    """Only these majors have it; empty: all from ``least`` on."""

    def met_by(self, target: Target) -> bool:
        right_major = not self.majors or target.capability[0] in self.majors
        return target.capability >= self.least and right_major and (bool(target.letter) or not self.letter)

    def text(self) -> str:
        """``sm_80 or newer``, ``sm_90a``."""
        name = f"sm_{self.least[0]}{self.least[1]}{'a' if self.letter else ''}"
        if not self.majors:
            return f"{name} or newer"
        others = [f"sm_{major}0a" for major in self.majors if major != self.least[0]]
        return " or ".join([name, *others])


TARGETS = tuple(
    Target(arch.capability, letter) for arch in TABLE for letter in ("", *(letter for letter, _ in arch.letters))
)

TURING, AMPERE, ADA, HOPPER = Need((7, 5)), Need((8, 0)), Need((8, 9)), Need((9, 0))
WGMMA = Need((9, 0), letter=True, majors=(9,))
REGISTERS = Need((9, 0), letter=True)
TENSOR_MEMORY = Need((10, 0), letter=True, majors=(10, 11))

NEEDS: dict[str, Need] = {
    "nvgpu.device_async_": AMPERE,
    "nvgpu.mma.sp.sync": AMPERE,
    "nvgpu.mbarrier.": HOPPER,
    "nvgpu.tma.": HOPPER,
    "nvgpu.warpgroup.": WGMMA,
    "nvvm.barrier.cluster": HOPPER,
    "nvvm.cluster.": HOPPER,
    "nvvm.cp.async.": AMPERE,
    "nvvm.cp.async.bulk.": HOPPER,
    "nvvm.cp.async.mbarrier.": AMPERE,
    "nvvm.elect.sync": HOPPER,
    "nvvm.fence.mbarrier.init": HOPPER,
    "nvvm.fence.proxy": HOPPER,
    "nvvm.griddepcontrol": HOPPER,
    "nvvm.ldmatrix": TURING,
    "nvvm.mapa": HOPPER,
    "nvvm.mbarrier.": AMPERE,
    "nvvm.mbarrier.arrive.expect_tx": HOPPER,
    "nvvm.mbarrier.try_wait": HOPPER,
    "nvvm.mma.sp.sync": AMPERE,
    "nvvm.prefetch.tensormap": HOPPER,
    "nvvm.read.ptx.sreg.cluster": HOPPER,
    "nvvm.redux.sync": AMPERE,
    "nvvm.setmaxregister": REGISTERS,
    "nvvm.stmatrix": HOPPER,
    "nvvm.tcgen05.": TENSOR_MEMORY,
    "nvvm.wgmma.": WGMMA,
    "gpu.cluster_": HOPPER,
}

MATRIX_OPERATIONS = ("nvvm.mma.sync", "nvvm.wmma.", "nvgpu.mma.sync", "gpu.subgroup_mma_")
_MATRIX_TYPES: tuple[tuple[str, Need], ...] = (
    (r"\bf8E|<e[45]m|\be4m3\b|\be5m2\b", ADA),
    (r"\btf32\b|\bbf16\b|\bf64\b|tf32Enabled", AMPERE),
)
"""Element types of matrix instructions that came after the first ones."""
_WIDE_SHAPES = re.compile(r"m = 16, n = 8, k = (16|32|64)|mmaShape = \[16, 8, (?:16|32|64)\]")
"""Shapes of mma.sync that Turing lacks, for 16-bit and 8-bit elements alike."""


def check(module: mlir.Module, target: Target) -> None:
    """ArchUnfit when an operation in the module's kernels needs another architecture than ``target``."""
    misfits = [(op, need) for op in mlir.walk(module) if (need := _need(op)) and not need.met_by(target)]
    if not misfits:
        return
    needed = _strongest({need for _, need in misfits})
    places: dict[Location, Diagnostic] = {}
    for op, need in misfits:
        # An operation of the source may have become several: one message for its place.
        if need in needed:
            places.setdefault(mlir.location_of(op), mlir.diagnostic_at(op, f"'{op.name}' needs {need.text()}"))
    what = " and ".join(sorted(need.text() for need in needed))
    raise unfit(module, target, f"needs {what}", tuple(places.values())[:MOST_SHOWN])


def _strongest(found: set[Need]) -> set[Need]:
    """The needs that no other one implies."""
    serving = {need: {each for each in TARGETS if need.met_by(each)} for need in found}
    return {need for need in found if not any(serving[other] < serving[need] for other in found)}


def unfit(module: mlir.Module, target: Target, why: str, places: tuple[Diagnostic, ...]) -> ArchUnfit:
    """The error for code that this target cannot have."""
    path = module.context.aot_path or "module"
    ptx = "" if target.kind == CUBIN else " (PTX; --no-ptx leaves it out)"
    return ArchUnfit(
        f"{path}: the code {why}, but {target.name} was asked for{ptx}",
        diagnostics=places,
        hint="ask for other architectures with --archs, or leave this one out for this source in aot.toml "
        '([source.<name>] with archs = ["…"] or min-arch = "…")',
    )


def _need(op: mlir.Operation) -> Need | None:
    name: str = op.name
    if name.startswith(MATRIX_OPERATIONS):
        return _matrix_need(op)
    prefixes = [prefix for prefix in NEEDS if name.startswith(prefix)]
    return NEEDS[max(prefixes, key=len)] if prefixes else None


def _matrix_need(op: mlir.Operation) -> Need:
    attributes = " ".join(f"{each.name} = {each.attr}" for each in _named(op))
    types = " ".join(str(value.type) for value in (*op.operands, *op.results))
    for pattern, need in _MATRIX_TYPES:
        if re.search(pattern, f"{attributes} {types}"):
            return need
    is_wide = op.name.endswith("mma.sync") and _WIDE_SHAPES.search(attributes) is not None
    return AMPERE if is_wide else Need((7, 0))


@dataclass(frozen=True)
class _Named:
    name: str
    attr: object


def _named(op: mlir.Operation) -> list[_Named]:
    names = [getattr(each, "name", each) for each in op.attributes]
    return [_Named(name, op.attributes[name]) for name in names]
