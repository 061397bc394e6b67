"""Random host code on device memory, against the same program in Python: loads, stores, launches, loops, branches."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy
import pytest
from cpurun import build

ARRAYS = ("%m0", "%m1")
LENGTH = 4
TYPE = f"memref<{LENGTH}xi64>"
Values = dict[str, int]
Memory = dict[str, list[int]]
Action = Callable[[Values, Memory], None]
HEAD = "".join(f"%c{k} = arith.constant {k} : index\n%k{k} = arith.constant {k} : i64\n" for k in range(LENGTH + 1))


def wrap(value: int) -> int:
    """As an i64."""
    return (value + 2**63) % 2**64 - 2**63


@dataclass
class Code:
    """A block: its text, what it does, and the numbers in scope at its end."""

    scope: list[str]
    lines: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def run(self, values: Values, memory: Memory) -> None:
        for action in self.actions:
            action(values, memory)

    def text(self) -> str:
        return "\n".join(self.lines)


class Writer:
    """Makes programs; the same seed makes the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.budget = self.random.randint(5, 50)
        self.names = 0

    def new(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def block(self, scope: list[str], depth: int) -> Code:
        code = Code(list(scope))
        steps = [self.load] * 4 + [self.store] * 4 + [self.add, self.launch, self.copy]
        steps += [self.loop, self.branch] if depth < 3 else []
        for _ in range(self.random.randint(1, 8 if depth == 0 else 4)):
            if self.budget > 0:
                self.budget -= 1
                self.random.choice(steps)(code, depth)
        return code

    def index(self, code: Code) -> tuple[str, Callable[[Values], int]]:
        """A place: known, or computed from a number."""
        if self.random.random() < 0.6:
            place = self.random.randrange(LENGTH)
            return f"%c{place}", lambda values: place
        number, low, at = self.random.choice(code.scope), self.new(), self.new()
        code.lines += [f"{low} = arith.andi {number}, %k3 : i64", f"{at} = arith.index_cast {low} : i64 to index"]
        return at, lambda values: values[number] & 3

    def load(self, code: Code, depth: int) -> None:
        (at, place), array, name = self.index(code), self.random.choice(ARRAYS), self.new()
        code.lines.append(f"{name} = memref.load {array}[{at}] : {TYPE}")
        code.actions.append(lambda values, memory: values.update({name: memory[array][place(values)]}))
        code.scope.append(name)

    def store(self, code: Code, depth: int) -> None:
        (at, place), array, number = self.index(code), self.random.choice(ARRAYS), self.random.choice(code.scope)
        code.lines.append(f"memref.store {number}, {array}[{at}] : {TYPE}")
        code.actions.append(lambda values, memory: memory[array].__setitem__(place(values), values[number]))

    def add(self, code: Code, depth: int) -> None:
        one, other, name = self.random.choice(code.scope), self.random.choice(code.scope), self.new()
        code.lines.append(f"{name} = arith.addi {one}, {other} : i64")
        code.actions.append(lambda values, memory: values.update({name: wrap(values[one] + values[other])}))
        code.scope.append(name)

    def launch(self, code: Code, depth: int) -> None:
        array, number, at, old, new = (
            self.random.choice(ARRAYS),
            self.random.choice(code.scope),
            *(self.new() for _ in range(3)),
        )
        code.lines.append(
            f"""scf.parallel ({at}) = (%c0) to (%c4) step (%c1) {{
              {old} = memref.load {array}[{at}] : {TYPE}
              {new} = arith.addi {old}, {number} : i64
              memref.store {new}, {array}[{at}] : {TYPE}
              scf.reduce
            }}"""
        )

        def act(values: Values, memory: Memory) -> None:
            memory[array] = [wrap(each + values[number]) for each in memory[array]]

        code.actions.append(act)

    def copy(self, code: Code, depth: int) -> None:
        source, target = self.random.sample(ARRAYS, 2)
        code.lines.append(f"memref.copy {source}, {target} : {TYPE} to {TYPE}")
        code.actions.append(lambda values, memory: memory.update({target: list(memory[source])}))

    def loop(self, code: Code, depth: int) -> None:
        (to, bound), start = self.index(code), self.random.choice(code.scope)
        counter, carried, result = self.new(), self.new(), self.new()
        body = self.block([*code.scope, carried], depth + 1)
        end = self.random.choice(body.scope)
        code.lines.append(
            f"""{result} = scf.for {counter} = %c0 to {to} step %c1 iter_args({carried} = {start}) -> (i64) {{
              {body.text()}
              scf.yield {end} : i64
            }}"""
        )

        def act(values: Values, memory: Memory) -> None:
            number = values[start]
            for _ in range(bound(values)):
                values[carried] = number
                body.run(values, memory)
                number = values[end]
            values[result] = number

        code.actions.append(act)
        code.scope.append(result)

    def branch(self, code: Code, depth: int) -> None:
        number, bit, condition, result = self.random.choice(code.scope), self.new(), self.new(), self.new()
        sides = [self.block(code.scope, depth + 1) for _ in range(2)]
        ends = [self.random.choice(side.scope) for side in sides]
        code.lines += [f"{bit} = arith.andi {number}, %k1 : i64", f"{condition} = arith.cmpi eq, {bit}, %k1 : i64"]
        code.lines.append(
            f"""{result} = scf.if {condition} -> (i64) {{
              {sides[0].text()}
              scf.yield {ends[0]} : i64
            }} else {{
              {sides[1].text()}
              scf.yield {ends[1]} : i64
            }}"""
        )

        def act(values: Values, memory: Memory) -> None:
            side = 0 if values[number] & 1 else 1
            sides[side].run(values, memory)
            values[result] = values[ends[side]]

        code.actions.append(act)
        code.scope.append(result)


@dataclass(frozen=True)
class Function:
    text: str
    code: Code
    results: list[str]


def function(seed: int) -> Function:
    writer = Writer(seed)
    code = Code(["%x"])
    while writer.budget > 0:
        more = writer.block(code.scope, 0)
        code = Code(more.scope, code.lines + more.lines, code.actions + more.actions)
    results = writer.random.sample(code.scope, min(6, len(code.scope)))
    arguments = ", ".join(f"{array}: {TYPE}" for array in ARRAYS)
    types = ", ".join(["i64"] * len(results))
    text = f"{HEAD}{code.text()}\nreturn {', '.join(results)} : {types}\n"
    return Function(f"func.func @f{seed}({arguments}, %x: i64) -> ({types}) {{\n{text}}}\n", code, results)


@pytest.mark.parametrize("batch", range(3))
def test_random_programs(batch: int) -> None:
    functions = {seed: function(seed) for seed in range(20 * batch, 20 * batch + 20)}
    program = build("".join(each.text for each in functions.values()))
    for seed, each in functions.items():
        start = random.Random(seed)
        arrays = [numpy.array([start.randint(-9, 9) for _ in range(LENGTH)]) for _ in ARRAYS]
        memory = {name: array.tolist() for name, array in zip(ARRAYS, arrays, strict=True)}
        values = {"%x": start.randint(-9, 9)}
        got = program.call(f"f{seed}", *arrays, values["%x"])
        each.code.run(values, memory)
        assert [array.tolist() for array in arrays] == list(memory.values()), f"seed {seed}\n{each.text}"
        assert list(map(int, got.results)) == [values[name] for name in each.results], f"seed {seed}\n{each.text}"
        assert got.swept == 0, f"seed {seed}"
