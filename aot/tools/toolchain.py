"""The tools a build uses, each by its path: ptxas and libdevice of one CUDA toolkit, LLVM's opt and llc.

In: the user's choice (``--toolkit DIR``, ``--cuda 12``, or nothing). Out: a Toolchain. Tools come from the
PyPI packages of the build extra or from the folder that was named, never from PATH. Two environment
variables say the same as the options: ``AOT_TOOLKIT`` (a CUDA folder with ``bin/ptxas``) and ``AOT_LLVM``
(a folder with ``opt`` and ``llc``).

>>> find().ptxas                                                        # doctest: +SKIP
PosixPath('.../site-packages/nvidia/cu13/bin/ptxas')
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aot import errors, process
from aot.errors import ArchUnsupported, ToolMissing
from aot.targets.arch import CUBIN, PTX, TABLE, Arch, Target, Version, dotted, other_name

TOOLKIT_VARIABLE = "AOT_TOOLKIT"
LLVM_VARIABLE = "AOT_LLVM"

PYPI_FOLDERS = {13: "cu13", 12: "cuda_nvcc"}
"""Where the packages of each CUDA major version put ptxas, inside the ``nvidia`` namespace package."""
PYPI_EXTRAS = {13: "build", 12: "cu12"}

OLDEST: Version = (12, 0)
"""Older toolkits know neither Hopper nor the PTX that LLVM writes for it."""
LLVM_MAJOR = 22
SPLIT = "--split-compile"
"""ptxas' option for threads."""
COMPRESSION_DRIVER: Version = (12, 4)
"""Drivers before it refuse compressed fatbins as invalid images."""
_ANOTHER = f"choose another with --toolkit DIR, --cuda 12 or {TOOLKIT_VARIABLE}"
_EITHER = f"name a toolkit of that version (--toolkit DIR, {TOOLKIT_VARIABLE}), or say the toolkit or the version alone"


@dataclass(frozen=True)
class Toolchain:
    """The tools of one build, and what they can do."""

    ptxas: Path
    cuda: Version
    """Version of the toolkit that ptxas belongs to."""
    ptxas_version: str
    """As ptxas gives it: ``13.5.37``."""
    ptxas_build: str
    """Which build of it: ``cuda_13.5.r13.5/compiler.39125733_0``."""
    archs: tuple[str, ...]
    """Architectures that this ptxas can assemble for, as it spells them, sorted."""
    libdevice: Path | None
    """NVIDIA's math library as bitcode; None when the toolkit has none (MLIR may carry its own)."""
    opt: Path
    llc: Path
    llvm_version: str
    """Of llc: ``22.1.8``."""
    cuobjdump: Path | None = None
    """For inspection only; None when no package has it."""
    threads: bool = False
    """Whether this ptxas can assemble kernels side by side."""

    @property
    def toolkit(self) -> Path:
        """The toolkit's folder."""
        return self.ptxas.parent.parent

    @property
    def ptx(self) -> Version:
        """Newest PTX ISA that this ptxas reads."""
        return ptx_of_cuda(self.cuda)


def find(
    toolkit: str | None = None, cuda: int | None = None, environment: Mapping[str, str] | None = None
) -> Toolchain:
    """All tools, or ToolMissing that says where each was looked for and what to install."""
    env = os.environ if environment is None else environment
    ptxas = find_ptxas(toolkit, cuda, env)
    folder = ptxas.parent.parent
    opt, llc = (find_llvm(tool, env) for tool in ("opt", "llc"))
    said = _answers(ptxas, llc)
    version = said.ptxas_version
    release = (int(version.split(".")[0]), int(version.split(".")[1]))
    if release < OLDEST:
        raise ToolMissing(f"{ptxas} is of CUDA {dotted(release)}; this needs {dotted(OLDEST)} or newer", hint=_ANOTHER)
    if cuda is not None and release[0] != cuda:
        raise ToolMissing(f"CUDA {cuda} was asked for, but {ptxas} is of CUDA {dotted(release)}", hint=_EITHER)
    extras = [folder / "bin", *(root / PYPI_FOLDERS[13] / "bin" for root in _package_roots("nvidia"))]
    return Toolchain(
        ptxas=ptxas,
        cuda=release,
        ptxas_version=version,
        ptxas_build=said.ptxas_build,
        archs=said.archs,
        threads=said.threads,
        libdevice=_first([folder / "nvvm" / "libdevice" / "libdevice.10.bc"]),
        opt=opt,
        llc=llc,
        llvm_version=said.llvm_version,
        cuobjdump=_first(place / "cuobjdump" for place in extras),
    )


def check(tools: Toolchain, targets: Sequence[Target]) -> None:
    """ArchUnsupported for the targets that LLVM or this ptxas cannot build; all of them in one message."""
    problems: dict[str, str] = {}
    for target in targets:
        if problem := _problem(tools, target):
            # PTX that was added by itself has the cubin's problem.
            problems.setdefault(target.chip, problem)
    if not problems:
        return
    hint = "`aot targets` lists what can be built"
    if any(target.min_ptx is not None for target in targets if target.chip in problems):
        hint = f"{tools.ptxas} is of CUDA {dotted(tools.cuda)}; {_ANOTHER}; {hint}"
    raise ArchUnsupported("\n".join(problems.values()), hint=hint)


def supports(tools: Toolchain, target: Target) -> bool:
    """Whether a target can be built with these tools."""
    return not _problem(tools, target)


def _problem(tools: Toolchain, target: Target) -> str:
    if target.min_ptx is None:
        return f"{target.name}: LLVM {tools.llvm_version} cannot generate code for it{_older_ptx(target)}"
    if target.chip not in tools.archs:
        other = other_name(target.capability)
        renamed = f" (the same chip is sm_{other[0]}{other[1]}{target.letter} in that CUDA)" if other else ""
        return f"{target.name}: ptxas {tools.ptxas_version} cannot build it{renamed}{_instead(tools, target)}"
    return ""


def _older_ptx(wanted: Target) -> str:
    older = [Target(arch.capability, kind=PTX) for arch in TABLE if arch.ptx and arch.capability < wanted.capability]
    return f"; GPUs of it run the PTX of older ones, such as {older[-1].name}" if older else ""


def _instead(tools: Toolchain, wanted: Target) -> str:
    buildable = [Target(arch.capability) for arch in TABLE if arch.ptx and f"sm_{_number(arch)}" in tools.archs]
    others = [each for each in buildable if each.capability != wanted.capability]
    if not others:
        return ""
    near = min(others, key=lambda each: abs(int(each.number) - int(_number(wanted.arch))))
    return f"; the nearest that it can is {near.name}"


def _number(arch: Arch) -> str:
    return f"{arch.capability[0]}{arch.capability[1]}"


def min_driver_cuda(tools: Toolchain, images: Sequence[tuple[str, str]], *, compressed: bool) -> Version:
    """The CUDA version that a driver must have for a package with these images, as (kind, PTX ISA version).

    A cubin needs the major version of its ptxas; PTX needs the CUDA that knows its ISA version.
    """
    needs: list[Version] = [COMPRESSION_DRIVER] if compressed else []
    if any(kind == CUBIN for kind, _ in images):
        needs.append((tools.cuda[0], 0))
    elif images:
        versions = [tuple(int(part) for part in isa.split(".")) for kind, isa in images if kind == PTX]
        needs.append(cuda_of_ptx(min((major, minor) for major, minor in versions)))
    return max(needs, default=OLDEST)


_PTX_OF_CUDA: tuple[tuple[Version, Version], ...] = (
    ((13, 0), (9, 0)),
    ((12, 9), (8, 8)),
    ((12, 8), (8, 7)),
    ((12, 7), (8, 6)),
    ((12, 5), (8, 5)),
    ((12, 0), (8, 0)),
    ((11, 0), (7, 0)),
    ((10, 0), (6, 3)),
)
"""First CUDA of a run of versions, and its PTX ISA; inside a run both minor versions grow together."""
_STEADY_RUNS = ((13, 0), (12, 0), (11, 0))


def ptx_of_cuda(cuda: Version) -> Version:
    """Newest PTX ISA of a CUDA version.

    >>> ptx_of_cuda((12, 6)), ptx_of_cuda((12, 3)), ptx_of_cuda((13, 1))
    ((8, 5), (8, 3), (9, 1))
    """
    first, isa = next((row for row in _PTX_OF_CUDA if cuda >= row[0]), _PTX_OF_CUDA[-1])
    grown = cuda[1] - first[1] if first in _STEADY_RUNS else 0
    return isa[0], isa[1] + grown


def cuda_of_ptx(isa: Version) -> Version:
    """First CUDA version that reads a PTX ISA version.

    >>> cuda_of_ptx((8, 6)), cuda_of_ptx((7, 8)), cuda_of_ptx((9, 0))
    ((12, 7), (11, 8), (13, 0))
    """
    known = [(major, minor) for major in (10, 11, 12, 13) for minor in range(0, 10) if (major, minor) <= (13, 9)]
    return next((cuda for cuda in known if ptx_of_cuda(cuda) >= isa), known[-1])


@dataclass(frozen=True)
class Answers:
    """What the tools say about themselves."""

    ptxas_version: str
    ptxas_build: str
    archs: tuple[str, ...]
    threads: bool
    llvm_version: str


@functools.lru_cache
def _answers(ptxas: Path, llc: Path) -> Answers:
    """Asked side by side, and once in a process: each takes longer to start than to answer."""
    with ThreadPoolExecutor() as threads:
        version = threads.submit(ptxas_version, ptxas)
        abilities = threads.submit(ptxas_abilities, ptxas)
        llvm = threads.submit(llvm_version, llc)
        return Answers(*version.result(), *abilities.result(), llvm.result())


def ptxas_version(ptxas: Path) -> tuple[str, str]:
    """``13.5.37``, and which build of it."""
    said = process.check([ptxas, "--version"], error=ToolMissing, timeout=60).stdout.decode()
    found = re.search(r"\bV(\d+\.\d+\.\d+)", said)
    if found is None:
        raise ToolMissing(f"{ptxas} does not tell its version; is it ptxas?", hint=_ANOTHER)
    return found[1], said.strip().rpartition("\n")[2].removeprefix("Build ")


def ptxas_abilities(ptxas: Path) -> tuple[tuple[str, ...], bool]:
    """What this ptxas can build, and whether by threads; from its help text: ``--list-arch`` is new in CUDA 13."""
    said = process.check([ptxas, "--help"], error=ToolMissing, timeout=60).stdout.decode()
    archs = set(re.findall(r"'(sm_\d+[af]?)'", said))
    return tuple(sorted(archs, key=lambda name: (int(re.sub(r"\D", "", name)), name))), f"{SPLIT} " in said


def llvm_version(llc: Path) -> str:
    """``22.1.8``; ToolMissing for another major version than the bindings' (its IR may not be readable)."""
    said = process.check([llc, "--version"], error=ToolMissing, timeout=60).stdout.decode()
    found = re.search(r"LLVM version (\d+)\.(\d+\.\d+)", said)
    if found is None or int(found[1]) < LLVM_MAJOR:
        raise ToolMissing(f"{llc} is not of LLVM {LLVM_MAJOR} or newer", hint="python -m pip install 'aot[build]'")
    return f"{found[1]}.{found[2]}"


def find_ptxas(chosen: str | None, cuda: int | None, env: Mapping[str, str]) -> Path:
    """The ptxas of the user's choice; ToolMissing when it is not there."""
    # An option is nearer to the user than a variable.
    variable = TOOLKIT_VARIABLE if not chosen and cuda is None and env.get(TOOLKIT_VARIABLE) else ""
    toolkit = env[variable] if variable else chosen
    if toolkit is not None:
        places = [Path(toolkit).absolute() / "bin" / "ptxas"]
        advice = "name a CUDA toolkit's folder: the one that holds bin/ptxas"
    else:
        major = cuda or 13
        if major not in PYPI_FOLDERS:
            raise ToolMissing(f"no toolkit packages for CUDA {major}; there are {sorted(PYPI_FOLDERS)}")
        places = [root / PYPI_FOLDERS[major] / "bin" / "ptxas" for root in _package_roots("nvidia")]
        advice = f"install it with: python -m pip install 'aot[{PYPI_EXTRAS[major]}]'; or name a toolkit: --toolkit DIR"
    with errors.saying(variable):
        return _first(places) or _missing("ptxas", places, advice)


def find_llvm(tool: str, env: Mapping[str, str]) -> Path:
    """One of LLVM's programs; ToolMissing when it is not there."""
    folder = env.get(LLVM_VARIABLE)
    places = [Path(folder).absolute() / tool] if folder else [root / "bin" / tool for root in _package_roots("llvm")]
    advice = f"install it with: python -m pip install 'aot[build]'; or set {LLVM_VARIABLE} to a folder with opt and llc"
    with errors.saying(LLVM_VARIABLE if folder else ""):
        return _first(places) or _missing(tool, places, advice)


def _missing(tool: str, places: Sequence[Path], advice: str) -> Path:
    looked = ", ".join(str(place) for place in places) or "the installed Python packages"
    raise ToolMissing(f"{tool} was not found; looked at {looked}", hint=advice)


def _first(places: Iterable[Path]) -> Path | None:
    return next((place for place in places if place.is_file()), None)


def _package_roots(name: str) -> list[Path]:
    """Folders of an installed package; it may be a namespace package spread over several."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
