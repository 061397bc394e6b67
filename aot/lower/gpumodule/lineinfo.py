"""``--lineinfo``: machine code that says which line of the source it comes from, for profilers and debuggers.

In: device code in the LLVM dialect. Out: the same with debug scopes, from which LLVM writes ``.loc`` directives and
nothing else: ptxas refuses to optimise code that comes with all of DWARF. Files are named without their folder: the
package must not depend on where it was built.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir

_UNNAMED = "-"
"""What the bindings call the file of a source."""
_SCOPES = "ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}"


def add(module: mlir.Module) -> None:
    """Name the files, and make the scopes."""
    name = _base(module.context.aot_path)
    for op in mlir.walk(module):
        op.location = _mapped(op.location, name)
    mlir.run_passes(module, [_SCOPES], "adding line information")


def _mapped(place: ir.Location, name: str) -> ir.Location:
    if place.is_a_file():
        file = _base(place.filename)
        return ir.Location.file(name if file == _UNNAMED else file, place.start_line, place.start_col, place.context)
    if place.is_a_callsite():
        return ir.Location.callsite(_mapped(place.callee, name), [_mapped(place.caller, name)], place.context)
    if place.is_a_name():
        return ir.Location.name(place.name_str, _mapped(place.child_loc, name), place.context)
    if place.is_a_fused():
        return ir.Location.fused([_mapped(each, name) for each in place.locations], context=place.context)
    return place


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
