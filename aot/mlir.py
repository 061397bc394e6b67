"""The door to MLIR's Python bindings: contexts, parsing, passes, and questions about operations.

In: bytes of a source (text or bytecode). Out: verified modules, and errors whose diagnostics
name the user's file, line and column, with the text of the line.

>>> with context() as ctx:                                              # doctest: +SKIP
...     module = parse(b"func.func @f() { return }", "kernels/f.mlir", ctx)
...     run_passes(module, ["canonicalize", "cse"], "clean-up")

The bindings are imported at first use, so that everything else works (and says what is
missing) where they are not installed.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from aot import readycontext
from aot.bindings import bindings as bindings
from aot.bindings import dialect as dialect
from aot.bindings import version as version
from aot.errors import AotError, Diagnostic, LoweringError, SourceError
from aot.mlirplaces import diagnostic_at as diagnostic_at
from aot.mlirplaces import location_of as location_of
from aot.mlirplaces import placed, told
from aot.mlirplaces import quoted as quoted
from aot.model import Location

Context = Any
Module = Any
Operation = Any
Value = Any
Block = Any
"""mlir.ir's own classes; the bindings carry no types that mypy could check."""

KERNEL_SCOPES = ("gpu.launch", "gpu.func", "gpu.module")
"""Operations whose bodies run on the device."""

PARSING = "parsing"
"""The step in which a source is read."""
DEBUG_INFO = b"di_"
"""In the text of a source whose locations carry debug information of the LLVM dialect; bytecode may have any."""
_SCRIPT_SAYS = re.compile(r'^Diagnostic message at loc\("-":(\d+):(\d+)\): (?!see current)(.*)$', re.MULTILINE)


class Dumper(Protocol):
    """Called after each named stage, for ``--dump``."""

    def __call__(self, stage: str, module: Module) -> None: ...


def no_dump(stage: str, module: Module) -> None:
    """The Dumper that keeps nothing."""


def load() -> None:
    """Imports all of the bindings that a compilation uses, and makes a context, which takes a while, for the next one.

    What is forked from this process has it, each its own.
    """
    bindings()
    importlib.import_module("mlir.passmanager")
    # The bindings themselves ask for it when they meet a module.
    importlib.import_module("mlir.dialects.builtin")
    readycontext.prepare(bindings())


@contextmanager
def context(mark: Callable[[str], None] | None = None) -> Iterator[Context]:
    """A fresh context, entered together with an unknown location.

    ``mark`` is told each step before it runs, so that a crash can be placed.
    """
    ir = bindings()
    importlib.import_module("mlir.passmanager")
    with readycontext.take(ir) as ctx, ir.Location.unknown():
        ctx.aot_path, ctx.aot_lines, ctx.aot_mark, ctx.aot_debug = "", [], mark, True
        ctx.aot_warnings, ctx.aot_errors = [], []

        def keep(diagnostic: Any) -> bool:
            # Of errors only those of passes arrive; others come with the exception.
            errors = diagnostic.severity == ir.DiagnosticSeverity.ERROR
            (ctx.aot_errors if errors else ctx.aot_warnings).append(told(ctx, diagnostic))
            return True

        handler = ctx.attach_diagnostic_handler(keep)
        try:
            yield ctx
        finally:
            handler.detach()


def parse(data: bytes, path: str, ctx: Context) -> Module:
    """Parse and verify text or bytecode; ``path`` is the name that messages use."""
    ctx.aot_path = path
    no_text = is_bytecode(data)
    ctx.aot_debug = no_text or DEBUG_INFO in data
    ctx.aot_lines = [] if no_text else data.decode("utf-8", "replace").splitlines()
    mark(ctx, PARSING)
    ir = bindings()
    try:
        return ir.Module.parse(data, context=ctx)
    except ir.MLIRError as error:
        raise _error(ctx, error, SourceError, f"{path}: not valid MLIR") from None


def complaints(text: str, ctx: Context) -> tuple[str, ...]:
    """What MLIR finds wrong with a text that is no source."""
    ir = bindings()
    try:
        ir.Module.parse(text, context=ctx)
    except ir.MLIRError as problem:
        return tuple(each.message.strip() for each in problem.error_diagnostics)
    return ()


def is_bytecode(data: bytes) -> bool:
    """Whether a source is no text."""
    return data.startswith(b"ML\xefR")


def parse_file(path: str, ctx: Context) -> Module:
    """Parse and verify a file that is no source itself; its operations keep it as their place."""
    mark(ctx, f"parsing {path}")
    ir = bindings()
    try:
        return ir.Module.parseFile(path, context=ctx)
    except ir.MLIRError as error:
        raise _error(ctx, error, SourceError, f"{path}: not valid MLIR") from None


def warnings(ctx: Context) -> tuple[Diagnostic, ...]:
    """Warnings and remarks that MLIR has given in this context so far."""
    return tuple(ctx.aot_warnings)


def run_passes(
    module: Module, pipeline: Sequence[str], what: str, error: type[AotError] = LoweringError, *, verified: bool = True
) -> None:
    """Run pass strings one at a time, each as ``PassManager.add`` takes it; the result is verified, if wanted.

    A failure raises ``error`` with MLIR's diagnostics; ``what`` says in a few words what was being done.
    """
    manager = importlib.import_module("mlir.passmanager").PassManager
    ctx = module.context
    for number, text in enumerate(pipeline, 1):
        mark(ctx, f"{what}: {text}")
        passes = manager(context=ctx)
        passes.enable_verifier(verified and number == len(pipeline))
        try:
            passes.add(text)
        except ValueError as problem:
            reason = f"MLIR does not accept the pass '{text}': {_one_line(problem)}"
            raise LoweringError(f"{ctx.aot_path or 'module'}: {what}: {reason}") from None
        found = failure(ctx, partial(passes.run, module.operation))
        if found is not None:
            raise error(f"{ctx.aot_path or 'module'}: {what} failed in '{_bare(text)}'", diagnostics=found)


def failure(ctx: Context, run: Callable[[], None]) -> tuple[Diagnostic, ...] | None:
    """Run passes, or a script of the transform dialect; why that failed, None if it did not.

    Some passes tell of an error and go on. The bindings would end the process for an error without an exception, unless
    errors go to the context's handler.
    """
    ctx.aot_errors.clear()
    ctx.emit_error_diagnostics = True
    failed: tuple[Diagnostic, ...] | None = None
    try:
        run()
    except bindings().MLIRError:
        failed = ()
    except ValueError as problem:  # of a script: all diagnostics as one text
        places = _SCRIPT_SAYS.findall(str(problem))
        failed = tuple(placed(ctx, Location(ctx.aot_path, int(n), int(m)), what) for n, m, what in places)
    finally:
        ctx.emit_error_diagnostics = False
    return tuple(ctx.aot_errors) or failed


def verify(module: Module, what: str) -> None:
    """Check IR that Python code has rewritten; LoweringError with diagnostics when it is not valid."""
    ir = bindings()
    try:
        module.operation.verify()
    except ir.MLIRError as problem:
        raise _error(module.context, problem, LoweringError, f"{module.context.aot_path}: {what}: invalid IR") from None


def mark(ctx: Context, stage: str) -> None:
    """Tell what is about to run in this context."""
    if ctx.aot_mark is not None:
        ctx.aot_mark(stage)


def walk(op: Operation) -> list[Operation]:
    """All operations in ``op`` (a module or an operation), inner ones before the operation that holds them."""
    found: list[Operation] = []
    add, on = found.append, bindings().WalkResult.ADVANCE

    def keep(each: Operation) -> Any:
        add(each.operation)
        return on

    op.operation.walk(keep)
    return found


def op_names(op: Operation) -> set[str]:
    """Names of all operations in ``op``."""
    found: set[str] = set()
    add, on = found.add, bindings().WalkResult.ADVANCE

    def keep(each: Operation) -> Any:
        add(each.name)
        return on

    op.operation.walk(keep)
    return found


def owner(value: Value) -> Any:
    """The Operation that makes ``value``, or the Block whose argument it is."""
    made_by = value.owner
    return getattr(made_by, "operation", made_by)


def symbol_name(op: Operation) -> str:
    """The operation's symbol, without ``@``; empty when it has none."""
    attributes = op.operation.attributes
    return bindings().StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else ""


def attribute(op: Operation, name: str) -> Any:
    """An attribute; None where there is none, and for arrays of complex numbers, of which the bindings know nothing."""
    try:
        return op.operation.attributes.get(name)
    except TypeError:
        return None


def parents(op: Operation) -> Iterator[Operation]:
    """The operations around ``op``, innermost first."""
    parent = op.operation.parent
    while parent is not None:
        yield parent.operation
        parent = parent.operation.parent


def inside_kernel(op: Operation) -> bool:
    """Whether the operation runs on the device."""
    return any(parent.name in KERNEL_SCOPES for parent in parents(op))


def _error(ctx: Context, problem: Any, error: type[AotError], message: str) -> AotError:
    return error(message, diagnostics=tuple(told(ctx, each) for each in problem.error_diagnostics))


def _bare(text: str) -> str:
    """A pass string without options, which may hold paths of ours."""
    return re.sub(r"\{[^{}]*\}", "", text)


def _one_line(problem: Exception) -> str:
    return str(problem).split("error: ", 1)[-1].splitlines()[0]
