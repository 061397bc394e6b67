"""What ``benchmarks/build.py`` compares with: a shell loop over the tools of MLIR, LLVM and CUDA, and nvcc.

The shell loop runs the steps one after the other for each source and architecture. Two programs of it are not on PyPI,
mlir-opt and mlir-translate: a Python process stands for each (``build_step.py``), less what Python and its imports
take, and with what LLVM's own ``opt`` takes to start, since no such program starts in no time.

It has two ways. From tensor level, upstream's passes make one naive kernel per loop nest. From our kernels (the IR
that ``aot build --dump`` keeps before device code is lowered) it makes the machine code that we make.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from build_run import Run, run, tool

from aot.fatbins import cubin

STEP = (sys.executable, str(Path(__file__).parent / "build_step.py"))
KERNELS = "joined"
"""The dump whose gpu.modules are our kernels."""


@dataclass(frozen=True)
class Made:
    """Machine code for one architecture."""

    kernels: int
    code_bytes: int

    def text(self, sources: int) -> str:
        return f"{self.kernels / sources:.1f} kernels, {self.code_bytes / sources / 1000:.1f} kB"


def made(cubins: Iterable[bytes]) -> Made:
    """What cubins hold."""
    found = [kernel for each in cubins for kernel in cubin.kernels(each)]
    return Made(len(found), sum(kernel.code_bytes for kernel in found))


@dataclass(frozen=True)
class Shell:
    """The loop."""

    folder: Path
    archs: tuple[str, ...]
    way: str
    """``opt`` from tensor level, ``kernels`` from our kernels."""

    def run(self, files: Sequence[Path]) -> tuple[Run, Made]:
        """All files; and what came out for the first architecture."""
        self.folder.mkdir()
        start = _least([*STEP, "nothing"], self.folder).less(
            _least([tool("llvm", "bin/opt"), "--version"], self.folder)
        )
        total = Run(0.0, 0.0)
        for file in files:
            cubins: list[str] = []
            for arch in self.archs:
                total = total.plus(self._one(file, arch, cubins)).less(start.times(2))
            merge = [tool("nvidia", "cu13/bin/fatbinary"), "--create", f"{file.stem}.fatbin", "-64", *cubins]
            total = total.plus(run(merge, cwd=self.folder))
        return total, made(each.read_bytes() for each in self.folder.glob(f"*-{self.archs[0]}.*.cubin"))

    def _one(self, file: Path, arch: str, cubins: list[str]) -> Run:
        low, out = f"{file.stem}-{arch}.mlir", f"{file.stem}-{arch}"
        lower = [*STEP, self.way, arch, str(file), low]
        total = run(lower, [*STEP, "translate", arch, low, out], cwd=self.folder)
        isa = "+ptx86" if arch == "sm_100" else "+ptx80"
        llc = [tool("llvm", "bin/llc"), "-O3", f"-mcpu={arch}", f"-mattr={isa}", "-mtriple=nvptx64-nvidia-cuda"]
        for bitcode in sorted(self.folder.glob(f"{out}.*.bc")):
            ptx, made = f"{bitcode.stem}.ptx", f"{bitcode.stem}.cubin"
            assemble = [tool("nvidia", "cu13/bin/ptxas"), "-arch", arch, ptx, "-o", made]
            total = total.plus(run([*llc, bitcode.name, "-o", ptx], assemble, cwd=self.folder))
            cubins.append(f"--image3=kind=elf,sm={arch.removeprefix('sm_')},file={made}")
        return total


def _least(command: Sequence[str], folder: Path) -> Run:
    """The least of several runs: the first ones read from the disk."""
    runs = [run(command, cwd=folder) for _ in range(5)]
    return Run(min(each.wall for each in runs), min(each.cpu for each in runs))


@dataclass(frozen=True)
class Nvcc:
    """nvcc on the same programs in CUDA, as many at a time as we run jobs."""

    program: str
    folder: Path
    archs: tuple[str, ...]
    jobs: int

    def run(self, files: Sequence[Path], sample: int) -> tuple[Run, Made]:
        """All files; and what comes out of the first ones, ``sample``, for the first architecture."""
        self.folder.mkdir()
        base = [self.program, "-O3", "-fatbin", *(word for arch in self.archs for word in ("-gencode", _gencode(arch)))]
        names = " ".join(str(each) for each in files)
        script = (
            f"printf '%s\\n' {names} | xargs -P {self.jobs} -I @ sh -c '{' '.join(base)} @ -o $(basename @).fatbin'"
        )
        total = run(["sh", "-c", script], cwd=self.folder)
        for each in files[:sample]:
            one = [self.program, "-O3", "-cubin", "-arch", self.archs[0], str(each), "-o", f"{each.stem}.cubin"]
            subprocess.run(one, cwd=self.folder, check=True)
        return total, made(each.read_bytes() for each in self.folder.glob("*.cubin"))


def _gencode(arch: str) -> str:
    return f"arch={arch.replace('sm', 'compute')},code={arch}"
