"""Signatures of public host functions, read from the source's IR before any pass changes it.

In: a module as the user wrote it (functions inlined, nothing else), and names found in the source text.
Out: one model.Function per public function: names, types, roles, and which results are arguments.

>>> read(module, {"square": ["x", "out"]})                                    # doctest: +SKIP
(Function(name='square', args=(Argument('x', tensor<10x10xf32>, 'in'), Argument('out', ..., 'destination')), ...),)

Tensor arguments are values. An argument is a *destination*, written by the call, when a returned value
leads to it through ``outs`` operands of linalg operations and nothing else uses it, or when it carries
``bufferization.writable = true``. That is decided here, before ``convert-elementwise-to-linalg`` turns
``arith.addf %a, %b`` into an operation with ``outs(%a)``, which means nothing of the kind. Where passes or a script of
the source's own run first, it is written down before them (``note_destinations``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from aot import mlir
from aot.errors import Diagnostic, LoweringError
from aot.lower.analysis import opwalk
from aot.lower.source import argnames
from aot.model import TENSOR, Argument, ArrayType, Function, Result, ScalarType, ValueType

MAX_RANK = 16
"""Of arrays at the call: AOT_MAX_RANK of the runtime."""
WRITABLE = "bufferization.writable"
_NOTED, _NOTED_TYPE = "aot.destinations", "aot.type"
"""Attributes of a function, until its signature is read: for each result the number of its destination or -1, and the
type that the function had."""

_MOST_ELEMENTS = 1 << 58
"""Of an array; an element has up to 16 bytes."""
_SCALARS = frozenset({"index", "f16", "bf16", "f32", "f64"})
_ELEMENTS = frozenset(
    {"index", "f16", "bf16", "f32", "f64", "complex<f32>", "complex<f64>", "f8E8M0FNU", "f4E2M1FN"}
    | {"f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ"}
)
"""Element types of arrays, besides integers of up to 64 bits."""

_INSERTIONS = {"tensor.insert": 1, "tensor.insert_slice": 1}
"""Operations that return an operand with something put in, by the number of that operand."""

_OUTS_FIRST = frozenset({"linalg.pack", "linalg.unpack"})
"""Operations whose ``outs`` operand is followed by others: it is operand 1."""


class UnsupportedError(Exception):
    """A type that cannot stand at a call; the text says why."""


@dataclass(frozen=True)
class _Returned:
    """What one result leads to."""

    argument: int | None = None
    destination: bool = False


def public_functions(module: ir.Module) -> list[ir.Operation]:
    """The host functions that Python will call, in the source's order."""
    tops = [op.operation for op in module.body.operations]
    return [op for op in tops if op.name == "func.func" and op.regions[0].blocks and not _is_private(op)]


def tensor_arguments(function: ir.Operation, signature: Function) -> list[ir.Value]:
    """Arguments of a lowered function that the source has as tensors: nobody else writes to their memory."""
    arguments = function.regions[0].blocks[0].arguments
    return [
        value
        for value, argument in zip(arguments, signature.args, strict=True)
        if isinstance(argument.type, ArrayType) and argument.type.kind == "tensor"
    ]


def read(module: ir.Module, names: Mapping[str, Sequence[str]], level: str = TENSOR) -> tuple[Function, ...]:
    """Signatures of all public functions; ``entry`` stays empty, since symbols are named later."""
    functions: list[Function] = []
    problems: list[Diagnostic] = []
    for op in public_functions(module):
        name = mlir.symbol_name(op)
        try:
            functions.append(_function(op, name, names.get(name, ()), level))
        except UnsupportedError as problem:
            problems.append(mlir.diagnostic_at(op, str(problem)))
    if problems:
        raise LoweringError(
            "functions with arguments or results that a call from Python cannot have", diagnostics=tuple(problems)
        )
    return tuple(functions)


def note_destinations(module: ir.Module, inlined: ir.Module) -> None:
    """Write down in the functions of a module what ``inlined``, the same with calls inlined, tells of them."""
    found = {mlir.symbol_name(op): _returned(op) for op in public_functions(inlined)}
    for op in opwalk.named(module, "func.func"):
        if mlir.symbol_name(op) not in found or mlir.inside_kernel(op):
            continue
        ends = found[mlir.symbol_name(op)]
        numbers = [end.argument if end.destination and end.argument is not None else -1 for end in ends]
        op.attributes[_NOTED] = ir.DenseI64ArrayAttr.get(numbers)
        op.attributes[_NOTED_TYPE] = op.attributes["function_type"]


def protect_inputs(module: ir.Module, functions: Sequence[Function]) -> None:
    """Tell bufferization which tensor arguments it may write: destinations, and no others."""
    by_name = {function.name: function for function in functions}
    for op in public_functions(module):
        function = by_name[mlir.symbol_name(op)]
        attributes = []
        for number, argument in enumerate(function.args):
            entries = {each.name: each.attr for each in argnames.attributes(op, number)}
            if isinstance(argument.type, ArrayType) and argument.type.kind == "tensor":
                entries[WRITABLE] = ir.BoolAttr.get(argument.role == "destination")
            attributes.append(ir.DictAttr.get(entries))
        op.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def value_type(value: ir.Type) -> ValueType:
    """A type as the caller sees it; raises UnsupportedError with the reason."""
    if isinstance(value, ir.RankedTensorType):
        if value.encoding is not None:
            raise UnsupportedError(f"'{value}': tensors with an encoding (such as sparse ones) are not supported")
        return ArrayType("tensor", _element(value), _shape(value))
    if isinstance(value, ir.MemRefType):
        return _memref(value)
    text = str(value)
    if text in _SCALARS or (isinstance(value, ir.IntegerType) and value.is_signless and value.width <= 64):
        return ScalarType(text)
    if isinstance(value, ir.UnrankedTensorType | ir.UnrankedMemRefType):
        raise UnsupportedError(f"'{text}': the rank must be known; use '?' for extents that vary")
    if isinstance(value, ir.IntegerType) and not value.is_signless:
        raise UnsupportedError(f"'{text}': operations know no sign of a type: write i{value.width}")
    raise UnsupportedError(f"'{text}' is not a type that can be passed from Python: use arrays and numbers")


def _function(op: ir.Operation, name: str, given: Sequence[str], level: str) -> Function:
    signature = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    names = argnames.read(op, list(op.regions[0].blocks[0].arguments), given)
    args = [
        Argument(argument, _type_of(kind, f"argument '{argument}' of @{name}"))
        for argument, kind in zip(names, signature.inputs, strict=True)
    ]
    plain = [_type_of(kind, f"result {number} of @{name}") for number, kind in enumerate(signature.results)]
    ends = _as_noted(op, _returned(op))
    writes = {end.argument for end in ends if end.destination}
    args = [
        replace(argument, role=_role(argument.type, number in writes or _marked(op, number)))
        for number, argument in enumerate(args)
    ]
    results = [_result(kind, end) for kind, end in zip(plain, ends, strict=True)]
    return Function(name, "", level, tuple(args), tuple(results))


def _type_of(kind: ir.Type, what: str) -> ValueType:
    try:
        if isinstance(kind, ir.MemRefType) and str(kind.memory_space).startswith("#gpu"):
            # Kernels may say so; the conversion of host code wants numbers.
            raise UnsupportedError(f"'{kind}': global memory is what host functions get; leave the memory space out")
        return value_type(kind)
    except UnsupportedError as problem:
        raise UnsupportedError(f"{what}: {problem}") from None


def _role(kind: ValueType, written: bool) -> str:
    if isinstance(kind, ScalarType):
        return "scalar"
    if kind.kind == "memref":
        return "ref"
    return "destination" if written else "in"


def _result(kind: ValueType, end: _Returned) -> Result:
    if isinstance(kind, ScalarType):
        return Result(kind)
    if end.argument is not None:
        return Result(kind, end.argument)
    # Memory that is not an argument's is new, hence contiguous, whatever layout the source asks for.
    return Result(replace(kind, strides=None, offset=0))


def _marked(op: ir.Operation, number: int) -> bool:
    entries = {each.name: each.attr for each in argnames.attributes(op, number)}
    return WRITABLE in entries and bool(ir.BoolAttr(entries[WRITABLE]).value)


def _is_private(op: ir.Operation) -> bool:
    attributes = op.attributes
    return "sym_visibility" in attributes and ir.StringAttr(attributes["sym_visibility"]).value == "private"


def _returned(op: ir.Operation) -> list[_Returned]:
    """What each result leads to, on every path; one value per destination."""
    returns = [each for each in mlir.walk(op) if each.name == "func.return" and each.parent.operation == op]
    if not returns:
        return []
    ends: list[_Returned] = []
    claimed: dict[int, list[ir.Value]] = {}
    for number in range(len(returns[0].operands)):
        found = {_leads_to(each.operands[number], op) for each in returns}
        end = found.pop() if len(found) == 1 else _Returned()
        if end.destination and end.argument is not None:
            values = [each.operands[number] for each in returns]
            # Two different values cannot both be in one array: the first takes it, the other is new.
            end = end if claimed.setdefault(end.argument, values) == values else _Returned()
        ends.append(end)
    return ends


def _as_noted(op: ir.Operation, found: list[_Returned]) -> list[_Returned]:
    """With the noted destinations and no others. The note goes; it holds where the type is still the same."""
    if _NOTED not in op.attributes:
        return found
    numbers, kind = list(ir.DenseI64ArrayAttr(op.attributes[_NOTED])), op.attributes[_NOTED_TYPE]
    del op.attributes[_NOTED], op.attributes[_NOTED_TYPE]
    if kind != op.attributes["function_type"]:
        return found
    plain = [_Returned() if end.destination else end for end in found]
    return [_Returned(number, True) if number >= 0 else end for number, end in zip(numbers, plain, strict=True)]


def _leads_to(value: ir.Value, function: ir.Operation) -> _Returned:
    written = inserted = False
    while isinstance(made_by := mlir.owner(value), ir.Operation):
        if made_by.name in ("tensor.cast", "memref.cast"):
            value = made_by.operands[0]
        elif made_by.name in _INSERTIONS:
            value, inserted = made_by.operands[_INSERTIONS[made_by.name]], True
        elif made_by.name.startswith("linalg."):
            value, written = outs_operand(made_by, ir.OpResult(value).result_number), True
        else:
            return _Returned()
    if made_by != function.regions[0].blocks[0]:
        return _Returned()
    number = ir.BlockArgument(value).arg_number
    if not written and not inserted:
        return _Returned(number)
    alone = len(list(value.uses)) == 1 and not inserted
    return _Returned(number, True) if alone or _marked(function, number) else _Returned()


def outs_operand(op: ir.Operation, result: int) -> ir.Value:
    """The ``outs`` operand that holds a result of a linalg operation."""
    if op.name in _OUTS_FIRST:
        first = 1
    elif "operandSegmentSizes" in op.attributes:
        first = next(iter(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])))
    else:
        first = len(op.operands) - len(op.results)
    return op.operands[first + result]


def _memref(value: ir.MemRefType) -> ArrayType:
    if value.memory_space is not None and str(value.memory_space) not in ("1 : i64", "#gpu.address_space<global>"):
        raise UnsupportedError(f"'{value}': memory that a caller passes is global memory; leave the memory space out")
    kind = ArrayType("memref", _element(value), _shape(value))
    if _is_identity(value):
        return kind
    try:
        strides, offset = value.get_strides_and_offset()
    except RuntimeError:
        raise UnsupportedError(f"'{value}': only strided layouts are supported") from None
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    return replace(
        kind,
        strides=tuple(None if stride == unknown else stride for stride in strides),
        offset=None if offset == unknown else offset,
    )


def _is_identity(value: ir.MemRefType) -> bool:
    return bool(ir.MemRefType.get(value.shape, value.element_type, memory_space=value.memory_space) == value)


def _shape(value: ir.ShapedType) -> tuple[int | None, ...]:
    if value.rank > MAX_RANK:
        raise UnsupportedError(f"'{value}': arrays have at most {MAX_RANK} dimensions")
    shape = tuple(None if value.is_dynamic_dim(axis) else value.get_dim_size(axis) for axis in range(value.rank))
    if math.prod(extent for extent in shape if extent) > _MOST_ELEMENTS:
        # MLIR aborts where a stride is no number of 64 bits.
        raise UnsupportedError(f"'{value}': more elements than memory has addresses")
    return shape


def _element(value: ir.ShapedType) -> str:
    element = value.element_type
    text = str(element)
    if isinstance(element, ir.IntegerType) and element.width <= 64:
        return text
    if text in _ELEMENTS:
        return text
    raise UnsupportedError(f"'{value}': elements of type '{text}' are not supported in arrays")
