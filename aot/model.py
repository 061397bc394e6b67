"""The values that travel between stages: plain frozen dataclasses, no behaviour beyond small queries.

``sources`` -> ``lower`` -> LoweredSource -> ``binary``/``host`` -> CompiledSource -> ``metadata`` -> manifest ->
``package`` -> FileSet -> ``wheel``. All of it can be written as JSON and read back (``aot.codec``), elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aot.settings.wishes import FAST
from aot.tiling import Tiling

TENSOR, LAUNCH = "tensor", "launch"
"""Levels of a function: linalg on values; gpu.launch with host code."""

# What host code of a function does besides launching on the caller's stream (Function.flags).
READS_DEVICE = "reads_device"
"""Host code reads device memory: the call waits there, and cannot be captured in a CUDA graph."""
HOST_SYNC = "host_sync"
"""gpu.wait really waits: host memory is registered, shared or copied (launch level)."""
MESSAGES = "messages"
"""A kernel prints or asserts: one synchronisation before the call returns."""
FORK = "fork"
"""Two or more token chains: each gets a stream of its own, ordered with the caller's."""
SERIAL = "serial"
"""async.execute: one stream, inline execution, events ignored."""


@dataclass(frozen=True)
class Location:
    """A place in a source."""

    file: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class ArrayType:
    """A ranked tensor or memref as the caller sees it."""

    kind: str
    """``tensor`` (a value) or ``memref`` (a reference)."""
    dtype: str
    """MLIR spelling of the element type: ``f32``, ``bf16``, ``i1``, ``f8E4M3FN``, ``index``, ``complex<f32>``."""
    shape: tuple[int | None, ...]
    """Extents; None where dynamic."""
    strides: tuple[int | None, ...] | None = None
    """In elements; None for the row-major contiguous layout; an entry None means any stride."""
    offset: int | None = 0
    """In elements; None means any offset."""

    def text(self) -> str:
        """MLIR's spelling, for messages: ``memref<?x128xf32, strided<[?, 1]>>``."""
        dims = "".join(f"{'?' if d is None else d}x" for d in self.shape)
        layout = ""
        if self.strides is not None:
            strides = ", ".join("?" if s is None else str(s) for s in self.strides)
            offset = "" if self.offset == 0 else f", offset: {'?' if self.offset is None else self.offset}"
            layout = f", strided<[{strides}]{offset}>"
        return f"{self.kind}<{dims}{self.dtype}{layout}>"


@dataclass(frozen=True)
class ScalarType:
    """A number passed by value."""

    dtype: str
    """``i1``…``i64``, ``index``, ``f16``, ``bf16``, ``f32``, ``f64``; kernels also ``ptr``."""

    def text(self) -> str:
        return self.dtype


ValueType = ArrayType | ScalarType


@dataclass(frozen=True)
class Argument:
    """One argument of a function, or one parameter of a kernel."""

    name: str
    type: ValueType
    role: str = "in"
    """``in`` (read), ``destination`` (written, and returned as a result), ``ref`` (memref: both), ``scalar``."""


@dataclass(frozen=True)
class Result:
    """One result of a function."""

    type: ValueType
    argument: int | None = None
    """Index of the argument whose object is returned, when the result is an argument."""
    extents: tuple[tuple[int, ...] | None, ...] | None = None
    """Of a new array, per axis: a postfix program over dims and symbols of the arguments; None: only the call knows."""


@dataclass(frozen=True)
class Term:
    """One term of a polynomial in the extents of a function's arguments."""

    factor: int
    dims: tuple[tuple[int, int], ...]
    """Extents to multiply it with, each as (number of the argument, axis)."""


@dataclass(frozen=True)
class Cost:
    """What one call at tensor level needs at least; a sum of terms each, None where it depends on data."""

    read: tuple[Term, ...] | None
    """Bytes of the arguments."""
    written: tuple[Term, ...] | None
    """Bytes of the results."""
    operations: tuple[Term, ...] | None
    reduction: tuple[Term, ...] | None
    """Length of the sums behind an element, one after the other."""


@dataclass(frozen=True)
class Function:
    """A public host function: called from Python with arrays and numbers."""

    name: str
    entry: str
    """Symbol of ``void entry(void **slots)`` in the host object (see templates/runtime/aot.h)."""
    level: str
    args: tuple[Argument, ...]
    results: tuple[Result, ...]
    flags: tuple[str, ...] = ()
    """Sorted; of READS_DEVICE, HOST_SYNC, MESSAGES, FORK, SERIAL."""
    doc: str = ""
    """Comment that stands above the function in its source; may be empty."""
    cpu: bool = False
    """CPU code exists: the function also takes arrays of the CPU."""
    cost: Cost | None = None
    checked: bool = False
    """A call that would leave an array is refused; places that stand in arrays are not looked at."""


@dataclass(frozen=True)
class Kernel:
    """A kernel inside the source's blob."""

    name: str
    """As the user wrote it (or as outlining named it)."""
    module: str
    """Name of the gpu.module it came from."""
    symbol: str
    """Name inside the blob: ``<module>__<kernel>``."""
    params: tuple[Argument, ...] = ()
    bare: bool = False
    """Arrays are passed as one pointer each, not as descriptors."""
    callable: bool = False
    """True for a user's kernel that no host function of its source launches: Python calls it with grid= and block=."""
    grid: tuple[tuple[int, ...], ...] | None = None
    """Default grid: per entry a postfix program over dims and symbols (aot.h, AOT_EXPR_*); None: must be passed."""
    block: tuple[tuple[int, ...], ...] | None = None
    shared: tuple[int, ...] | None = None
    """Dynamic shared memory in bytes, as such a program; None: 0."""
    cluster: tuple[int, int, int] | None = None
    """Cluster size fixed in the code, in blocks."""
    cooperative: bool = False
    """All its blocks run at the same time (``aot.cooperative``)."""
    programmatic: bool = False
    """It may begin before the work ahead of it on the stream has ended (``aot.programmatic``)."""
    priority: int | None = None
    """Instead of the stream's (``aot.priority``); lower numbers go first."""
    max_block: tuple[int, int, int] | None = None
    """gpu.known_block_size, in threads: the only block size that may be launched."""
    schedule: str = ""
    """Name of the schedule that made it; empty for a user's own kernel."""
    tiling: Tiling | None = None
    """How the schedule was applied."""
    needs: str = ""
    """Architecture of images that hold it: ``sm_80`` that one and later ones, ``sm_90a`` exactly it; empty: all."""
    less_shared: int = 0
    """Bytes of shared memory that no block can have where it is launched: images for GPUs that have them lack it."""
    targets: tuple[str, ...] = ()
    """Targets whose image holds it; empty for a kernel that the source brought along compiled."""
    doc: str = ""


@dataclass(frozen=True)
class Usage:
    """What ptxas says one kernel takes on one target."""

    registers: int
    """Per thread."""
    static_shared_bytes: int
    local_bytes: int
    """Stack frame per thread."""
    spill_bytes: int
    """Spill stores per thread."""
    max_threads: int
    """Threads per block it can be launched with (register file and .maxntid)."""
    code_bytes: int
    """Of machine code, before compression."""


@dataclass(frozen=True)
class Image:
    """One image in a fatbin."""

    requested: str
    """As asked for, canonical spelling: ``sm_90``, ``compute_90``."""
    target: str
    """As built: ``sm_90``, ``sm_90a``, ``compute_90``."""
    kind: str
    """``cubin`` or ``ptx``."""
    bytes: int
    ptx_version: str = ""
    """PTX ISA version it was made from, such as ``8.0``."""


@dataclass(frozen=True)
class FatBinary:
    """One fatbin: one image per target."""

    data: bytes
    images: tuple[Image, ...]
    usage: tuple[tuple[str, str, Usage], ...] = ()
    """(kernel symbol, target, usage), sorted; cubins only."""


@dataclass(frozen=True)
class HostObject:
    """Host code of one source for one machine, as assembly text."""

    triple: str
    """``x86_64-linux-gnu`` or ``aarch64-linux-gnu``."""
    assembly: bytes
    variant: str = ""
    """Empty: host code of GPU functions. Else CPU code of tensor-level ones for these processors (``cpuvariant``)."""


@dataclass(frozen=True)
class CompiledSource:
    """All that one source contributes to a package."""

    name: str
    """Namespace in the package: a Python identifier."""
    path: str
    """As the user gave it, for messages."""
    sha256: str
    functions: tuple[Function, ...]
    kernels: tuple[Kernel, ...]
    fatbin: FatBinary | None
    """None when the source launches nothing (allocation only)."""
    host: tuple[HostObject, ...]
    """Empty when there is no host code."""
    messages: tuple[str, ...] = ()
    """Texts of host assertions, by the index that aot_rt_assert gets."""
    skipped: tuple[str, ...] = ()
    """Requested archs that aot.toml leaves out for this source."""
    notes: tuple[str, ...] = ()
    schedules: str = FAST
    """Of tensor-level functions of which the user says nothing else: ``fast`` or ``general``."""
    general: tuple[str, ...] = ()
    """What the general schedule does at tensor level: ``function: operation: reason``."""
    remarks: tuple[str, ...] = ()
    """Notes for those who ask (-v)."""
    passthrough: tuple[str, ...] = field(default=())
    """Names of ready gpu.binary ops taken as they are."""


@dataclass(frozen=True)
class ToolVersions:
    """What built a package; part of its manifest and of the messages of its runtime."""

    aot: str
    mlir: str
    ptxas: str
    min_driver_cuda: int
    """CUDA version that the driver must know to load the cubins: 13000 for 13.0."""


@dataclass(frozen=True)
class PackageSpec:
    """What a package is called, and what its ``__init__`` offers."""

    name: str
    """Import name, a Python identifier."""
    distribution: str
    """Name of the wheel's project."""
    version: str
    """In its normal form (PEP 440)."""
    versions: ToolVersions
    top_level: tuple[tuple[str, str], ...] = ()
    """(name, namespace) of the functions that also stand at top level, sorted."""
    description: str = ""
    """One line; empty: a line that says what the package is."""
    license: str = ""
    """SPDX expression; empty: the package does not say."""
    tvm_ffi: bool = False
    """The extension exports its functions to tvm-ffi."""
    c: bool = False
    """The tree has a header and what a static library for C needs."""
