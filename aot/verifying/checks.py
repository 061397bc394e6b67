"""All checks of one function: find its dimensions, call it with several shapes, compare.

In: Bench of the function: the package, the places it can run, what is expected. Out: FunctionReport.

>>> check(setup, signature).rows[0].ok                                           # doctest: +SKIP
True
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from aot.errors import UsageError
from aot.verifying import cost, dims, options, place, shapes, values
from aot.verifying.compare import Difference, Tolerance, compare
from aot.verifying.cudamemory import GpuError
from aot.verifying.dims import Dims
from aot.verifying.job import FunctionReport, Row, VerifyJob
from aot.verifying.place import Outcome, Place
from aot.verifying.reference import Expected, Reference
from aot.verifying.shapes import Shape
from aot.verifying.signature import SCALAR, Dim, Signature

REFUSALS = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError)
"""What a generated package raises for a call that it does not make."""


@dataclass(frozen=True)
class Setup:
    """What all functions of a job share."""

    job: VerifyJob
    package: ModuleType
    places: tuple[Place, ...]
    reference: Reference | None
    """None: the CPU code of the package is the reference."""

    def function(self, signature: Signature) -> Callable[..., Any]:
        return getattr(getattr(self.package, signature.source), signature.name)  # type: ignore[no-any-return]

    def against(self) -> str:
        return place.CPU if self.reference is None else os.path.basename(self.reference.path)


@dataclass(frozen=True)
class Case:
    """One shape with its arguments."""

    signature: Signature
    shape: Shape
    arguments: tuple[Any, ...]

    def shapes(self) -> str:
        return shapes_text(self.signature, self.arguments)


def refusal(setup: Setup, error: BaseException) -> str:
    """What the package says to a call; GpuError when it is the driver that failed, since nothing works after that."""
    if isinstance(error, setup.package.CudaError):
        raise GpuError(str(error)) from error
    return str(error) or type(error).__name__


def shapes_text(signature: Signature, arguments: Sequence[Any]) -> str:
    """``x[7,11] y[11]``."""
    words = [
        f"{parameter.name}{list(argument.shape)}".replace(" ", "")
        for parameter, argument in zip(signature.parameters, arguments, strict=True)
        if isinstance(argument, np.ndarray)
    ]
    return " ".join(words) or "-"


def check(setup: Setup, signature: Signature) -> FunctionReport:
    """The report of one function."""
    reason = _not_comparable(setup, signature)
    if reason:
        return FunctionReport(signature.full_name, signature.text({}), (_note(signature, reason),))
    if _silent(signature):
        ran = tuple(_ran(setup, signature, each) for each in setup.places if each.runs(signature))
        return FunctionReport(signature.full_name, signature.text({}), ran)
    found = find_dims(setup, signature)
    if found.refusal:
        note = f"no shapes were found that it accepts (give --dims): {found.refusal}"
        return FunctionReport(signature.full_name, signature.text({}), (_note(signature, note, ok=False),))
    rows: list[Row] = []
    for case in _cases(setup, signature, found):
        rows += _rows(setup, case)
    return FunctionReport(signature.full_name, signature.text(found.letters), tuple(rows))


def _not_comparable(setup: Setup, signature: Signature) -> str:
    """Why nothing can be compared; empty when it can."""
    able = [each for each in setup.places if each.runs(signature)]
    if not able:
        return f"{signature.no_cpu}, and there is no GPU here"
    if _silent(signature):
        return "" if not signature.dims() else "it returns and writes nothing"
    if setup.reference is not None:
        return "" if setup.reference.has(signature) else f"{setup.against()} has no reference for it"
    if not signature.cpu:
        return "it has no CPU code to compare with: give a reference with --against FILE.py"
    if not signature.chooses_cpu:
        return "a call without arrays runs on a GPU: give a reference with --against FILE.py"
    return "" if len(able) > 1 else "only its CPU code can run here"


def _silent(signature: Signature) -> bool:
    """Whether a call leaves nothing to look at."""
    return not signature.results and not any(parameter.written for parameter in signature.parameters)


def _ran(setup: Setup, signature: Signature, where: Place) -> Row:
    """A call that only shows that it can be made."""
    case = Case(signature, Shape("any", {}, edge=False), values.make(signature, values.Request({}, setup.job.seed)))
    got = _outcome(setup, where, case)
    row = Row(signature.full_name, case.shapes(), where.name, "-", ok=not isinstance(got, str), compared=False)
    return replace(row, note=f"refused: {got}" if isinstance(got, str) else "ran; it returns and writes nothing")


def find_dims(setup: Setup, signature: Signature) -> Dims:
    """Extents that the function accepts, the user's among them; UsageError for dimensions that it does not have."""
    own = setup.reference.dims_of(signature) if setup.reference else ""
    given = options.extents([own] if own else []) | options.extents(setup.job.dims)
    where = next(each for each in setup.places if each.runs(signature))

    def ask(extents: Mapping[Dim, int]) -> str:
        try:
            arguments = values.make(signature, request(setup, signature, extents))
            place.call(where, setup.function(signature), signature, arguments)
        except REFUSALS as error:
            return refusal(setup, error)
        return ""

    if setup.reference is not None and setup.reference.arguments(signature) is not None:
        return Dims((), {}, {}, frozenset())
    found = dims.find(signature, ask, given)
    if own and found.letters:
        _check_own(setup.against(), signature, options.extents([own]), found)
    return found


def _check_own(file: str, signature: Signature, given: Mapping[str, int], found: Dims) -> None:
    """UsageError when the table ``DIMS`` of a reference file names a dimension that its function has not."""
    names = [*dict.fromkeys(found.letters.values()), *(signature.dim_name(dim) for dim in signature.dims())]
    wrong = [name for name in given if name not in names]
    if wrong:
        raise UsageError(
            f"{file}: DIMS of {signature.full_name}: no dimension '{wrong[0]}'; there are {', '.join(names)}"
        )


def request(
    setup: Setup, signature: Signature, extents: Mapping[Dim, int], letters: Mapping[Dim, str] | None = None
) -> values.Request:
    """What arguments are to be made, in the ranges that the user or the reference gives."""
    own = setup.reference.ranges_of(signature) if setup.reference else ""
    ranges = options.ranges([own] if own else []) | options.ranges(setup.job.ranges)
    if letters is None:
        # Ends may be letters, which are known only when dimensions are: until then values are as small as can be.
        ranges = {name: each for name, each in ranges.items() if _is_number(each.low) and _is_number(each.high)}
    return values.Request(extents, setup.job.seed, ranges, letters or {})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cases(setup: Setup, signature: Signature, found: Dims) -> Iterator[Case]:
    saved = setup.reference.arguments(signature) if setup.reference else None
    if saved is not None:
        yield Case(signature, Shape("saved", {}, edge=False), saved)
        return
    seen: set[tuple[int, ...]] = set()
    for shape in shapes.shapes(signature, found):
        key = tuple(shape.extents[dim] for dim in signature.dims())
        asked = request(setup, signature, shape.extents, found.letters)
        # A position in an empty array is wild; a kernel that got one would be the caller's fault.
        if key not in seen and not values.without_positions(signature, asked):
            seen.add(key)
            yield Case(signature, shape, values.make(signature, asked))


def _rows(setup: Setup, case: Case) -> list[Row]:
    """One row for each place that is compared."""
    outcomes = {each.name: _outcome(setup, each, case) for each in setup.places if each.runs(case.signature)}
    expected = outcomes.pop(place.CPU) if setup.reference is None else _from_reference(setup.reference, case)
    return [_row(setup, case, name, got, expected) for name, got in outcomes.items()]


def _outcome(setup: Setup, where: Place, case: Case) -> Outcome | str:
    """What a call gives, or why it is refused."""
    try:
        return place.call(where, setup.function(case.signature), case.signature, case.arguments)
    except REFUSALS as error:
        return refusal(setup, error)


def _from_reference(reference: Reference, case: Case) -> Expected | str:
    try:
        return reference.expected(case.signature, case.arguments)
    except UsageError as error:
        return error.message


def _row(setup: Setup, case: Case, name: str, got: Outcome | str, expected: Outcome | Expected | str) -> Row:
    row = Row(case.signature.full_name, case.shapes(), name, setup.against(), ok=False)
    if isinstance(got, str):
        agreed = case.shape.edge and (setup.reference is not None or isinstance(expected, str))
        return replace(row, ok=agreed, note=f"refused: {got}", compared=False, refused=True)
    if isinstance(expected, str):
        agreed = setup.reference is not None and case.shape.edge
        return replace(row, ok=agreed, note=f"not compared: {expected}", compared=False)
    if got.problem:
        return replace(row, note=got.problem)
    changed = _changed(case, got.arguments)
    if changed:
        return replace(row, note=f"argument '{changed}' was changed")
    value, worst = farthest(setup, case, got, expected)
    wrong = f"{worst.wrong} of {worst.total} wrong: {worst.got}, not {worst.expected}"
    return replace(
        row,
        ok=worst.ok,
        value=value,
        max_abs=worst.max_abs,
        max_rel=worst.max_rel,
        max_ulps=worst.max_ulps,
        share=worst.share,
        where=worst.where,
        note=f"{value} {worst.problem}" if worst.problem else "" if worst.ok else wrong,
    )


def _changed(case: Case, after: Sequence[Any]) -> str:
    """Name of an argument that the call must not write and has written."""
    for parameter, before, now in zip(case.signature.parameters, case.arguments, after, strict=True):
        if parameter.role != SCALAR and not parameter.written and before.tobytes() != now.tobytes():
            return parameter.name
    return ""


def farthest(setup: Setup, case: Case, got: Outcome, expected: Outcome | Expected) -> tuple[str, Difference]:
    """The result or written argument that is farthest off."""
    length = cost.reduction(case.signature, case.shape.extents, case.arguments)
    tolerance = Tolerance(setup.job.rtol, setup.job.atol)
    found = [
        (name, compare(np.asarray(one), np.asarray(other), length, tolerance))
        for name, one, other in _pairs(case.signature, got, expected)
    ]
    return max(found, key=lambda each: (not each[1].ok, each[1].share))


def _pairs(signature: Signature, got: Outcome, expected: Outcome | Expected) -> Iterator[tuple[str, Any, Any]]:
    """What is compared: results first, then arguments that are written and not returned."""
    if expected.results is not None:
        for number, (one, other) in enumerate(zip(got.results, expected.results, strict=True)):
            kind = values.numpy_dtype(signature.result_dtypes[number])
            yield f"result {number}", np.asarray(one, kind), np.asarray(other)
    returned = set(signature.results) if expected.results is not None else set()
    for number, parameter in enumerate(signature.parameters):
        if parameter.written and number not in returned:
            yield f"argument '{parameter.name}'", got.arguments[number], expected.arguments[number]


def _note(signature: Signature, note: str, *, ok: bool = True) -> Row:
    return Row(signature.full_name, "-", "-", "-", ok, note=note, compared=False)
