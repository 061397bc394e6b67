"""Host code that touches device memory: moved to the device as a whole, in order, with right values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
from cpurun import CallError, build
from cpuslots import dtype


@dataclass(frozen=True)
class Case:
    """One function ``@f``, called with ``arguments()``; arrays are compared with what ``expected`` leaves in them."""

    name: str
    source: str
    arguments: Callable[[], list[Any]]
    expected: Callable[..., Any]
    """Changes its arguments as the function does, and returns the results."""
    loads: int | None = None
    """Host reads of device memory; None: any number."""


def f4(*values: float) -> numpy.ndarray:
    return numpy.array(values, "f4")


def i8(*values: int) -> numpy.ndarray:
    return numpy.array(values, "i8")


def swap(a: numpy.ndarray) -> list[Any]:
    a[0], a[1] = a[1], a[0].copy()
    return [a[1] + a[0], a[0]]


def drain(n: numpy.ndarray, x: numpy.ndarray) -> list[Any]:
    steps = 0
    while n[()] > 0:
        x += 1
        n[()] -= 2
        steps += 1
    return [steps]


def collatz(n: numpy.ndarray, trace: numpy.ndarray) -> list[Any]:
    k = 0
    while n[()] != 1:
        trace[k] = n[()]
        n[()] = 3 * n[()] + 1 if n[()] % 2 else n[()] // 2
        k += 1
    return [k]


def snapshot(s: numpy.ndarray, x: numpy.ndarray) -> list[Any]:
    value = s[()].copy()
    s[()] = 0
    x *= value
    return []


def scaled(x: numpy.ndarray) -> list[Any]:
    x *= x[0].copy()
    return []


def gather(ids: numpy.ndarray, x: numpy.ndarray, y: numpy.ndarray) -> list[Any]:
    y[()] = x[ids[ids[0]]]
    return []


def branch(c: numpy.ndarray, x: numpy.ndarray) -> list[Any]:
    x[...] = x * 2 if c[()] else -x
    c[()] = not c[()]
    return []


def shifted(x: numpy.ndarray, k: numpy.ndarray) -> list[Any]:
    x[int(k[()]) + 1] = x[int(k[()])] + 1
    return []


def fibonacci(x: numpy.ndarray) -> list[Any]:
    for i in range(2, len(x)):
        x[i] = x[i - 1] + x[i - 2]
    return [x[-1]]


def counted(x: numpy.ndarray, n: numpy.ndarray) -> list[Any]:
    for _ in range(int(n[()])):
        x += 1
        n[()] += 1
    return []


def rows(a: numpy.ndarray, b: numpy.ndarray) -> list[Any]:
    b[:, 1] = a[2, :]
    return []


def ones(x: numpy.ndarray) -> list[Any]:
    x[...] = 1
    return []


def switch(k: numpy.ndarray, x: numpy.ndarray) -> list[Any]:
    x += {0: 10, 1: 20}.get(int(k[()]), 30)
    return []


def atomics(x: numpy.ndarray) -> list[Any]:
    old = x[0].copy()
    x[0] += 5
    return [old]


def looked_up(k: numpy.ndarray, o: numpy.ndarray) -> list[Any]:
    o[()] = k[()] + 1
    return []


def two_views(x: numpy.ndarray) -> list[Any]:
    x[2] = x[0] = 2
    return [2]


def counted_down(k: numpy.ndarray, x: numpy.ndarray) -> list[Any]:
    x[0] += k[()]
    k[()] = 0
    return []


def doubled(x: numpy.ndarray, n: int) -> list[Any]:
    x[:n] = 2.0 ** numpy.arange(n)
    return []


def halves(x: numpy.ndarray, y: numpy.ndarray) -> list[Any]:
    y[4:] = x[:4] + x[4:]
    return [y.sum()]


def exchanged(x: numpy.ndarray, y: numpy.ndarray, n: int) -> list[Any]:
    x[0], y[0] = 2, 3
    return [3]


def spread(s: numpy.ndarray, x: numpy.ndarray) -> list[Any]:
    x[...] = s[()] + 1
    s[()] = 0
    return [x[0]]


def divided(k: numpy.ndarray, x: numpy.ndarray, d: int) -> list[Any]:
    x[...] = k[()] // d
    return []


LAUNCH = """
  scf.parallel (%p) = (%c0) to (%n) step (%c1) {{
    %pv = memref.load %x[%p] : memref<?xf32>
    %pw = arith.{op} %pv, {by} : f32
    memref.store %pw, %x[%p] : memref<?xf32>
    scf.reduce
  }}
"""
HEAD = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
"""
SIZE = "  %n = memref.dim %x, %c0 : memref<?xf32>\n"

CASES = [
    Case(
        "swap",
        f"""func.func @f(%a: memref<2xf32>) -> (f32, f32) {{ {HEAD}
  %u = memref.load %a[%c0] : memref<2xf32>
  %v = memref.load %a[%c1] : memref<2xf32>
  memref.store %u, %a[%c1] : memref<2xf32>
  memref.store %v, %a[%c0] : memref<2xf32>
  %w = memref.load %a[%c0] : memref<2xf32>
  %s = arith.addf %u, %v : f32
  return %s, %w : f32, f32
}}""",
        lambda: [f4(1.5, 4)],
        swap,
    ),
    Case(
        "load in a condition, launch in the body",
        f"""func.func @f(%k: memref<i64>, %x: memref<?xf32>) -> index {{ {HEAD} {SIZE}
  %zero = arith.constant 0 : i64
  %two = arith.constant 2 : i64
  %one = arith.constant 1.0 : f32
  %r = scf.while (%i = %c0) : (index) -> index {{
    %v = memref.load %k[] : memref<i64>
    %go = arith.cmpi sgt, %v, %zero : i64
    scf.condition(%go) %i : index
  }} do {{
  ^bb0(%i: index):
    {LAUNCH.format(op="addf", by="%one")}
    %v = memref.load %k[] : memref<i64>
    %w = arith.subi %v, %two : i64
    memref.store %w, %k[] : memref<i64>
    %j = arith.addi %i, %c1 : index
    scf.yield %j : index
  }}
  return %r : index
}}""",
        lambda: [numpy.array(7), f4(1, 2, 3)],
        drain,
        loads=5,
    ),
    Case(
        "while and if, without launches",
        f"""func.func @f(%k: memref<i64>, %t: memref<?xi64>) -> index {{ {HEAD}
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %zero = arith.constant 0 : i64
  %r = scf.while (%i = %c0) : (index) -> index {{
    %v = memref.load %k[] : memref<i64>
    %go = arith.cmpi ne, %v, %one : i64
    scf.condition(%go) %i : index
  }} do {{
  ^bb0(%i: index):
    %v = memref.load %k[] : memref<i64>
    memref.store %v, %t[%i] : memref<?xi64>
    %rest = arith.remsi %v, %two : i64
    %odd = arith.cmpi ne, %rest, %zero : i64
    scf.if %odd {{
      %a = arith.muli %v, %three : i64
      %b = arith.addi %a, %one : i64
      memref.store %b, %k[] : memref<i64>
    }} else {{
      %a = arith.divsi %v, %two : i64
      memref.store %a, %k[] : memref<i64>
    }}
    %j = arith.addi %i, %c1 : index
    scf.yield %j : index
  }}
  return %r : index
}}""",
        lambda: [numpy.array(6), numpy.zeros(16, "i8")],
        collatz,
        loads=1,
    ),
    Case(
        "value for a kernel only, overwritten before the launch",
        f"""func.func @f(%s: memref<f32>, %x: memref<?xf32>) {{ {HEAD} {SIZE}
  %zero = arith.constant 0.0 : f32
  %v = memref.load %s[] : memref<f32>
  memref.store %zero, %s[] : memref<f32>
  {LAUNCH.format(op="mulf", by="%v")}
  return
}}""",
        lambda: [numpy.array(3, "f4"), f4(1, 2, 3)],
        snapshot,
        loads=0,
    ),
    Case(
        "the kernel overwrites the value it takes",
        f"""func.func @f(%x: memref<?xf32>) {{ {HEAD} {SIZE}
  %v = memref.load %x[%c0] : memref<?xf32>
  {LAUNCH.format(op="mulf", by="%v")}
  return
}}""",
        lambda: [f4(3, 2, 1)],
        scaled,
        loads=0,
    ),
    Case(
        "an index from memory, twice",
        f"""func.func @f(%ids: memref<?xi64>, %x: memref<?xf32>, %y: memref<f32>) {{ {HEAD}
  %i = memref.load %ids[%c0] : memref<?xi64>
  %j = arith.index_cast %i : i64 to index
  %k = memref.load %ids[%j] : memref<?xi64>
  %l = arith.index_cast %k : i64 to index
  %v = memref.load %x[%l] : memref<?xf32>
  memref.store %v, %y[] : memref<f32>
  return
}}""",
        lambda: [i8(2, 0, 1), f4(5, 6, 7), numpy.zeros((), "f4")],
        gather,
        loads=0,
    ),
    Case(
        "i1 of rank 0 steers launches",
        f"""func.func @f(%c: memref<i1>, %x: memref<?xf32>) {{ {HEAD} {SIZE}
  %two = arith.constant 2.0 : f32
  %minus = arith.constant -1.0 : f32
  %true = arith.constant true
  %v = memref.load %c[] : memref<i1>
  scf.if %v {{ {LAUNCH.format(op="mulf", by="%two")} }} else {{ {LAUNCH.format(op="mulf", by="%minus")} }}
  %w = arith.xori %v, %true : i1
  memref.store %w, %c[] : memref<i1>
  return
}}""",
        lambda: [numpy.array(True), f4(1, 2)],
        branch,
        loads=1,
    ),
    Case(
        "a view at a place from memory",
        f"""func.func @f(%x: memref<?xf32>, %k: memref<i64>) {{ {HEAD}
  %one = arith.constant 1.0 : f32
  %v = memref.load %k[] : memref<i64>
  %o = arith.index_cast %v : i64 to index
  %s = memref.subview %x[%o] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: ?>>
  %a = memref.load %s[%c0] : memref<2xf32, strided<[1], offset: ?>>
  %b = arith.addf %a, %one : f32
  memref.store %b, %s[%c1] : memref<2xf32, strided<[1], offset: ?>>
  return
}}""",
        lambda: [f4(1, 2, 3, 4), numpy.array(2)],
        shifted,
    ),
    Case(
        "a loop over its own results",
        f"""func.func @f(%x: memref<?xf32>) -> f32 {{ {HEAD} {SIZE}
  %c2 = arith.constant 2 : index
  scf.for %i = %c2 to %n step %c1 {{
    %j = arith.subi %i, %c1 : index
    %k = arith.subi %i, %c2 : index
    %a = memref.load %x[%j] : memref<?xf32>
    %b = memref.load %x[%k] : memref<?xf32>
    %s = arith.addf %a, %b : f32
    memref.store %s, %x[%i] : memref<?xf32>
  }}
  %last = arith.subi %n, %c1 : index
  %r = memref.load %x[%last] : memref<?xf32>
  return %r : f32
}}""",
        lambda: [f4(1, 1, 0, 0, 0, 0)],
        fibonacci,
        loads=1,
    ),
    Case(
        "a loop bound from memory that the body changes",
        f"""func.func @f(%x: memref<?xf32>, %m: memref<i64>) {{ {HEAD} {SIZE}
  %one = arith.constant 1.0 : f32
  %i1 = arith.constant 1 : i64
  %b = memref.load %m[] : memref<i64>
  %bound = arith.index_cast %b : i64 to index
  scf.for %i = %c0 to %bound step %c1 {{
    {LAUNCH.format(op="addf", by="%one")}
    %v = memref.load %m[] : memref<i64>
    %w = arith.addi %v, %i1 : i64
    memref.store %w, %m[] : memref<i64>
  }}
  return
}}""",
        lambda: [f4(0, 1), numpy.array(3)],
        counted,
        loads=1,
    ),
    Case(
        "a copy between strided views",
        """func.func @f(%a: memref<4x3xf32>, %b: memref<3x4xf32>) {
  %s = memref.subview %a[2, 0] [1, 3] [1, 1] : memref<4x3xf32> to memref<3xf32, strided<[1], offset: 6>>
  %t = memref.subview %b[0, 1] [3, 1] [1, 1] : memref<3x4xf32> to memref<3xf32, strided<[4], offset: 1>>
  memref.copy %s, %t : memref<3xf32, strided<[1], offset: 6>> to memref<3xf32, strided<[4], offset: 1>>
  return
}""",
        lambda: [numpy.arange(12, dtype="f4").reshape(4, 3), numpy.zeros((3, 4), "f4")],
        rows,
        loads=0,
    ),
    Case(
        "many stores of constants",
        "func.func @f(%x: memref<300xf32>) { %v = arith.constant 1.0 : f32\n"
        + "".join(
            f"%i{i} = arith.constant {i} : index\nmemref.store %v, %x[%i{i}] : memref<300xf32>\n" for i in range(300)
        )
        + "return }",
        lambda: [numpy.zeros(300, "f4")],
        ones,
        loads=0,
    ),
    Case(
        "an index switch",
        f"""func.func @f(%k: memref<index>, %x: memref<?xf32>) {{ {HEAD} {SIZE}
  %a = arith.constant 10.0 : f32
  %b = arith.constant 20.0 : f32
  %c = arith.constant 30.0 : f32
  %v = memref.load %k[] : memref<index>
  %by = scf.index_switch %v -> f32
  case 0 {{ scf.yield %a : f32 }}
  case 1 {{ scf.yield %b : f32 }}
  default {{ scf.yield %c : f32 }}
  {LAUNCH.format(op="addf", by="%by")}
  return
}}""",
        lambda: [numpy.array(1), f4(1, 2)],
        switch,
    ),
    Case(
        "an atomic update whose old value is returned",
        f"""func.func @f(%x: memref<2xi32>) -> i32 {{ {HEAD}
  %v = arith.constant 5 : i32
  %r = memref.atomic_rmw addi %v, %x[%c0] : (i32, memref<2xi32>) -> i32
  return %r : i32
}}""",
        lambda: [numpy.array([3, 4], "i4")],
        atomics,
        loads=1,
    ),
    Case(
        "a constant table at an index from memory",
        """memref.global "private" constant @t : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @f(%k: memref<i64>, %o: memref<f32>) {
  %g = memref.get_global @t : memref<4xf32>
  %v = memref.load %k[] : memref<i64>
  %i = arith.index_cast %v : i64 to index
  %x = memref.load %g[%i] : memref<4xf32>
  memref.store %x, %o[] : memref<f32>
  return
}""",
        lambda: [numpy.array(2), numpy.zeros((), "f4")],
        looked_up,
        loads=0,
    ),
    Case(
        "two views of the same memory",
        f"""func.func @f(%x: memref<4xf32>) -> f32 {{ {HEAD}
  %two = arith.constant 2.0 : f32
  %a = memref.subview %x[1] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 1>>
  %b = memref.reinterpret_cast %x to offset: [2], sizes: [2], strides: [1]
     : memref<4xf32> to memref<2xf32, strided<[1], offset: 2>>
  memref.store %two, %a[%c1] : memref<2xf32, strided<[1], offset: 1>>
  %v = memref.load %b[%c0] : memref<2xf32, strided<[1], offset: 2>>
  memref.store %v, %x[%c0] : memref<4xf32>
  return %v : f32
}}""",
        lambda: [f4(0, 0, 0, 0)],
        two_views,
        loads=1,
    ),
    Case(
        "blocks and branches",
        f"""func.func @f(%k: memref<i64>, %x: memref<2xf32>) {{ {HEAD}
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %u = arith.constant 1.0 : f32
  cf.br ^test
^test:
  %v = memref.load %k[] : memref<i64>
  %go = arith.cmpi sgt, %v, %zero : i64
  cf.cond_br %go, ^body, ^end
^body:
  %w = arith.subi %v, %one : i64
  memref.store %w, %k[] : memref<i64>
  %p = memref.load %x[%c0] : memref<2xf32>
  %q = arith.addf %p, %u : f32
  memref.store %q, %x[%c0] : memref<2xf32>
  cf.br ^test
^end:
  return
}}""",
        lambda: [numpy.array(4), f4(0, 9)],
        counted_down,
        loads=5,
    ),
    Case(
        "stack memory",
        f"""func.func @f(%x: memref<?xf32>) -> f32 {{ {HEAD} {SIZE}
  %zero = arith.constant 0.0 : f32
  %s = memref.alloca() : memref<f32>
  memref.store %zero, %s[] : memref<f32>
  scf.for %i = %c0 to %n step %c1 {{
    %p = memref.alloca() : memref<2xf32>
    %v = memref.load %x[%i] : memref<?xf32>
    memref.store %v, %p[%c1] : memref<2xf32>
    %w = memref.load %p[%c1] : memref<2xf32>
    %a = memref.load %s[] : memref<f32>
    %b = arith.addf %a, %w : f32
    memref.store %b, %s[] : memref<f32>
  }}
  %r = memref.load %s[] : memref<f32>
  return %r : f32
}}""",
        lambda: [f4(1, 2, 3, 4)],
        lambda x: [x.sum()],
        loads=1,
    ),
    Case(
        "affine loops",
        """func.func @f(%x: memref<?xf32>, %n: index) {
  %one = arith.constant 1.0 : f32
  affine.store %one, %x[0] : memref<?xf32>
  affine.for %i = 1 to %n {
    %v = affine.load %x[%i - 1] : memref<?xf32>
    %w = arith.addf %v, %v : f32
    affine.store %w, %x[%i] : memref<?xf32>
  }
  return
}""",
        lambda: [numpy.zeros(5, "f4"), 5],
        doubled,
        loads=0,
    ),
    Case(
        "vectors, of which the host wants the sum",
        f"""func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) -> f32 {{ {HEAD}
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %v = vector.load %x[%c0] : memref<8xf32>, vector<4xf32>
  %w = vector.transfer_read %x[%c4], %zero : memref<8xf32>, vector<4xf32>
  %s = arith.addf %v, %w : vector<4xf32>
  vector.store %s, %y[%c4] : memref<8xf32>, vector<4xf32>
  %r = vector.reduction <add>, %s : vector<4xf32> into f32
  return %r : f32
}}""",
        lambda: [numpy.arange(8, dtype="f4"), numpy.zeros(8, "f4")],
        halves,
        loads=1,
    ),
    Case(
        "buffers that loops exchange",
        f"""func.func @f(%x: memref<1xf32>, %y: memref<1xf32>, %n: index) -> f32 {{ {HEAD}
  %one = arith.constant 1.0 : f32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (memref<1xf32>, memref<1xf32>) {{
    %v = memref.load %a[%c0] : memref<1xf32>
    %w = arith.addf %v, %one : f32
    memref.store %w, %b[%c0] : memref<1xf32>
    scf.yield %b, %a : memref<1xf32>, memref<1xf32>
  }}
  %q = memref.load %r#0[%c0] : memref<1xf32>
  return %q : f32
}}""",
        lambda: [f4(0), f4(0), 3],
        exchanged,
        loads=1,
    ),
    Case(
        "a value for the host and for a kernel",
        f"""func.func @f(%s: memref<index>, %x: memref<?xindex>) -> index {{ {HEAD}
  %n = memref.dim %x, %c0 : memref<?xindex>
  %v = memref.load %s[] : memref<index>
  memref.store %c0, %s[] : memref<index>
  %w = arith.addi %v, %c1 : index
  scf.parallel (%p) = (%c0) to (%n) step (%c1) {{
    memref.store %w, %x[%p] : memref<?xindex>
    scf.reduce
  }}
  return %w : index
}}""",
        lambda: [numpy.array(4), numpy.zeros(3, "i8")],
        spread,
        loads=1,
    ),
    Case(
        "a division that a check guards",
        f"""func.func @f(%k: memref<i64>, %x: memref<?xi64>, %d: i64) {{ {HEAD}
  %zero = arith.constant 0 : i64
  %n = memref.dim %x, %c0 : memref<?xi64>
  %v = memref.load %k[] : memref<i64>
  %ok = arith.cmpi ne, %d, %zero : i64
  cf.assert %ok, "division by zero"
  %q = arith.divsi %v, %d : i64
  scf.parallel (%p) = (%c0) to (%n) step (%c1) {{
    memref.store %q, %x[%p] : memref<?xi64>
    scf.reduce
  }}
  return
}}""",
        lambda: [numpy.array(12), numpy.zeros(3, "i8"), 5],
        divided,
    ),
]


def outcome(case: Case) -> tuple[Any, list[Any]]:
    arguments = case.arguments()
    return build(case.source).call("f", *arguments), arguments


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values(case: Case) -> None:
    got, arguments = outcome(case)
    reference = case.arguments()
    results = case.expected(*reference) or []
    for have, want in zip(arguments, reference, strict=True):
        numpy.testing.assert_array_equal(have, want)
    for have, want in zip(got.results, results, strict=True):
        assert have == want
    assert case.loads in (None, got.loads)
    assert got.swept == 0


def test_a_failing_check_comes_before_what_it_guards() -> None:
    case = next(case for case in CASES if "division" in case.name)
    with pytest.raises(CallError, match="assertion 0"):
        build(case.source).call("f", numpy.array(12), numpy.zeros(3, "i8"), 0)


WIDTHS = [
    ("i1", True),
    ("i8", -3),
    ("i16", -3),
    ("i32", -70000),
    ("i64", 1 << 40),
    ("f16", 2.5),
    ("f32", 2.5),
    ("f64", 1e300),
    ("index", 7),
]


@pytest.mark.parametrize(("kind", "value"), WIDTHS, ids=[kind for kind, _ in WIDTHS])
def test_host_reads_of_every_type(kind: str, value: Any) -> None:
    source = (
        f"func.func @f(%x: memref<{kind}>) -> {kind} {{ %v = memref.load %x[] : memref<{kind}> return %v : {kind} }}"
    )
    array = numpy.array(value).astype(dtype(kind))
    assert build(source).call("f", array).results[0] == value
