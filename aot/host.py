"""Host code: LLVM IR to assembly for one kind of machine, optimised, the same on every build machine.

In: LLVM IR as text, from ``lower.hostmodule``. Out: a HostObject with assembly that a C compiler takes, so
that a generated package installs where only a C compiler is present.

>>> assemble(llvm_ir, "x86_64-linux-gnu", "softmax.mlir", tools).assembly[:20]   # doctest: +SKIP
b'\t.section\t.text.aot_e'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from aot import process
from aot.errors import LoweringError, UsageError
from aot.model import HostObject
from aot.targets.cpuvariant import Variant
from aot.tools.toolchain import Toolchain

# The oldest machine of each kind: a package must run on all of them.
PROCESSORS = {"x86_64-linux-gnu": "x86-64", "aarch64-linux-gnu": "generic"}
"""LLVM's processor by triple."""

# llc cannot split the coroutines of async.execute.
_COROUTINE = "presplitcoroutine"
OPT = ("-passes=default<O2>", "-o", "-", "-")
CPU_OPT = ("-passes=default<O3>", "-o", "-", "-")
LLC = (
    "-O2", "-filetype=asm", "-asm-verbose=0", "-relocation-model=pic", "-function-sections", "-data-sections",
    "-o", "-", "-",
)  # fmt: skip

# They name the builder's files or compiler; both would differ without the code differing.
_IDENTITY = re.compile(rb"^\s*\.(?:file|ident)\s.*\n", re.MULTILINE)
_GLOBAL = re.compile(rb"^[ \t]*\.globl[ \t]+(\S+)", re.MULTILINE)
_HIDDEN = re.compile(rb"^[ \t]*\.hidden[ \t]+(\S+)", re.MULTILINE)


def assemble(llvm_ir: str, triple: str, subject: str, tools: Toolchain, *, quick: bool = False) -> HostObject:
    """Compile host code for ``triple``; ``subject`` is the source, for messages. ``quick``: it need not be fast."""
    if triple not in PROCESSORS:
        raise UsageError(f"no host code for '{triple}'", hint=f"there is {', '.join(sorted(PROCESSORS))}")
    machine = (f"-mtriple={triple}", f"-mcpu={PROCESSORS[triple]}")
    passes = () if quick and _COROUTINE not in llvm_ir else OPT
    return HostObject(triple, _assembly(llvm_ir, machine, passes, subject, tools))


def assemble_cpu(llvm_ir: str, variant: Variant, subject: str, tools: Toolchain) -> HostObject:
    """Compile tensor-level functions for one kind of processor: here loops are to become vector code."""
    machine = (f"-mtriple={variant.triple}", f"-mcpu={variant.processor}", f"-mattr={variant.attributes}")
    return HostObject(variant.triple, _assembly(llvm_ir, machine, CPU_OPT, subject, tools), variant.name)


def _assembly(llvm_ir: str, machine: Sequence[str], passes: Sequence[str], subject: str, tools: Toolchain) -> bytes:
    code = llvm_ir.encode()
    if passes:
        code = _run(tools.opt, (*machine, *passes), code, subject)
    text = _run(tools.llc, (*machine, *LLC), code, subject)
    return _hide_all(_IDENTITY.sub(b"", text))


def _run(tool: Path, options: Sequence[str], data: bytes, subject: str) -> bytes:
    done = process.run([tool, *options], input=data)
    if process.died(done):
        raise process.crash(done, subject, f"host code, {tool.name} {' '.join(options)}")
    if done.returncode:
        raise LoweringError(f"{subject}: {tool.name} refuses the host code:\n{done.words()}")
    return done.stdout


def _hide_all(text: bytes) -> bytes:
    """Make every symbol hidden: only the extension's own C code may see it."""
    hidden = set(_HIDDEN.findall(text))
    exposed = [name for name in dict.fromkeys(_GLOBAL.findall(text)) if name not in hidden]
    return text + b"".join(b"\t.hidden\t" + name + b"\n" for name in exposed)
