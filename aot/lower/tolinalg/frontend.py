"""Front end: what sources may be written in becomes linalg on tensors and memrefs.

In: a tensor-level module. Out: the same module with transform scripts run and removed, TOSA, shape and
composite linalg operations (such as softmax) decomposed, and elementwise work as fused ``linalg.generic``.

>>> run_scripts(module); decompose(module); to_linalg(module); fuse(module)   # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects.transform import interpreter

from aot import mlir
from aot.errors import LoweringError, SourceError
from aot.lower.analysis import views
from aot.lower.checks import asserts
from aot.lower.numbers import minifloat
from aot.lower.tolinalg import elementwise, gathers, maskedrows, masks, packs


@dataclass(frozen=True)
class Step:
    """Passes that run when operations of certain kinds occur."""

    what: str
    """For messages: "lowering TOSA"."""
    needed: Callable[[set[str]], bool]
    """Told the names of all operations of the module."""
    passes: tuple[str, ...]


def _dialect(name: str) -> Callable[[set[str]], bool]:
    return lambda names: any(each.startswith(f"{name}.") for each in names)


def _always(names: set[str]) -> bool:
    return True


def _each_function(*passes: str) -> tuple[str, ...]:
    return tuple(f"func.func({each})" for each in passes)


TO_LINALG = (
    Step(
        "lowering TOSA",
        _dialect("tosa"),
        _each_function(
            "tosa-optional-decompositions",
            "tosa-infer-shapes",
            "tosa-make-broadcastable",
            # Before tosa-to-linalg, which accepts no control flow of TOSA.
            "tosa-to-scf",
            "tosa-to-linalg-named",
            "tosa-to-linalg",
            "tosa-to-arith",
            "tosa-to-tensor",
        ),
    ),
    Step(
        "lowering shape computations",
        _dialect("shape"),
        ("func.func(convert-shape-constraints)", "func.func(shape-to-shape-lowering)", "convert-shape-to-std"),
    ),
    Step(
        "lowering tensor operations",
        _always,
        ("convert-elementwise-to-linalg", "convert-tensor-to-linalg", "canonicalize", "cse"),
    ),
)
_FUSE_ONCE = (
    "func.func(linalg-fuse-elementwise-ops)",
    # An extent asked of an intermediate is a use of it; asked of the function's arguments it is not in the way. Before,
    # it is asked of what a result begins with: the pass reads indexing maps, and takes a constant there for the extent.
    "canonicalize",
    "resolve-ranked-shaped-type-result-dims",
    "canonicalize",
    "cse",
)
FUSE = _FUSE_ONCE * 2

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")

_COMPOSITES = frozenset(
    {"linalg.softmax", "linalg.winograd_filter_transform"}
    | {"linalg.winograd_input_transform", "linalg.winograd_output_transform"}
)
"""Operations that no pass lowers, only transform operations."""

_DECOMPOSE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %softmax = transform.structured.match ops{["linalg.softmax"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.foreach %softmax : !transform.any_op {
    ^bb0(%op: !transform.any_op):
      %parts = transform.structured.decompose_interface %op : (!transform.any_op) -> !transform.any_op
      transform.yield
    }
    %winograd = transform.structured.match ops{["linalg.winograd_filter_transform",
      "linalg.winograd_input_transform", "linalg.winograd_output_transform"]} in %root
      : (!transform.any_op) -> !transform.any_op
    transform.foreach %winograd : !transform.any_op {
    ^bb0(%op: !transform.any_op):
      %parts = transform.structured.decompose_winograd_op %op : (!transform.any_op) -> !transform.any_op
      transform.yield
    }
    transform.yield
  }
}
"""

# Parts are written where they belong; the operation as a whole would copy each of them.
_APART = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.tensor.decompose_concat
    } : !transform.any_op
    transform.yield
  }
}
"""

# Only generic operations are fused. Contractions and convolutions keep their names: fusing into them would
# compute an element of an operand once per use of it.
_ELEMENTWISE = frozenset(
    {"abs", "add", "broadcast", "ceil", "copy", "div", "div_unsigned", "elementwise", "erf", "exp", "floor", "log"}
    | {"map", "max", "min", "mul", "negf", "powf", "reciprocal", "round", "rsqrt", "select", "sqrt", "square", "sub"}
    | {"tanh", "transpose"}
)
_GENERALIZE = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    %named = transform.structured.match ops{{[{names}]}} in %root : (!transform.any_op) -> !transform.any_op
    %generic = transform.structured.generalize %named : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}
"""


_UNSUPPORTED = {
    "sparse_tensor": "sparse tensors are not supported: pass values and indices as dense arrays",
    "ml_program": "programs with state of their own are not supported: pass it as an argument",
    "async": "asynchronous host code is not supported at tensor level",
}
"""Dialects that the bindings know and this tool does not lower, with what to say."""


def refuse(module: ir.Module) -> None:
    """LoweringError for what cannot be lowered, before passes stumble over it."""
    problems = []
    for op in mlir.walk(module):
        dialect = op.name.split(".")[0]
        if dialect in _UNSUPPORTED:
            problems.append(mlir.diagnostic_at(op, f"'{op.name}': {_UNSUPPORTED[dialect]}"))
        elif op.name in _COMPOSITES and (kind := _without_infinity(op.operands[0])):
            problems.append(mlir.diagnostic_at(op, f"'{op.name}' on '{kind}': convert to f32 before it"))
        elif op.name == "memref.get_global" and not views.is_constant(op.results[0]):
            name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
            problems.append(mlir.diagnostic_at(op, f"'@{name}' is not constant: pass the array as an argument"))
    if problems:
        raise LoweringError(f"{module.context.aot_path}: unsupported operations", diagnostics=tuple(problems))


def _without_infinity(value: ir.Value) -> str:
    """The type of elements that what composites become cannot be computed in; empty of those that it can."""
    kind = ir.ShapedType(value.type).element_type
    return "" if isinstance(kind, ir.FloatType) and minifloat.has_nan(str(kind)) else str(kind)


def has_script(module: ir.Module) -> bool:
    """Whether the source holds a transform script."""
    return _dialect("transform")(mlir.op_names(module))


def run_scripts(module: ir.Module) -> None:
    """Run the source's own transform dialect script, and remove it."""
    if not has_script(module):
        return
    mlir.run_passes(module, ["transform-interpreter"], "running the source's transform script")
    for op in mlir.walk(module):
        if op.name == "transform.named_sequence":
            op.erase()
    for op in [each.operation for each in module.body.operations]:
        if op.name == "builtin.module" and not list(op.regions[0].blocks[0].operations):
            op.erase()
    if "transform.with_named_sequence" in module.operation.attributes:
        del module.operation.attributes["transform.with_named_sequence"]


def add_script(module: ir.Module, path: str) -> None:
    """Put the transform script of a file beside the source into the source, where ``run_scripts`` finds it."""
    script = mlir.parse_file(path, module.context)
    if "transform.named_sequence" not in mlir.op_names(script):
        raise SourceError(f"{path}: holds no transform.named_sequence", hint=_ENTRY)
    taken = {mlir.symbol_name(op) for op in module.body.operations} - {""}
    for op in [each.operation for each in script.body.operations]:
        if mlir.symbol_name(op) in taken:
            message = f"'@{mlir.symbol_name(op)}' is also in the source itself"
            raise SourceError(f"{path}: cannot be used", diagnostics=(mlir.diagnostic_at(op, message),))
        module.body.append(op)
    module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get(module.context)


_ENTRY = "it is run from its sequence @__transform_main, which gets the source's module"


def apply(module: ir.Module, script: str, what: str) -> None:
    """Run a transform script that is not part of the source: one named sequence ``@__transform_main``."""
    schedule = ir.Module.parse(script)
    mlir.mark(module.context, what)
    sequence = schedule.body.operations[0]
    found = mlir.failure(
        module.context, partial(interpreter.apply_named_sequence, module.operation, sequence, schedule.operation)
    )
    if found is not None:
        raise LoweringError(f"{module.context.aot_path}: {what} failed", diagnostics=found)


def decompose(module: ir.Module, *, masked_zeros: bool) -> None:
    """Softmax and Winograd operations become several operations of linalg, masked regions masked operations."""
    masks.lower(module)
    if mlir.op_names(module) & _COMPOSITES:
        before = set(mlir.walk(module))
        apply(module, _DECOMPOSE, "decomposing linalg operations")
        if masked_zeros:
            maskedrows.to_zeros([op for op in mlir.walk(module) if op not in before])


def to_linalg(module: ir.Module) -> None:
    """Everything that computes on tensors becomes linalg."""
    gathers.lower(module)
    packs.lower(module)
    if "tensor.concat" in mlir.op_names(module):
        apply(module, _APART, "taking concatenations apart")
    elementwise.lower_bitcasts(module)
    for step in TO_LINALG:
        if step.needed(mlir.op_names(module)):
            mlir.run_passes(module, step.passes, step.what)


def generalize(module: ir.Module, operations: Iterable[str], what: str) -> None:
    """Make these named operations of linalg generic; ``what`` says for messages what they are."""
    named = mlir.op_names(module) & {f"linalg.{each}" for each in operations}
    if named:
        names = ", ".join(f'"{name}"' for name in sorted(named))
        apply(module, _GENERALIZE.format(names=names), f"generalising {what}")


def fuse(module: ir.Module) -> None:
    """Elementwise producers go into their only consumers."""
    generalize(module, _ELEMENTWISE, "elementwise operations")
    mlir.run_passes(module, FUSE, "fusing elementwise operations")


def clean(module: ir.Module) -> None:
    """Extents of intermediates in terms of arguments, and assertions that always hold removed."""
    mlir.run_passes(module, _FUSE_ONCE[1:-1], "simplifying")
    asserts.fold(module)
    mlir.run_passes(module, _FUSE_ONCE[-1:], "simplifying")


def separate_fills(module: ir.Module) -> None:
    """A tensor of its own for each use of an empty or filled one, of another shape or not.

    They look alike to common subexpression elimination, but a shared one can be written in place only once: all
    other uses would get a copy of its contents.
    """
    for name in ("linalg.fill", *_RESHAPES, "tensor.empty"):
        for op in [each for each in mlir.walk(module) if each.name == name and _is_fresh(each)]:
            for use in list(op.results[0].uses):
                user = use.owner.operation
                with ir.InsertionPoint(user):
                    user.operands[use.operand_number] = op.clone().operation.results[0]
            op.erase()


def _is_fresh(op: ir.Operation) -> bool:
    """Whether it makes a tensor; of reshapes only one of an empty tensor."""
    if op.name not in _RESHAPES:
        return bool(len(op.results))
    made_by = mlir.owner(op.operands[0])
    return not isinstance(made_by, ir.Block) and made_by.name == "tensor.empty"
