"""Random tensor-level programs together with their meaning, for comparing lowered code with NumPy.

In: a seed. Out: MLIR text of one function on square arrays, and a Python function that computes the same.

>>> program = make(3)
>>> program.text.splitlines()[0][:10]
'func.func '
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIZE = 4
DEPTH = 3
Array = np.ndarray[Any, Any]
Values = dict[str, Array]


@dataclass(frozen=True)
class Case:
    """The arguments that are not arrays."""

    p: bool
    q: bool
    n: int


Step = Callable[[Values, Case], None]


@dataclass(frozen=True)
class Program:
    """A function of two arrays, two conditions and a count."""

    text: str
    evaluate: Callable[[Array, Array, Case], list[Array]]


@dataclass
class Writer:
    """The text written so far, and what it means."""

    choose: random.Random
    kind: str
    lines: list[str] = field(default_factory=list)
    names: int = 0

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def write(self, depth: int, line: str) -> None:
        self.lines.append("  " * (depth + 1) + line)

    def some(self, values: Sequence[str], count: int = 1) -> list[str]:
        return [self.choose.choice(values) for _ in range(count)]

    def types(self, count: int) -> str:
        return ", ".join([self.kind] * count)


def make(seed: int) -> Program:
    choose = random.Random(seed)
    writer = Writer(choose, choose.choice(["tensor<?x?xf32>", f"tensor<{SIZE}x{SIZE}xf32>"]))
    values, steps = _block(writer, ["%x", "%y"], 0)
    returned = writer.some(values[-4:], choose.randint(1, 3))
    types = writer.types(len(returned))
    kind = writer.kind
    head = [
        f"func.func @f(%x: {kind}, %y: {kind}, %p: i1, %q: i1, %n: index) -> ({types}) {{",
        *(f"  %c{number} = arith.constant {number} : index" for number in range(SIZE)),
        f"  %size = arith.constant {SIZE} : index",
        "  %half = arith.constant 0.5 : f32",
    ]
    text = "\n".join([*head, *writer.lines, f"  return {', '.join(returned)} : {types}", "}\n"])

    def evaluate(x: Array, y: Array, case: Case) -> list[Array]:
        found = {"%x": x, "%y": y}
        for step in steps:
            step(found, case)
        return [found[value] for value in returned]

    return Program(text, evaluate)


def _block(writer: Writer, values: Sequence[str], depth: int) -> tuple[list[str], list[Step]]:
    """A few operations; all values known at their end, and their meaning."""
    known, steps = list(values), []
    makers = [*SIMPLE, *SIMPLE, *(NESTED if depth < DEPTH else [])]
    for _ in range(writer.choose.randint(1, 4)):
        made, step = writer.choose.choice(makers)(writer, known, depth)
        known += made
        steps.append(step)
    return known, steps


Made = tuple[list[str], Step]


def _elementwise(writer: Writer, values: Sequence[str], depth: int) -> Made:
    """A generic operation; its second input may be read transposed, its output may be an array that is used."""
    (a, b), out, name = writer.some(values, 2), writer.some(values)[0], writer.name()
    turned = writer.choose.random() < 0.3
    reads_out = writer.choose.random() < 0.3
    maps = ", ".join(f"affine_map<(i, j) -> {m}>" for m in ("(i, j)", "(j, i)" if turned else "(i, j)", "(i, j)"))
    body = "%s = arith.addf %a, %b : f32 %t = math.sin %s : f32"
    body += " %u = arith.addf %t, %o : f32 linalg.yield %u : f32" if reads_out else " linalg.yield %t : f32"
    writer.write(
        depth,
        f'{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}'
        f" ins({a}, {b} : {writer.types(2)}) outs({out} : {writer.kind})"
        f" {{ ^bb0(%a: f32, %b: f32, %o: f32): {body} }} -> {writer.kind}",
    )

    def step(found: Values, _: Case) -> None:
        second = found[b].T if turned else found[b]
        found[name] = np.sin(found[a] + second) + (found[out] if reads_out else 0)

    return [name], step


def _sums(writer: Writer, values: Sequence[str], depth: int) -> Made:
    """Sums along one dimension, added to every element."""
    (a, b), name = writer.some(values, 2), writer.name()
    axis = writer.choose.choice([0, 1])
    empty, sums = writer.name(), writer.name()
    kind, sized = ("tensor<?xf32>", "[%size]") if "?" in writer.kind else (f"tensor<{SIZE}xf32>", "")
    writer.write(depth, f"{empty} = tensor.splat %half{sized} : {kind}")
    operands = f"ins({a} : {writer.kind}) outs({empty} : {kind})"
    writer.write(depth, f"{sums} = linalg.reduce {{ arith.addf }} {operands} dimensions = [{axis}]")
    maps = ", ".join(f"affine_map<(i, j) -> {m}>" for m in ("(i, j)", "(j)", "(i, j)"))
    writer.write(
        depth,
        f'{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}'
        f" ins({b}, {sums} : {writer.kind}, {kind}) outs({b} : {writer.kind})"
        f" {{ ^bb0(%a: f32, %b: f32, %o: f32): %s = arith.addf %a, %b : f32 linalg.yield %s : f32 }} -> {writer.kind}",
    )

    def step(found: Values, _: Case) -> None:
        found[name] = found[b] + (0.5 + found[a].sum(axis))[None, :]

    return [name], step


def _insert(writer: Writer, values: Sequence[str], depth: int) -> Made:
    (a,), name = writer.some(values), writer.name()
    i, j = writer.choose.randrange(SIZE), writer.choose.randrange(SIZE)
    writer.write(depth, f"{name} = tensor.insert %half into {a}[%c{i}, %c{j}] : {writer.kind}")

    def step(found: Values, _: Case) -> None:
        found[name] = found[a].copy()
        found[name][i, j] = 0.5

    return [name], step


def _slice(writer: Writer, values: Sequence[str], depth: int) -> Made:
    """A piece of one array put into another one, or elsewhere into the same."""
    (a, b), piece, name = writer.some(values, 2), writer.name(), writer.name()
    i, j = writer.choose.randrange(SIZE - 1), writer.choose.randrange(SIZE - 1)
    cut = f"tensor<2x{SIZE}xf32>"
    sizes = f"[2, {SIZE}] [1, 1]"
    writer.write(depth, f"{piece} = tensor.extract_slice {a}[{i}, 0] {sizes} : {writer.kind} to {cut}")
    writer.write(depth, f"{name} = tensor.insert_slice {piece} into {b}[{j}, 0] {sizes} : {cut} into {writer.kind}")

    def step(found: Values, _: Case) -> None:
        found[name] = found[b].copy()
        found[name][j : j + 2] = found[a][i : i + 2]

    return [name], step


def _select(writer: Writer, values: Sequence[str], depth: int) -> Made:
    (a, b), name = writer.some(values, 2), writer.name()
    writer.write(depth, f"{name} = arith.select %p, {a}, {b} : {writer.kind}")

    def step(found: Values, case: Case) -> None:
        found[name] = found[a] if case.p else found[b]

    return [name], step


def _if(writer: Writer, values: Sequence[str], depth: int) -> Made:
    name, count = writer.name(), writer.choose.randint(1, 2)
    condition = writer.choose.choice("pq")
    writer.write(depth, f"{name}:{count} = scf.if %{condition} -> ({writer.types(count)}) {{")
    branches = []
    for closing in ("} else {", "}"):
        known, steps = _block(writer, values, depth + 1)
        yielded = writer.some(known, count)
        writer.write(depth + 1, f"scf.yield {', '.join(yielded)} : {writer.types(count)}")
        writer.write(depth, closing)
        branches.append((steps, yielded))
    results = [f"{name}#{number}" for number in range(count)]

    def step(found: Values, case: Case) -> None:
        steps, yielded = branches[0 if getattr(case, condition) else 1]
        inner = dict(found)
        for each in steps:
            each(inner, case)
        found.update(zip(results, [inner[value] for value in yielded], strict=True))

    return results, step


def _for(writer: Writer, values: Sequence[str], depth: int) -> Made:
    name, count = writer.name(), writer.choose.randint(1, 3)
    carried, first = [writer.name() for _ in range(count)], writer.some(values, count)
    pairs = ", ".join(f"{a} = {b}" for a, b in zip(carried, first, strict=True))
    types = writer.types(count)
    writer.write(depth, f"{name}:{count} = scf.for %i{writer.names} = %c0 to %n step %c1")
    writer.write(depth, f"    iter_args({pairs}) -> ({types}) {{")
    known, steps = _block(writer, [*values, *carried], depth + 1)
    yielded = writer.some([*known, *carried], count)
    writer.write(depth + 1, f"scf.yield {', '.join(yielded)} : {types}")
    writer.write(depth, "}")
    return _loop(name, 0, carried, first, steps, yielded)


def _while(writer: Writer, values: Sequence[str], depth: int) -> Made:
    name, count = writer.name(), writer.choose.randint(1, 2)
    before, carried = ([writer.name() for _ in range(count)] for _ in range(2))
    first, types = writer.some(values, count), writer.types(count)
    i = writer.names
    pairs = ", ".join(f"{a} = {b}" for a, b in zip(before, first, strict=True))
    writer.write(
        depth, f"{name}:{count + 1} = scf.while (%i{i} = %c0, {pairs}) : (index, {types}) -> (index, {types}) {{"
    )
    writer.write(depth + 1, f"%g{i} = arith.cmpi slt, %i{i}, %n : index")
    writer.write(depth + 1, f"scf.condition(%g{i}) %i{i}, {', '.join(before)} : index, {types}")
    writer.write(depth, "} do {")
    writer.write(depth, f"^bb0(%j{i}: index, {', '.join(f'{each}: {writer.kind}' for each in carried)}):")
    known, steps = _block(writer, [*values, *carried], depth + 1)
    yielded = writer.some([*known, *carried], count)
    writer.write(depth + 1, f"%k{i} = arith.addi %j{i}, %c1 : index")
    writer.write(depth + 1, f"scf.yield %k{i}, {', '.join(yielded)} : index, {types}")
    writer.write(depth, "}")
    return _loop(name, 1, carried, first, steps, yielded)


def _loop(name: str, skipped: int, carried: list[str], first: list[str], steps: list[Step], yielded: list[str]) -> Made:
    """Meaning of a loop of ``n`` iterations; results before ``skipped`` are no arrays."""
    results = [f"{name}#{number + skipped}" for number in range(len(carried))]

    def step(found: Values, case: Case) -> None:
        now = [found[value] for value in first]
        for _ in range(case.n):
            inner = {**found, **dict(zip(carried, now, strict=True))}
            for each in steps:
                each(inner, case)
            now = [inner[value] for value in yielded]
        found.update(zip(results, now, strict=True))

    return results, step


def check(seed: int, program: Program, functions: Sequence[Any], call: Callable[..., Any]) -> None:
    """Calls compiled code of a program with random arrays, and compares with its meaning."""
    roles = [argument.role for argument in functions[0].args]
    numbers = np.random.default_rng(seed)
    for p, q, n in itertools.product((False, True), (False, True), (0, 1, 3)):
        arrays = numbers.standard_normal((2, SIZE, SIZE)).astype("f4")
        expected = program.evaluate(*(each.astype("f8") for each in arrays), Case(p, q, n))
        given = [each.copy() for each in arrays]
        done = call("f", *given, p, q, n)
        for got, wanted in zip(done.results, expected, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-3, 1e-3)
        for before, after, role in zip(arrays, given, roles, strict=False):
            assert role == "destination" or np.array_equal(before, after)
        assert done.swept == 0


SIMPLE = [_elementwise, _sums, _insert, _slice, _select]
NESTED = [_if, _for, _while]
