"""What ptxas says: registers, memory and warnings per kernel, and its errors in the user's terms.

In: PTX; the text that ``ptxas -v`` writes. Out: a cubin; a Report, or an error that names the kernel. We run ptxas
ourselves: MLIR, which could, throws its words away when all went well.

>>> report("ptxas info    : Compiling entry function 'k' for 'sm_80'\\n"
...        "ptxas info    : Used 28 registers, used 1 barriers, 256 bytes smem\\n").kernels[0].registers
28
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aot import fileset, process
from aot.errors import AotError, ArchUnfit, CompilerCrash, Diagnostic, LoweringError, ToolMissing
from aot.fatbins.ptxplace import Text
from aot.model import Location, Usage
from aot.targets.arch import MAX_THREADS_PER_BLOCK, REGISTERS_PER_BLOCK, WARP, Target, Version
from aot.tools import toolchain
from aot.tools.toolchain import Toolchain

_THREADS = re.compile(rb"(-split-compile[ =])\d+")
"""Where a cubin tells how it was made."""
_FEWEST = 2
"""Threads: with one alone ptxas puts symbols in another order."""
REGISTERS_PER_GRAIN = 256
"""Registers are given to a warp in grains of this many."""
WARPS_PER_GRAIN = 4
"""A block's warps are spread over the four partitions of a multiprocessor."""


def assemble(
    text: bytes, target: Target, subject: str, tools: Toolchain, options: Sequence[str], threads: int = 1
) -> tuple[bytes, str]:
    """The cubin of PTX, and what ptxas said; its errors are in the user's terms. ``subject`` is the source.

    The cubin is the same whatever the number of threads.
    """
    if tools.threads:
        options = (*options, f"{toolchain.SPLIT}={max(_FEWEST, threads)}")
    with tempfile.TemporaryDirectory(prefix="aot-ptxas-") as folder:
        file, made = Path(folder, "image.ptx"), Path(folder, "image.cubin")
        fileset.write_file(file, text)
        done = process.run([tools.ptxas, "-arch", target.chip, *options, "-o", made, file])
        words = (done.stdout + done.stderr).decode("utf-8", "replace")
        if process.died(done):
            raise death(words, subject, target.name, tools)
        if done.returncode:
            raise failure(words, text.decode(), subject, target.name, tools)
        return _THREADS.sub(rb"\g<1>%d" % _FEWEST, fileset.read_file(made)), words


@dataclass(frozen=True)
class KernelReport:
    """One kernel in ptxas' words."""

    name: str
    registers: int
    static_shared_bytes: int
    local_bytes: int
    spill_bytes: int

    def usage(self, max_block: int | None, code_bytes: int) -> Usage:
        """As the manifest has it; ``max_block`` is the block size promised in the code, in threads."""
        limit = max_threads(self.registers)
        threads = limit if max_block is None else min(limit, max_block)
        return Usage(self.registers, self.static_shared_bytes, self.local_bytes, self.spill_bytes, threads, code_bytes)


@dataclass(frozen=True)
class Report:
    """One run of ptxas."""

    kernels: tuple[KernelReport, ...]
    """Sorted by name."""
    warnings: tuple[str, ...] = ()
    """Warnings, and advice with a number such as C7510 (serialised wgmma), without file names."""


_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(?P<name>[^']+)' for")
_FRAME = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores")
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_ADVICE = re.compile(
    r"ptxas (?:warning|info)\s*: (?P<text>\(C\d+\).*)|ptxas (?P<place>/\S+, line \d+; )?warning\s*: (?P<warning>.*)"
)


def report(words: str) -> Report:
    """Read the output of ``ptxas -v``."""
    kernels: list[KernelReport] = []
    advice: list[str] = []
    name, frame = "", (0, 0)
    for line in words.splitlines():
        if found := _ENTRY.search(line):
            name, frame = found["name"], (0, 0)
        elif found := _FRAME.search(line):
            # Frames of device functions follow after the kernel's own line and belong to nobody we list.
            frame = (int(found["stack"]), int(found["stores"]))
        elif (found := _USED.search(line)) and name:
            kernels.append(_kernel(name, int(found["registers"]), line, frame))
            name = ""
        elif found := _ADVICE.search(line):
            advice.append((found["text"] or found["warning"]).strip())
    return Report(tuple(sorted(kernels, key=lambda each: each.name)), tuple(dict.fromkeys(advice)))


def _kernel(name: str, registers: int, line: str, frame: tuple[int, int]) -> KernelReport:
    shared, stack = _SHARED.search(line), _STACK.search(line)
    return KernelReport(
        name=name,
        registers=registers,
        static_shared_bytes=int(shared[1]) if shared else 0,
        local_bytes=max(frame[0], int(stack[1]) if stack else 0),
        spill_bytes=frame[1],
    )


def max_threads(registers: int) -> int:
    """Threads that a block may have with this many registers per thread.

    >>> max_threads(28), max_threads(128), max_threads(255)
    (1024, 512, 256)
    """
    per_warp = -(-max(registers, 1) * WARP // REGISTERS_PER_GRAIN) * REGISTERS_PER_GRAIN
    warps = REGISTERS_PER_BLOCK // per_warp // WARPS_PER_GRAIN * WARPS_PER_GRAIN
    return min(warps * WARP, MAX_THREADS_PER_BLOCK)


_PLACE = re.compile(r"(?:ptxas )?/?\S*\.ptx, line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.*)")
_FATAL = re.compile(r"ptxas (?:fatal|error)\s*: (?P<text>.*)")
_ABOUT = re.compile(r"[Ff]unction '(?P<name>[\w$]+)'")
_ABORTED = "Ptx assembly aborted due to errors"
_MOST = 8
"""Messages of one run that are shown."""
_HEXADECIMAL = re.compile(r"\b0x[0-9a-fA-F]+\b")
_UNRESOLVED = re.compile(r"Unresolved extern function '(?P<name>[^']+)'")
_NOT_HERE = re.compile(r"not supported on \.target|requires \.target|not supported for target|Feature '.*' requires")
_LEAST_ISA = re.compile(r"requires PTX ISA \.version (\d+)\.(\d+)")


def failure(words: str, ptx: str, subject: str, target: str, tools: Toolchain) -> AotError:
    """The error for a ptxas run that failed; ``subject`` is the source, ``ptx`` the text that it was given.

    Its diagnostics have what was said of code whose place in the source the text tells.
    """
    text = Text(ptx)
    missing = _UNRESOLVED.search(words)
    if missing and missing["name"].startswith("__nv_"):
        return libdevice_missing(missing["name"], subject, tools)
    if missing:
        places = dict.fromkeys(text.place(number) for number in text.calls(missing["name"]))
        return LoweringError(
            f"{subject}: a kernel calls '{missing['name']}', which is not defined in the source",
            hint="define it there; known are only libdevice's (__nv_…) and the device's own (vprintf, malloc, …)",
            diagnostics=tuple(
                _diagnostic(f"'{missing['name']}' is called here", place, subject) for place in places if place
            ),
        )
    said = _said(words, text)
    told = "".join(f"\n  {each}" for each, place in said if place is None)
    placed = tuple(_diagnostic(each, place, subject) for each, place in said if place is not None)
    if "too much shared data" in words:
        hint = "static shared memory ends at 48 KiB; use gpu.dynamic_shared_memory for more"
        return LoweringError(f"{subject}: a kernel does not fit {target}:{told}", hint=hint, diagnostics=placed)
    refusal = f"{subject}: ptxas {tools.ptxas_version} refuses the code for {target}:{told}"
    if _NOT_HERE.search(words):
        hint = "leave this architecture out for this source in aot.toml"
        return ArchUnfit(refusal, hint=hint, diagnostics=placed)
    return LoweringError(refusal, hint="`--dump DIR` keeps the IR of each stage", diagnostics=placed)


def least_isa(error: LoweringError) -> Version:
    """The PTX ISA version that ptxas asked for when it refused the code; (0, 0) where it asked for none."""
    asked = [(int(found[1]), int(found[2])) for found in _LEAST_ISA.finditer(error.text())]
    return max(asked, default=(0, 0))


def death(words: str, subject: str, target: str, tools: Toolchain) -> CompilerCrash:
    """The error for a ptxas run that was ended by a signal."""
    last = "\n".join(words.strip().splitlines()[-3:])
    return CompilerCrash(
        f"{subject}: ptxas {tools.ptxas_version} died while assembling for {target}\n{last}".rstrip(),
        hint="`--dump DIR` keeps the IR of each stage; another toolkit (--toolkit DIR) may take it",
    )


def libdevice_missing(function: str, subject: str, tools: Toolchain) -> ToolMissing:
    """The error for a libdevice function that was not linked."""
    place = tools.libdevice or tools.toolkit / "nvvm" / "libdevice" / "libdevice.10.bc"
    state = "which does not define it" if tools.libdevice else "which does not exist"
    return ToolMissing(
        f"{subject}: the math function '{function}' of libdevice is missing; "
        f"looked in MLIR's bindings and at {place}, {state}",
        hint="python -m pip install nvidia-nvvm, or name a whole toolkit with --toolkit DIR",
    )


def _said(words: str, text: Text) -> list[tuple[str, Location | None]]:
    """What ptxas said, and of which place of the source, as far as that is known."""
    said: list[tuple[str, Location | None]] = []
    for line in words.splitlines():
        if found := _PLACE.search(line):
            number = int(found["line"])
            code = f" [{text.line(number)}]" if text.line(number) else ""
            said.append((f"kernel '{text.kernel(number)}': {_decimal(found['text'])}{code}", text.place(number)))
        elif found := _FATAL.search(line):
            kernel = _ABOUT.search(found["text"])
            said.append((_decimal(found["text"]), text.place_of(kernel["name"]) if kernel else None))
    known = [each for each in dict.fromkeys(said) if each[0] != _ABORTED]
    return known[:_MOST] or [(words.strip(), None)]


def _decimal(words: str) -> str:
    """Sizes as people write them.

    >>> _decimal("too much shared data (0x40000 bytes, 0xc000 max)")
    'too much shared data (262144 bytes, 49152 max)'
    """
    return _HEXADECIMAL.sub(lambda found: str(int(found[0], 16)), words)


def _diagnostic(message: str, place: Location, subject: str) -> Diagnostic:
    """Of a place in a file without its folder, which is the source itself where it has that name."""
    file = subject if Path(subject).name == place.file else place.file
    return Diagnostic(message, file, place.line, place.column)
