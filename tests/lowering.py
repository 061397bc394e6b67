"""Lowering of small sources in tests, and questions about the products' text.

>>> done = lower("func.func @f() { ... }")                              # doctest: +SKIP
>>> done.functions[0].name
'f'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot import lower as lowering
from aot import mlir
from aot.lower import tensor
from aot.lower.source import prepare, sourcelevel
from aot.model import Function, Kernel
from aot.targets.arch import Capability

PATH = "kernels/test.mlir"
ONE = (
    "".join(f"%c{value} = arith.constant {value} : index\n" for value in (0, 1, 4)) + "%f1 = arith.constant 1.0 : f32\n"
)
GRID = "blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)"
BLOCK = "threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1)"


@dataclass(frozen=True)
class Lowered:
    """What a source became, as values and text that outlive the context."""

    functions: tuple[Function, ...]
    kernels: tuple[Kernel, ...]
    messages: tuple[str, ...]
    host: str
    """The joined module."""
    host_ir: str
    """LLVM IR."""
    own_chips: tuple[str, ...]
    ready: tuple[str, ...]
    """Kinds of ready objects."""

    def function(self, name: str) -> Function:
        return next(each for each in self.functions if each.name == name)

    def body(self, name: str) -> str:
        """Text of one host function in the joined module."""
        start = self.host.index(f"func.func @aot_test__{name}(")
        return self.host[start : self.host.index("\n  }", start)]

    def llvm(self, symbol: str) -> str:
        """Text of one definition in the LLVM IR."""
        head = next(line for line in self.host_ir.splitlines() if line.startswith("define") and f"@{symbol}(" in line)
        start = self.host_ir.index(head)
        return self.host_ir[start : self.host_ir.index("\n}", start)]


def lower(
    text: str | bytes, names: Mapping[str, Sequence[str]] | None = None, capabilities: tuple[Capability, ...] = ()
) -> Lowered:
    """Lower a source called ``test``, for images of these architectures."""
    data = text.encode() if isinstance(text, str) else text
    with mlir.context() as ctx:
        module = mlir.parse(data, PATH, ctx)
        done = lowering.lower(
            module, lowering.Request("test", names or {}, tensor.Options(capabilities=capabilities)), mlir.no_dump
        )
        return Lowered(
            done.functions,
            done.kernels,
            done.messages,
            str(done.host),
            done.host_ir,
            done.own_chips,
            tuple(each.kind for each in done.ready),
        )


def levels(text: str) -> dict[str, str]:
    """Level of each public function."""
    with mlir.context() as ctx:
        return sourcelevel.classify(prepare.run(mlir.parse(text.encode(), PATH, ctx)))


def function(signature: str, body: str, results: str = "") -> str:
    """A host function with the usual constants, e.g. ``function("f(%x: memref<4xf32>)", "...")``."""
    ending = "" if "return" in body else "\nreturn"
    return f"func.func @{signature} {results} {{\n{ONE}{body}{ending}\n}}\n"


def launch(body: str, after: str = "") -> str:
    """A gpu.launch of one block of four threads."""
    return f"gpu.launch {GRID} {BLOCK} {after} {{\n{body}\ngpu.terminator\n}}\n"


def cases(place: str) -> str:
    """24 cases of an ``scf.index_switch``, two blocks for MLIR; they multiply ``%l`` and store to ``place``."""
    text = ""
    for n in range(24):
        text += f"case {n} {{ %q{n} = arith.constant {n}.5 : f32\n%m{n} = arith.mulf %l, %q{n} : f32\n"
        text += f"%v{n} = math.{('absf', 'sqrt', 'sqrt')[n % 3]} %m{n} : f32\n"
        text += f"memref.store %m{n}, {place}\nscf.yield %v{n} : f32 }}\n"
    return text
