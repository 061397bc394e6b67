"""Calls of the runtime functions that host code of tensor-level functions may make.

In: the current insertion point (in a function of a module) and operands. Out: the calls, with the
functions declared in the module the first time. C prototypes: ``templates/runtime/aot.h``.

>>> with ir.InsertionPoint(op), op.location:                                  # doctest: +SKIP
...     buffer = device_buffer(ir.Type.parse("memref<?x4xf32>"), [rows])      # call @aot_rt_alloc, memref.view
...     element = load(buffer, [i, j])                                        # call @aot_rt_load_i32, arith.bitcast
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, memref
from mlir.dialects import complex as complex_dialect

from aot import mlir
from aot.errors import LoweringError
from aot.targets import archneed

DYNAMIC = ir.ShapedType.get_dynamic_size()
DYNAMIC_STRIDE = ir.ShapedType.get_dynamic_stride_or_offset()


@dataclass(frozen=True)
class Prototype:
    """Signature of a runtime function, in MLIR's spelling."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """Of LLVM's, for the function."""

    def c_interface(self) -> bool:
        """True when a memref is returned: LLVM then needs the ``_mlir_ciface_`` form."""
        return any(t.startswith("memref<") for t in self.outputs)


MOST_NUMBERS = 5
"""That the text of a refused call has."""

PROTOTYPES = {
    "aot_rt_alloc": Prototype(("index",), ("memref<?xi8>",)),
    "aot_rt_free": Prototype(("index",)),
    "aot_rt_result_extent": Prototype(("index", "index", "index")),
    "aot_rt_result": Prototype(("index", "index"), ("memref<?xi8>",)),
    "aot_rt_load_i8": Prototype(("index",), ("i8",)),
    "aot_rt_load_i16": Prototype(("index",), ("i16",)),
    "aot_rt_load_i32": Prototype(("index",), ("i32",)),
    "aot_rt_load_i64": Prototype(("index",), ("i64",)),
    "aot_rt_shared_limit": Prototype((), ("index",)),
    "aot_rt_multiprocessors": Prototype((), ("index",)),
    "aot_rt_tensor_axis": Prototype(("index", "index", "index")),
    "aot_rt_tensor_walk": Prototype(("index", "index")),
    "aot_rt_tensor_pixels": Prototype(("index",)),
    "aot_rt_tensor_map": Prototype(("index", "i32", "i32"), ("!llvm.ptr",)),
    "aot_rt_serves": Prototype(("i32",), ("i32",)),
    "aot_rt_assert": Prototype(("i1", "i32")),
    "aot_rt_refuse": Prototype(("i32", *["index"] * MOST_NUMBERS), attributes=("cold", "noreturn")),
}
"""Every runtime function that tensor-level host code calls, by symbol."""

TENSOR_MAP = "aot_rt_tensor_map"
ALLOCATORS = ("aot_rt_alloc", "aot_rt_result")
"""Functions that return device memory."""
LOADS = tuple(name for name in PROTOTYPES if name.startswith("aot_rt_load_"))
"""Functions in which the host waits for the device."""


def declare(module: ir.Module | mlir.Operation, name: str) -> None:
    """Declares the runtime function in the module, once."""
    prototype = PROTOTYPES[name]
    body = module.operation.regions[0].blocks[0]
    if any(mlir.symbol_name(op) == name for op in body.operations):
        return
    with module.context:
        signature = ir.FunctionType.get(
            [ir.Type.parse(t) for t in prototype.inputs], [ir.Type.parse(t) for t in prototype.outputs]
        )
        with ir.InsertionPoint.at_block_begin(body), ir.Location.unknown():
            function = func.FuncOp(name, signature, visibility="private")
        if "i1" in prototype.inputs:
            # C takes the whole byte of a _Bool; without the attribute LLVM leaves anything above its lowest bit.
            extended = ir.DictAttr.get({"llvm.zeroext": ir.UnitAttr.get()})
            plain = ir.DictAttr.get({})
            attributes = [extended if each == "i1" else plain for each in prototype.inputs]
            function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        if prototype.attributes:
            named = [ir.StringAttr.get(each) for each in prototype.attributes]
            function.operation.attributes["passthrough"] = ir.ArrayAttr.get(named)
        if prototype.c_interface():
            function.operation.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def callee(op: mlir.Operation) -> str:
    """Symbol that a ``func.call`` calls; "" for every other op."""
    if op.name != "func.call":
        return ""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def storage_bytes(element: ir.Type) -> int:
    """Bytes one element takes in memory: i1..i7 and 4-bit floats take a whole one, complex numbers two parts."""
    if isinstance(element, ir.IndexType):
        return 8
    if isinstance(element, ir.ComplexType):
        return 2 * storage_bytes(element.element_type)
    if isinstance(element, ir.VectorType):
        return _power_of_two((_bits(element.element_type) * _product(element.shape) + 7) // 8)
    return _power_of_two((_bits(element) + 7) // 8)


def device_buffer(memref_type: ir.MemRefType, dynamic_sizes: Sequence[mlir.Value]) -> mlir.Value:
    """Device memory that this call of the function owns."""
    extents = _extents(memref_type, dynamic_sizes)
    return _typed(alloc_bytes(_bytes(memref_type, extents)), memref_type, dynamic_sizes)


def alloc_bytes(size: mlir.Value) -> mlir.Value:
    """``memref<?xi8>`` of device memory, from a size in bytes."""
    return call("aot_rt_alloc", size)


def free(buffer: mlir.Value) -> None:
    """Gives a device buffer back, in stream order."""
    call("aot_rt_free", memref.ExtractAlignedPointerAsIndexOp(buffer).result)


def result(number: int, memref_type: ir.MemRefType, dynamic_sizes: Sequence[mlir.Value]) -> mlir.Value:
    """Device memory of result ``number`` of the function's signature, owned by the caller."""
    extents = _extents(memref_type, dynamic_sizes)
    for axis, extent in enumerate(extents):
        call("aot_rt_result_extent", index(number), index(axis), extent)
    return _typed(call("aot_rt_result", index(number), _bytes(memref_type, extents)), memref_type, dynamic_sizes)


def shared_limit() -> mlir.Value:
    """Bytes of shared memory that a block may have on the device of the call."""
    return call("aot_rt_shared_limit")


def multiprocessors() -> mlir.Value:
    """Number of multiprocessors of the device of the call."""
    return call("aot_rt_multiprocessors")


def serves(need: str) -> mlir.Value:
    """Whether the image that the driver took holds the kernels that need this architecture (``imageneeds``)."""
    i32 = ir.IntegerType.get_signless(32)
    found = call("aot_rt_serves", arith.ConstantOp(i32, archneed.code(need)).result)
    return arith.CmpIOp(arith.CmpIPredicate.ne, found, arith.ConstantOp(i32, 0).result).result


def readable(element: ir.Type) -> bool:
    """Whether ``load`` can read elements of the type: numbers of at most 64 bits, and complex ones of such parts."""
    if isinstance(element, ir.ComplexType):
        return readable(element.element_type)
    return isinstance(element, ir.IntegerType | ir.IndexType | ir.FloatType) and storage_bytes(element) <= 8


def load(buffer: mlir.Value, indices: Sequence[mlir.Value]) -> mlir.Value:
    """One element of device memory, read by the host: the call waits here."""
    memref_type = ir.MemRefType(buffer.type)
    return _read(address(buffer, indices), memref_type.element_type)


def address(buffer: mlir.Value, indices: Sequence[mlir.Value]) -> mlir.Value:
    """Where an element lies, in bytes."""
    memref_type = ir.MemRefType(buffer.type)
    base = memref.ExtractAlignedPointerAsIndexOp(buffer).result
    metadata = list(memref.ExtractStridedMetadataOp(buffer).results)
    strides = metadata[2 + memref_type.rank :]
    place = metadata[1]
    for position, stride in zip(indices, strides, strict=True):
        place = arith.AddIOp(place, arith.MulIOp(position, stride).result).result
    step = arith.MulIOp(place, index(storage_bytes(memref_type.element_type))).result
    return arith.AddIOp(base, step).result


def index(value: int) -> mlir.Value:
    """An index constant."""
    return arith.ConstantOp(ir.IndexType.get(), value).result


def dynamic_sizes(array: mlir.Value) -> list[mlir.Value]:
    """The dynamic extents of a memref, as an allocation of one like it takes them."""
    shape = ir.MemRefType(array.type).shape
    return [memref.DimOp(array, index(axis)).result for axis, extent in enumerate(shape) if extent == DYNAMIC]


def enclosing_module(block: ir.Block) -> mlir.Operation:
    """The ``builtin.module`` op around a block: the symbol table of its host functions."""
    op: mlir.Operation = block.owner.operation
    while op.name != "builtin.module":
        op = op.parent.operation
    return op


def call(name: str, *operands: mlir.Value) -> mlir.Value:
    """A call of the runtime function; its result, if it has one."""
    declare(enclosing_module(ir.InsertionPoint.current.block), name)
    outputs = [ir.Type.parse(t) for t in PROTOTYPES[name].outputs]
    call = func.CallOp(outputs, ir.FlatSymbolRefAttr.get(name), operands)
    return call.results[0] if outputs else None


def _extents(memref_type: ir.MemRefType, dynamic_sizes: Sequence[mlir.Value]) -> list[mlir.Value]:
    sizes = iter(dynamic_sizes)
    return [next(sizes) if extent == DYNAMIC else index(extent) for extent in memref_type.shape]


def _bytes(memref_type: ir.MemRefType, extents: Sequence[mlir.Value]) -> mlir.Value:
    """Size in bytes; negative when any extent is, and the largest number there is when it overflows.

    Two negative extents must not look like a valid size, nor 2^40 x 2^40 elements like none.
    """
    size = index(storage_bytes(memref_type.element_type))
    dynamic = [e for e, static in zip(extents, memref_type.shape, strict=True) if static == DYNAMIC]
    estimate = _as_double(size)
    for extent in extents:
        size = arith.MulIOp(size, extent).result
        estimate = arith.MulFOp(estimate, _as_double(extent)).result
    if not dynamic:
        return size
    bound = arith.ConstantOp(estimate.type, 2.0**62).result
    overflows = arith.CmpFOp(arith.CmpFPredicate.OGT, estimate, bound).result
    size = arith.SelectOp(overflows, index(2**63 - 1), size).result
    signs = dynamic[0]
    for extent in dynamic[1:]:
        signs = arith.OrIOp(signs, extent).result
    negative = arith.CmpIOp(arith.CmpIPredicate.slt, signs, index(0)).result
    return arith.SelectOp(negative, index(-1), size).result


def _as_double(number: mlir.Value) -> mlir.Value:
    """A size as a floating-point number, whose products do not wrap around."""
    wide = arith.IndexCastOp(ir.IntegerType.get_signless(64), number).result
    return arith.SIToFPOp(ir.F64Type.get(), wide).result


def _typed(memory: mlir.Value, memref_type: ir.MemRefType, dynamic_sizes: Sequence[mlir.Value]) -> mlir.Value:
    """The bytes as the memref type: row-major, in the type's memory space."""
    plain = ir.MemRefType.get(memref_type.shape, memref_type.element_type)
    view = memref.ViewOp(plain, memory, index(0), list(dynamic_sizes)).result
    if memref_type.memory_space is not None:
        spaced = ir.MemRefType.get(memref_type.shape, memref_type.element_type, memory_space=memref_type.memory_space)
        view = memref.MemorySpaceCastOp(spaced, view).result
    if view.type == memref_type:
        return view
    if not _row_major(memref_type):
        raise LoweringError(f"device memory of type '{memref_type}' is not row-major contiguous")
    return memref.CastOp(memref_type, view).result


def _row_major(memref_type: ir.MemRefType) -> bool:
    strides, offset = memref_type.get_strides_and_offset()
    expected = 1
    for extent, stride in zip(reversed(list(memref_type.shape)), reversed(list(strides)), strict=True):
        if stride not in (expected, DYNAMIC_STRIDE):
            return False
        expected = DYNAMIC_STRIDE if DYNAMIC in (extent, expected) else expected * extent
    return offset in (0, DYNAMIC_STRIDE)


def _read(address: mlir.Value, element: ir.Type) -> mlir.Value:
    if isinstance(element, ir.ComplexType):
        part = element.element_type
        imaginary = arith.AddIOp(address, index(storage_bytes(part))).result
        return complex_dialect.CreateOp(element, _read(address, part), _read(imaginary, part)).result
    bits = 8 * storage_bytes(element)
    word = call(f"aot_rt_load_i{bits}", address)
    if isinstance(element, ir.IndexType):
        return arith.IndexCastOp(element, word).result
    width = _bits(element)
    if width < bits:
        word = arith.TruncIOp(ir.IntegerType.get_signless(width), word).result
    return word if word.type == element else arith.BitcastOp(element, word).result


def _bits(element: ir.Type) -> int:
    if isinstance(element, ir.IndexType):
        return 64
    if isinstance(element, ir.IntegerType | ir.FloatType):
        return int(element.width)
    raise LoweringError(f"memory of elements of type '{element}' cannot be device memory")


def _product(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _power_of_two(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
