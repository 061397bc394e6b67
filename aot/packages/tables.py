"""The constant tables of a package, as rows that a template prints.

In: CompiledSource. Out: frozen rows whose fields are what templates/package/source.c.in writes, nothing to compute.

>>> source_row(compiled).functions[0].args[0].shape                           # doctest: +SKIP
(None, 128)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot import dtype
from aot.errors import PackageError
from aot.model import Argument, ArrayType, CompiledSource, Function, Kernel, Result, ValueType
from aot.packages.signatures import function_doc, kernel_doc
from aot.targets import archneed

MAX_RANK = 16
"""AOT_MAX_RANK of the runtime."""
MAX_ARGUMENTS = 4096
"""Of one function or kernel: a call keeps its descriptors on the stack or in one block."""
_ROLES = {"in": "AOT_IN", "scalar": "AOT_IN", "destination": "AOT_DESTINATION", "ref": "AOT_REF"}
_OPERANDS = {1, 2, 3}
"""AOT_EXPR_CONST, _DIM and _SYM: the next word belongs to them."""

_MACROS = {"x86_64-linux-gnu": "__x86_64__", "aarch64-linux-gnu": "__aarch64__"}

Program = tuple[int, ...]


@dataclass(frozen=True)
class ValueRow:
    """aot_value."""

    name: str
    type: str
    kind: str
    role: str
    dtype: dtype.DType
    bits: int
    index: int
    rank: int
    alias: int
    shape: tuple[int | None, ...] | None
    strides: tuple[int | None, ...] | None
    offset: int | None


@dataclass(frozen=True)
class CpuRow:
    """A function's CPU code on one machine."""

    macro: str
    """What the C compiler defines there."""
    entries: tuple[tuple[str, str], ...]
    """(AOT_CPU_*, symbol)."""


@dataclass(frozen=True)
class FunctionRow:
    """aot_function."""

    name: str
    doc: str
    entry: str
    """NULL: nothing of it runs on a GPU."""
    flags: str
    cpu: tuple[CpuRow, ...]
    cpu_table: str
    args: tuple[ValueRow, ...]
    results: tuple[ValueRow, ...]


@dataclass(frozen=True)
class KernelRow:
    """aot_kernel."""

    symbol: str
    name: str
    doc: str
    callable: int
    bare: int
    params: tuple[ValueRow, ...]
    grid: tuple[Program | None, ...]
    block: tuple[Program | None, ...]
    shared: Program | None
    cluster: tuple[int, int, int]
    how: tuple[int, int, int, int]
    """cooperative, programmatic, whether there is a priority, and which."""
    required_block: tuple[int, int, int]
    needs: int
    """Number that host code asks for (``aot_rt_serves``); 0: every image holds the kernel."""


@dataclass(frozen=True)
class ImageRow:
    """aot_image."""

    requested: str
    target: str
    kind: str


@dataclass(frozen=True)
class SourceRow:
    """aot_source: ``*_table`` and ``blob`` are C expressions."""

    name: str
    blob: str
    blob_bytes: int
    functions: tuple[FunctionRow, ...]
    function_table: str
    kernels: tuple[KernelRow, ...]
    kernel_table: str
    images: tuple[ImageRow, ...]
    image_table: str
    messages: tuple[str, ...]
    message_table: str


def source_row(source: CompiledSource) -> SourceRow:
    """The tables of one source."""
    name, images = source.name, source.fatbin.images if source.fatbin else ()

    def table(kind: str, rows: Sequence[object]) -> str:
        return f"{kind}_{name}" if rows else "NULL"

    return SourceRow(
        name=name,
        blob=f"aot_blob_{name}" if source.fatbin else "NULL",
        blob_bytes=len(source.fatbin.data) if source.fatbin else 0,
        functions=tuple(_function(source, function) for function in source.functions),
        function_table=table("functions", source.functions),
        kernels=tuple(_kernel(source, kernel) for kernel in source.kernels),
        kernel_table=table("kernels", source.kernels),
        images=tuple(ImageRow(image.requested, image.target, image.kind) for image in images),
        image_table=table("images", images),
        messages=source.messages,
        message_table=table("messages", source.messages),
    )


def _function(source: CompiledSource, function: Function) -> FunctionRow:
    where = f"{source.path}: function '{function.name}'"
    _check_count(where, len(function.args))
    return FunctionRow(
        name=function.name,
        doc=function_doc(function),
        entry=function.entry or "NULL",
        cpu=_cpu(source, function),
        cpu_table=f"cpu_{source.name}__{function.name}" if function.cpu else "NULL",
        flags=" | ".join(f"AOT_{flag.upper()}" for flag in function.flags) or "0",
        args=tuple(_argument(where, argument) for argument in function.args),
        results=tuple(_result(where, result) for result in function.results),
    )


def _cpu(source: CompiledSource, function: Function) -> tuple[CpuRow, ...]:
    """Entries of the function's CPU code, by machine."""
    if not function.cpu:
        return ()
    variants: dict[str, list[str]] = {}
    for code in source.host:
        if code.variant:
            variants.setdefault(code.triple, []).append(code.variant)
    prefix = f"aot_cpu_entry_{source.name}__{function.name}__"
    return tuple(
        CpuRow(_MACROS[triple], tuple((f"AOT_CPU_{name.upper()}", prefix + name) for name in names))
        for triple, names in sorted(variants.items())
    )


def _kernel(source: CompiledSource, kernel: Kernel) -> KernelRow:
    where = f"{source.path}: kernel '{kernel.name}'"
    _check_count(where, len(kernel.params))
    return KernelRow(
        symbol=kernel.symbol,
        name=kernel.name,
        doc=kernel_doc(kernel),
        callable=int(kernel.callable),
        bare=int(kernel.bare),
        # Parameters that only compiled host code passes may be of types that Python has no word for.
        params=tuple(_argument(where, parameter) for parameter in kernel.params if kernel.callable),
        grid=_programs(kernel.grid),
        block=_programs(kernel.block),
        shared=_ended(kernel.shared) if kernel.shared is not None else None,
        cluster=kernel.cluster or (0, 0, 0),
        how=(
            int(kernel.cooperative),
            int(kernel.programmatic),
            int(kernel.priority is not None),
            kernel.priority or 0,
        ),
        required_block=kernel.max_block or (0, 0, 0),
        # Not all images that serve the need hold such a kernel: host code must not be answered by it.
        needs=0 if kernel.less_shared else archneed.code(kernel.needs),
    )


def _argument(where: str, argument: Argument) -> ValueRow:
    return _value(f"{where}, argument '{argument.name}'", argument.name, argument.type, argument.role, -1)


def _result(where: str, result: Result) -> ValueRow:
    return _value(f"{where}, a result", "", result.type, "in", -1 if result.argument is None else result.argument)


def _value(where: str, name: str, kind: ValueType, role: str, alias: int) -> ValueRow:
    element = dtype.of(kind.dtype)
    is_pointer = element.kind == dtype.POINTER
    row_role = "AOT_REF" if is_pointer and role != "in" else _ROLES[role]
    index = int(kind.dtype == "index")
    if not isinstance(kind, ArrayType):
        return ValueRow(
            name, kind.text(), "AOT_SCALAR", row_role, element, element.width, index, 0, alias, None, None, 0
        )
    if len(kind.shape) > MAX_RANK:
        raise PackageError(f"{where}: rank {len(kind.shape)} is over {MAX_RANK}, the highest that a call can pass")
    rank = len(kind.shape)
    shape, strides = kind.shape or None, kind.strides or None
    return ValueRow(
        name, kind.text(), "AOT_ARRAY", row_role, element, element.bits, index, rank, alias, shape, strides, kind.offset
    )


def _programs(programs: tuple[Program, ...] | None) -> tuple[Program | None, ...]:
    given = [_ended(program) for program in programs or ()]
    return (*given, *[None] * (3 - len(given)))


def _ended(program: Program) -> Program:
    """The program with AOT_EXPR_END behind it, once."""
    position = 0
    while position < len(program) and program[position] != 0:
        position += 2 if program[position] in _OPERANDS else 1
    return (*program[:position], 0)


def _check_count(where: str, count: int) -> None:
    if count > MAX_ARGUMENTS:
        raise PackageError(f"{where} has {count} arguments, over {MAX_ARGUMENTS}, the most that a call can pass")
