"""Runs lowered tensor-level functions on the CPU, so that their values are checked without a GPU.

In: the product of ``aot.lower.tensor.lower``. Out: functions on numpy arrays. Every ``gpu.launch`` becomes loops over
blocks and threads, or, where threads wait for each other, fibers (``cpufibers``), in rising or falling order: a result
that depends on the order is a race. Arrays are in memory that host code cannot access, as on a GPU.

>>> program = build("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { ... }")   # doctest: +SKIP
>>> program.call("f", numpy.ones(3, "f4")).results
[array([2., 2., 2.], dtype=float32)]
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cpuslots
import numpy

from aot import mlir, process
from aot.lower import tensor
from aot.lower.gpumodule import flatvectors
from aot.lower.numbers import atomics
from aot.lower.source.signature import public_functions
from aot.lower.tolinalg import unitviews
from aot.model import ArrayType, Function, ScalarType
from aot.tools import toolchain
from tests import cpufibers

RUNTIME = Path(__file__).with_name("cpurun.c")
_TO_LLVM = (
    "convert-vector-to-scf",
    "lower-affine",
    "convert-complex-to-standard",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    "arith-expand",
    "convert-vector-to-llvm",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-vector-to-llvm",
    "convert-complex-to-llvm",
    "finalize-memref-to-llvm",
    "convert-index-to-llvm",
    "convert-ub-to-llvm",
    "convert-arith-to-llvm",
    "convert-cf-to-llvm",
    "convert-func-to-llvm",
    "canonicalize",
    "reconcile-unrealized-casts",
)


class CallError(Exception):
    """The call failed as it would in a package: an assertion, a check of aot's own, a negative size."""


@dataclass(frozen=True)
class Outcome:
    """What one call gave."""

    results: list[Any]
    """Arrays and numbers, in the order of the signature; the argument's own array where a result is an argument."""
    swept: int
    """Buffers that were alive at the end."""
    allocations: int
    loads: int
    """Host reads of device memory."""


@dataclass(frozen=True)
class Program:
    """A compiled module."""

    lowered: tensor.TensorLowered
    library: ctypes.CDLL
    ir: str
    """The lowered module as text, before launches became loops."""

    def call(self, name: str, *arguments: Any) -> Outcome:
        function = next(each for each in self.lowered.functions if each.name == name)
        slots, keep = cpuslots.slots(function, arguments, _copier(self.library))
        entry = ctypes.cast(getattr(self.library, f"cpurun_entry_{name}"), ctypes.c_void_p)
        self.library.cpurun_call.restype = ctypes.c_char_p
        error = self.library.cpurun_call(entry, slots)
        results = [] if error else cpuslots.results((self.library, "cpurun_results"), function, arguments, keep)
        for value, words in zip(arguments, keep, strict=False):
            if isinstance(value, numpy.ndarray) and not isinstance(words, numpy.ndarray) and value.size:
                _span(value)[:] = numpy.frombuffer(ctypes.string_at(words[0], _span(value).size), "u1")
        swept = self.library.cpurun_sweep()
        if error:
            raise CallError(told(error, self.lowered.messages))
        return Outcome(results, swept, self.library.cpurun_allocations(), self.library.cpurun_loads())


def told(error: bytes, messages: Sequence[str]) -> str:
    """What a package would say, of a check of aot's own with its numbers; of others the runtime's words."""
    what, *numbers = error.decode().split()
    if what != "refused":
        return error.decode()
    text = messages[int(numbers[0])]
    for number in numbers[1:]:
        text = text.replace("{}", number, 1)
    return f"refused: {text}"


def build(source: str, *, backwards: bool = False, options: tensor.Options | None = None) -> Program:
    """Lower and compile the text of a tensor-level source."""
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "test.mlir", ctx)
        unitviews.settle(module)
        mlir.run_passes(module, ["inline{default-pipeline=}"], "inlining")
        lowered = tensor.lower(module, {}, options or tensor.Options(), mlir.no_dump)
        module = lowered.module
        text = str(module)
        _declare(module, "cpurun_enter", "cpurun_leave")
        entries = public_functions(module)
        cpufibers.declare(module)
        for number, launch in enumerate([op for op in mlir.walk(module) if op.name == "gpu.launch"]):
            if cpufibers.needed(launch):
                cpufibers.to_fibers(module, launch, number, backwards=backwards)
            else:
                _to_loops(launch, backwards=backwards)
        cpufibers.forget_spaces(module)
        for op in entries:
            op.attributes["llvm.emit_c_interface"] = mlir.bindings().UnitAttr.get()
            # A function may be called like one of the C library.
            op.attributes["sym_name"] = mlir.bindings().StringAttr.get(f"cpurun_f_{mlir.symbol_name(op)}")
        llvm_ir = to_llvm(module)
    # The module object does not outlive its context.
    kept = tensor.TensorLowered(None, lowered.functions, lowered.messages, lowered.notes)
    return Program(kept, _compile(llvm_ir, lowered.functions), text)


def to_llvm(module: Any) -> str:
    """LLVM IR of a module whose launches are loops; only the end result is verified."""
    from mlir.dialects.llvm import translate_module_to_llvmir
    from mlir.passmanager import PassManager

    atomics.lower(module)
    flatvectors.lower_host(module)
    passes = PassManager(context=module.context)
    passes.enable_verifier(False)
    for each in _TO_LLVM:
        passes.add(each)
    passes.run(module.operation)
    mlir.verify(module, "compiling for the CPU")
    return str(translate_module_to_llvmir(module.operation))


def _declare(module: Any, *names: str) -> None:
    from mlir import ir
    from mlir.dialects import func

    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        for name in names:
            func.FuncOp(name, ir.FunctionType.get([], []), visibility="private")


def _to_loops(launch: Any, *, backwards: bool) -> None:
    from mlir import ir
    from mlir.dialects import arith, func, scf

    index = ir.IndexType.get()
    with ir.InsertionPoint(launch), launch.location:
        func.CallOp([], "cpurun_enter", [])
    seg = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    sizes = list(launch.operands)[seg[0] : seg[0] + 6]
    body = launch.regions[0].blocks[0]
    place, indices = ir.InsertionPoint(launch), []
    for size in [*sizes[2::-1], *sizes[:2:-1]]:
        with place, launch.location:
            zero, one = (arith.ConstantOp(index, number).result for number in (0, 1))
            loop = scf.ForOp(zero, size, one)
            with ir.InsertionPoint(loop.body):
                number = loop.induction_variable
                if backwards:
                    number = arith.SubIOp(arith.SubIOp(size, one).result, number).result
                end = scf.YieldOp([]).operation
        indices.append(number)
        place = ir.InsertionPoint(end)
    ids = [*indices[2::-1], *indices[:2:-1], *sizes]
    for argument, value in zip(list(body.arguments)[:12], ids, strict=True):
        argument.replace_all_uses_with(value)
    for op in [each.operation for each in body.operations][:-1]:
        op.move_before(end)
    with ir.InsertionPoint(launch), launch.location:
        func.CallOp([], "cpurun_leave", [])
    launch.erase()


def _compile(llvm_ir: str, functions: Sequence[Function]) -> ctypes.CDLL:
    folder = scratch()
    (folder / "f.ll").write_text(llvm_ir)
    (folder / "entries.c").write_text("\n".join(_entry(function) for function in functions))
    llc = toolchain.find_llvm("llc", {})
    # Code is run once or twice, on small arrays: compiling it well costs more than that.
    process.check([llc, "-O0", "-filetype=obj", "-relocation-model=pic", "f.ll", "-o", "f.o"], cwd=folder)
    return linked(folder, "f.o", "entries.c", runtime=(RUNTIME, RUNTIME.with_name("cpufibers.c")))


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cpurun-")


def scratch() -> Path:
    """A folder that is there as long as this process."""
    return Path(tempfile.mkdtemp(dir=_scratch().name))


def linked(folder: Path, *files: str, runtime: tuple[Path, ...]) -> ctypes.CDLL:
    """A library of files in ``folder`` and a runtime of its own, which is compiled once; loaded."""
    names = [*files, *_objects(runtime), "-o", "f.so", "-lm", "-lpthread"]
    process.check([_cc(), "-O0", "-w", "-shared", "-fPIC", "-Wl,--no-undefined", *names], cwd=folder)
    return ctypes.CDLL(str(folder / "f.so"))


@functools.cache
def _objects(sources: tuple[Path, ...]) -> list[str]:
    folder = scratch()
    process.check([_cc(), "-O1", "-w", "-c", "-fPIC", *map(str, sources)], cwd=folder)
    return [str(folder / f"{each.stem}.o") for each in sources]


def _cc() -> str:
    return str(shutil.which("cc"))


_C_TYPES = {"index": "int64_t", "i1": "_Bool", "f16": "_Float16", "bf16": "_Float16", "f32": "float", "f64": "double"}


def _c_type(kind: ScalarType) -> str:
    if kind.dtype in _C_TYPES:
        return _C_TYPES[kind.dtype]
    bits = int(kind.dtype[1:])
    return f"int{next(width for width in (8, 16, 32, 64) if bits <= width)}_t"


def _entry(function: Function) -> str:
    """C that calls the function with arguments from slots, and puts scalar results into theirs."""
    arguments, types = [], []
    for number, argument in enumerate(function.args):
        array = isinstance(argument.type, ArrayType)
        kind = "void *" if array else _c_type(argument.type)
        types.append(kind)
        arguments.append(f"slots[{number}]" if array else f"*({kind} *)slots[{number}]")
    scalars = [(k, _c_type(r.type)) for k, r in enumerate(function.results) if isinstance(r.type, ScalarType)]
    first = len(function.args)
    name = f"_mlir_ciface_cpurun_f_{function.name}"
    lines = ["#include <stdint.h>"]
    if len(scalars) == 1:
        k, kind = scalars[0]
        lines += [
            f"extern {kind} {name}({', '.join(types) or 'void'});",
            f"void cpurun_entry_{function.name}(void **slots) {{",
        ]
        lines += [f"  *({kind} *)slots[{first + k}] = {name}({', '.join(arguments)});", "}"]
    else:
        fields = " ".join(f"{kind} r{k};" for k, kind in scalars)
        struct = f"struct r_{function.name}"
        if scalars:
            lines += [f"{struct} {{ {fields} }};"]
            types, arguments = [f"{struct} *", *types], ["&r", *arguments]
        lines += [
            f"extern void {name}({', '.join(types) or 'void'});",
            f"void cpurun_entry_{function.name}(void **slots) {{",
        ]
        lines += [f"  {struct} r;"] if scalars else []
        lines += [f"  {name}({', '.join(arguments)});"]
        lines += [f"  *({kind} *)slots[{first + k}] = r.r{k};" for k, kind in scalars]
        lines += ["}"]
    return "\n".join(lines)


def _span(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """The bytes from the array's first element to its last."""
    last = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    size = last + array.itemsize if array.size else 0
    return numpy.frombuffer((ctypes.c_uint8 * size).from_address(array.ctypes.data), "u1")


def _copier(library: ctypes.CDLL) -> Callable[[Any], int]:
    """Copies arrays to memory that only kernels can use; the same array passed twice is the same memory."""
    library.cpurun_take.restype = ctypes.c_void_p
    library.cpurun_take.argtypes = [ctypes.c_int64]
    copies: dict[int, int] = {}

    def copied(value: Any) -> int:
        memory = copies.get(value.ctypes.data) or library.cpurun_take(max(1, _span(value).size))
        copies[value.ctypes.data] = memory
        library.cpurun_enter()
        ctypes.memmove(memory, value.ctypes.data, _span(value).size)
        return int(memory)

    return copied


def both(source: str, **options: Any) -> list[Program]:
    """The source built twice: threads in rising and in falling order."""
    return [build(source, backwards=backwards, **options) for backwards in (False, True)]
