"""Programs that lead the tensor-level lowering into its corners, with their values, on the CPU.

Each is built twice, with threads in rising and in falling order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpurun
import ml_dtypes
import numpy as np
import pytest

FOLDER = Path(__file__).parent / "tensor_programs"
CHECKS: dict[str, Callable[[cpurun.Program], None]] = {}
Check = Callable[[cpurun.Program], None]


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype("f4")


def same(got: Any, expected: Any, tolerance: float = 1e-4) -> None:
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(np.asarray(got, "f8"), np.asarray(expected, "f8"), tolerance, tolerance)


@functools.cache
def programs(name: str) -> tuple[cpurun.Program, ...]:
    return tuple(cpurun.both((FOLDER / f"{name}.mlir").read_text()))


@pytest.mark.parametrize("order", [0, 1], ids=["rising", "falling"])
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.mlir")))
def test_program(name: str, order: int) -> None:
    CHECKS[name](programs(name)[order])


@check
def shape_checks(p: cpurun.Program) -> None:
    x, y = random(5, 7), random(7)
    same(p.call("forward", x, y).results[0], np.maximum(x + y, 0))
    with pytest.raises(cpurun.CallError, match="assertion 0"):
        p.call("forward", x, random(6))


@check
def repeated_product(p: cpurun.Program) -> None:
    x = random(8, 8) / 3
    for n in (0, 1, 4):
        done = p.call("loop", x, n)
        same(done.results[0], np.linalg.matrix_power(x.astype("f8"), n + 1))
        assert done.swept == 0


@check
def affine_loops(p: cpurun.Program) -> None:
    a, b, c = random(9, 5), random(5, 33), random(9, 33)
    expected = c + a @ b
    p.call("mm", a, b, c)
    same(c, expected)
    a, out = random(100, 200), random(100)
    p.call("rowsum", a, out)
    same(out, a.sum(1), 1e-3)
    a, out = random(1000), np.zeros((), "f4")
    p.call("total", a, out)
    same(out, a.sum(), 1e-3)
    a = random(16, 16)
    expected = np.tril(a, -1)
    p.call("tri", a)
    same(a, expected)
    a = random(16)
    expected = np.cumsum(a)
    p.call("prefix", a)
    same(a, expected)
    a = random(6)
    for n in (-1, 0, 3, 5):
        total, after = 0.0, a.copy()
        for i in range(max(0, n - 4), min(n, 4), 2):
            total += after[1 : 6 - i].sum()
            after[1 : 6 - i] += 1
        found = p.call("carried", a, n).results
        same(found[0], total)
        same(found[1], after)


@check
def pieces(p: cpurun.Program) -> None:
    a, b = random(3, 4), random(5, 4)
    same(p.call("concat", a, b).results[0], np.concatenate([a, b]))
    b = random(3, 9)
    same(p.call("concat_dyn", a, b).results[0], np.concatenate([a, b], 1))
    same(p.call("generate", 4).results[0], np.add.outer(np.arange(4), np.arange(3)))
    x = random(4, 5)
    same(p.call("pads", x).results[0], np.pad(x, ((1, 2), (2, 2))))
    same(p.call("reshape", x, np.array([20])).results[0], x.reshape(-1))
    same(p.call("splat", 2.5).results[0], np.full((4, 4), 2.5))
    x = random(4, 6)
    same(p.call("expand", x, 4).results[0], x.reshape(4, 2, 3))
    x, updates, at = random(10), random(4), np.array([3, 3, 9, 0])
    before, expected = x.copy(), x.copy()
    for place, value in zip(at, updates, strict=True):
        expected[place] = value
    same(p.call("scatterlike", x, at, updates).results[0], expected)
    same(x, before)


@check
def gathers(p: cpurun.Program) -> None:
    x, at = random(10, 4), np.array([[3], [0], [9]])
    same(p.call("gather", x, at).results[0], x[at[:, 0]][:, None, :])
    updates, before, expected = random(3, 1, 4), x.copy(), x.copy()
    expected[at[:, 0]] = updates[:, 0]
    same(p.call("scatter", updates, x, at).results[0], expected)
    same(x, before)
    x, updates, at = random(5, 4, 6), random(3, 4), np.array([[3, 1], [0, 5], [4, 4]], "i4")
    expected = x.copy()
    expected[at[:, 0], :, at[:, 1]] = updates
    same(p.call("s2", updates, x, at).results[0], expected)
    at = np.arange(6, dtype="i4").reshape(2, 3, 1)
    same(p.call("g2", x, at).results[0], np.transpose(x[:, :, at[..., 0]], (2, 3, 0, 1)))


@check
def roles(p: cpurun.Program) -> None:
    x, out = random(16, 32, 64), random(16, 64)
    expected = out + x.sum(1)
    p.call("reduce", x, out)
    same(out, expected)
    x = random(16)
    same(p.call("bcast", x).results[0], np.repeat(x[:, None], 64, 1))
    x, out = random(5, 70), random(70, 5)
    assert p.call("transpose", x, out).results[0] is out
    same(out, x.T)
    x, y = random(64), random(64)
    same(p.call("map", x, y).results[0], x + y)
    before = x.copy()
    same(p.call("arith", x, y).results[0], np.exp(x + y) * x)
    same(p.call("exp_self", x).results[0], np.exp(x))
    same(x, before)
    assert p.call("fill", x, 2.0).results[0] is x
    same(x, np.full(64, 2.0))
    done = p.call("copy", y, x)
    assert done.allocations == 0
    same(x, y)
    done = p.call("two", y, x)
    assert done.results[0] is x
    same(x, np.full(64, 3.0))
    same(done.results[1], np.exp(y))
    x = random(4)
    expected = np.array([7.0, *x[1:]])
    assert p.call("marked", x, 7.0).results[0] is x
    same(x, expected)
    p.call("none", x)
    p.call("nothing")
    assert [float(value) for value in p.call("num", 21, 1.5).results] == [42, 2.25, 1]
    with pytest.raises(cpurun.CallError, match=r"extent 0 of 'arg1' \(5\) is not extent 0 of 'arg0' \(4\)"):
        p.call("arith", random(4), random(5))


@check
def accumulated(p: cpurun.Program) -> None:
    a, b, c = (random(*shape).astype("f2") for shape in ((2, 5, 70), (2, 70, 3), (2, 5, 3)))
    expected = c.astype("f8") + a.astype("f8") @ b.astype("f8")
    assert p.call("bmm", a, b, c).results[0] is c
    same(c, expected, 2e-2)
    x, w, out = random(1, 8, 8, 3), random(3, 3, 3), random(1, 6, 6, 3)
    expected = out + sum(x[:, i : i + 6, j : j + 6] * w[i, j] for i in range(3) for j in range(3))
    p.call("dw", x, w, out)
    same(out, expected)
    a, b, c = random(50), random(50), np.array(2.0, "f4")
    p.call("dot", a, b, c)
    same(c, 2 + a @ b)
    a, b, c = random(7, 5), random(5), random(7)
    expected = c + a @ b
    p.call("mv", a, b, c)
    same(c, expected)


@check
def buffers(p: cpurun.Program) -> None:
    x = random(9)
    expected = np.exp(x)
    p.call("tb", x)
    same(x, expected)
    same(p.call("tobuf", x).results[0], np.exp(x))
    a, out = random(6, 10)[:, 2:7], random(6, 5)
    p.call("lin", a, out)
    same(out, np.exp(a))
    same(p.call("allocs", x).results[0], np.exp(x) + x)
    same(p.call("frees", x).results[0], np.exp(x) + x)
    a = random(8, 8)
    same(p.call("sub", a).results[0], a[2:6, 2:6])
    a = random(8)
    assert p.call("ret", a).results[0] is a
    a, b = random(8, 8), np.asfortranarray(random(8, 8))
    p.call("copy", a, b)
    same(b, a)
    a = random(8)
    expected = np.exp(a)
    assert p.call("stack", a).swept == 0
    same(a, expected)
    a = random(5, 7).astype("f2")[:, ::2]
    assert p.call("unread", a).swept == 0


@check
def parallel_loops(p: cpurun.Program) -> None:
    a, n = random(7, 7, 7, 7), 6
    expected = a.copy()
    expected[1:n:2, :n, :n, 2:n:2] = 1
    p.call("par", a, n)
    same(a, expected)
    a, out = random(100), np.zeros((), "f4")
    p.call("red", a, out)
    same(out, a.sum())
    x, out = random(64, 64), random(64, 64)
    before = out.copy()
    same(p.call("forall", x, out).results[0], np.exp(x) ** 2)
    same(out, before)
    same(p.call("forall_tmp", x, random(64)).results[0], np.ones(64))
    expected = a + 1
    p.call("scffor", a)
    same(a, expected)


@check
def small_integers(p: cpurun.Program) -> None:
    x = random(50) > 0
    same(p.call("notall", x).results[0], ~x)
    same(p.call("const").results[0], [1, 0, 1, 1])
    for a, b in ((False, True), (True, True)):
        same(p.call("rank0", np.array(a), np.array(b)).results[0], a & b)
    flags = np.array([True, False, True, True])
    assert [bool(p.call("ext", flags, place).results[0]) for place in range(4)] == flags.tolist()
    x = np.arange(16, dtype="i1")
    same(p.call("i4", x).results[0] & 15, (x + x) & 15)
    y = random(4)
    same(p.call("if", np.array(True), y).results[0], np.exp(y))
    same(p.call("if", np.array(False), y).results[0], y)


@check
def branches(p: cpurun.Program) -> None:
    x = random(4)
    for taken, one, two in ((True, np.exp(x), np.sin(np.exp(x))), (False, x, np.sin(x))):
        same(p.call("br", x, taken).results[0], one)
        same(p.call("join", x, taken).results[0], two)


@check
def complex_numbers(p: cpurun.Program) -> None:
    a, b = (random(9) + 1j * random(9)[::-1]).astype("c8"), (random(9) - 2j).astype("c8")
    np.testing.assert_allclose(p.call("c", a, b).results[0], a * b, 1e-5)


@check
def shape_dialect(p: cpurun.Program) -> None:
    x, y = random(9), random(9)
    same(p.call("s", x, y).results[0], x + y)


@check
def ranks(p: cpurun.Program) -> None:
    for name, shapes in {"big": ((2, 3, 4, 5, 6), (2, 0, 4, 5, 6)), "r3": ((3, 5, 7),), "r0d": ((0, 4),)}.items():
        for shape in shapes:
            same(p.call(name, random(*shape)).results[0], np.exp(random(*shape)))
    x = random(1000000)
    same(p.call("r1", x).results[0], np.exp(x))


@check
def vectors(p: cpurun.Program) -> None:
    a, b = random(128), np.zeros(128, "f4")
    p.call("v", a, b)
    same(b, a + a)
    same(p.call("vt", a[:8].copy()).results[0], a[:8] ** 2)


@check
def calls(p: cpurun.Program) -> None:
    x = random(9)
    same(p.call("pub", x).results[0], x**4)
    same(p.call("both", x).results[0], x**4)


@check
def global_constants(p: cpurun.Program) -> None:
    x = random(4)
    expected = x + np.arange(1, 5)
    p.call("g", x)
    same(x, expected)
    same(p.call("gr").results[0], [1, 2, 3, 4])


@check
def attention(p: cpurun.Program) -> None:
    q, k, v = random(2, 16, 8), random(2, 16, 8)[::-1].copy(), random(2, 16, 8) + 1
    e = np.exp(q @ k.transpose(0, 2, 1))
    same(p.call("attn", q, k, v).results[0], e / e.sum(2, keepdims=True) @ v)


@check
def masked_access(p: cpurun.Program) -> None:
    x = random(8)
    expected = np.array([*x[:5], 0, 0, 0])
    p.call("f", x, 5)
    same(x, expected)


@check
def tiled_by_script(p: cpurun.Program) -> None:
    a, b, c = random(64, 64), random(64, 64).T.copy(), random(64, 64) + 1
    expected = c + a @ b
    assert p.call("mm", a, b, c).results[0] is c
    same(c, expected)


@check
def vectorized(p: cpurun.Program) -> None:
    a, b = random(8, 2), random(2, 4)
    expected = a @ b
    expected[4:] = 0
    same(p.call("product", a, b, 8, 4).results[0], expected)


@check
def assorted(p: cpurun.Program) -> None:
    x = random(4, 6)
    same(p.call("reshape2", x, np.array([3, 8], "i4")).results[0], np.exp(x).reshape(3, 8))
    same(p.call("reshape_fe", x, 3, 4).results[0], x.reshape(3, 4, 2))
    same(p.call("reshape0", x[0, :1].copy(), np.zeros(0, "i8")).results[0], x[0, 0])
    x = random(4)
    for number, function in enumerate((np.exp, np.sin, np.array)):
        same(p.call("switch", x, number).results[0], function(x))
    same(p.call("exec", x).results[0], np.exp(x))
    same(p.call("alloct", 3, 2.0).results[0], [9, 2, 2])
    for n in (0, 1, 5):
        done = p.call("whl", x, n)
        same(done.results[0], x * (n + 1))
        assert (done.results[1], done.swept) == (n, 0)
    x = random(9, 40)
    most, place = p.call("argmax", x).results
    same(most, x.max(1))
    same(place, x.argmax(1))
    x = random(50)
    same(p.call("cumsum", x).results[0], np.cumsum(x))
    same(p.call("multired", random(3, 4, 5)).results[0], random(3, 4, 5).sum((0, 2)))
    same(p.call("multired", random(0, 4, 5)).results[0], np.zeros(4))
    x = np.full(4096, 0.001, "f2")
    same(p.call("f16sum", x).results[0], x.astype("f8").sum(), 1e-2)
    y = random(50).astype(ml_dtypes.bfloat16)
    same(p.call("clamp", y, -0.5, 0.5).results[0], np.clip(y.astype("f4"), -0.5, 0.5))
    x = random(9, 4)
    same(p.call("slice_dyn", x, 1, 4).results[0], x[1:8:2])
    _assorted_destinations(p)


def _assorted_destinations(p: cpurun.Program) -> None:
    x, update = random(8, 8), random(2, 2)
    expected = x.copy()
    expected[3:5, 5:7] = update
    done = p.call("inplace_update", x, update, 3, 5)
    assert done.results[0] is x
    assert done.allocations == 0
    same(x, expected)
    x, total = random(9), random(9) + 1
    expected = total + x
    assert p.call("accumulate", x, total).allocations == 0
    same(total, expected)
    out, other = random(9), random(9)
    done = p.call("chain_dest", x, out)
    assert done.results[0] is out
    assert done.allocations == 0
    same(out, -np.exp(x))
    done = p.call("two_dest", x, out, other)
    assert done.results[0] is other
    assert done.results[1] is out
    same(out, np.exp(x))
    same(other, -np.exp(x))


@check
def packs(p: cpurun.Program) -> None:
    x = np.arange(24, dtype="i4").reshape(1, 3, 8, 1)
    same(p.call("unpack", x, 8).results[0], x.transpose(0, 2, 1, 3).reshape(8, 3)[:7])
    x = np.arange(7 * 16, dtype="i4").reshape(7, 16)
    padded = np.full((8, 16), 123)
    padded[:7] = x
    same(p.call("pack", x, 8).results[0], padded.reshape(1, 8, 16, 1).transpose(0, 2, 1, 3))


@check
def tiles(p: cpurun.Program) -> None:
    x = random(70, 33)
    same(p.call("f", x).results[0], np.exp(x))
    x = random(37, 64)
    e = np.exp(x)
    done = p.call("sm", x)
    same(done.results[0], e / e.sum(1, keepdims=True))
    assert done.swept == 0


@check
def buffer_loops(p: cpurun.Program) -> None:
    a = random(100)
    same(p.call("red", a).results[0], a.sum())
    a, b = random(10, 20), random(20)
    expected = a + b
    p.call("par", a, b)
    same(a, expected)
    expected = np.where(np.arange(10)[:, None] >= np.arange(20), 1, a)
    p.call("cond", a)
    same(a, expected)
    mirrored = a[:, ::-1].copy()
    p.call("scratch", a)
    same(a, mirrored)
    p.call("scratch_heap", a)
    same(a, mirrored[:, ::-1])
    a = random(30)
    expected = a.copy()
    for _ in range(3):
        before = expected.copy()
        expected[1:-1] = before[:-2] + before[2:]
    p.call("stencil", a, 3)
    same(a, expected)
    numbers, counts = (np.arange(100, dtype="i4") * 7) % 8, np.zeros(8, "i4")
    p.call("atomic", numbers, counts)
    same(counts, np.bincount(numbers, minlength=8))
    same(p.call("realloc", 4, 9).results[0][:4], np.full(4, 2.0))
    same(p.call("realloc", 9, 4).results[0], np.full(4, 2.0))


@check
def mixed(p: cpurun.Program) -> None:
    x = random(4)
    exp, first, sin, extent, scalar = p.call("five", x).results
    same(exp, np.exp(x))
    same(sin, np.sin(x))
    same(scalar, x[0])
    assert (first, extent) == (x[0], 4)
    x = random(4, 4)
    for n in (0, 1, 3):
        same(p.call("nested", x, n, True).results[0], x * (1 + sum(range(n))))
        done = p.call("nested", x, n, False)
        same(done.results[0], x - n * x)
        assert done.swept == 0
    a, b = random(4), random(4) + 1
    one, two = a, b
    for n in range(5):
        done = p.call("swaploop", a, b, n)
        same(done.results[0], one)
        same(done.results[1], two)
        assert done.swept == 0
        one, two = two, one + two
    same(p.call("seldev", a, b).results[0], b)
    same(p.call("seldev", b, a).results[0], b)
    table, row, flags = p.call("consts", 1).results
    same(table, [[1, 2, 3], [4, 5, 6]])
    same(row, [4, 5, 6])
    assert flags.all()
    same(p.call("res").results[0], np.exp([1, 2, 3, 4]))


@check
def neighbouring_loops(p: cpurun.Program) -> None:
    """Loops that may not become one: the second reads what other threads of the first write, or the other way."""
    a, c = random(40, 40), np.zeros((40, 40), "f4")
    p.call("transposed", a, c)
    same(c, np.exp(a).T)
    expected = -np.exp(c).T
    p.call("anti", a, c)
    same(a, expected)
    for name, place in (("shifted", slice(1, None)), ("shifted2", slice(None, -1))):
        x = random(40)
        padded = np.array([5.0, *np.exp(x), 5.0])
        p.call(name, x)
        same(x, -(padded[2:] if place.start else padded[:-2]))
    x = random(40, 40)
    rows, columns = x.sum(1), x.sum(0)
    same(p.call("rowstat", x).results[0], (x + rows[:, None] - rows[None, :]) * columns[:, None], 1e-3)
    x = np.abs(random(40))
    same(p.call("scalarcell", x).results[0], x / x.sum() - (x / x.sum()).max())
    a, b = random(40), np.zeros(40, "f4")
    expected = np.exp(a)
    p.call("refs", a, b)
    same(b, expected)
    same(a, -expected)
    a = random(40, 40)
    expected = a.astype("f8")
    for _ in range(3):
        expected = (expected.T + expected).T - a
    same(p.call("iter_swap", a, 3).results[0], expected)


def convolved(x: Any, w: Any, rows: int) -> Any:
    """``x`` is NHWC, ``w`` is FHWC with 3 x 3 windows."""
    return sum(
        np.einsum("nhwc,oc->nhwo", x[:, i : i + rows, j : j + rows], w[:, i, j]) for i in range(3) for j in range(3)
    )


@check
def tosa_operations(p: cpurun.Program) -> None:
    x, w, b = random(1, 8, 8, 3), random(4, 3, 3, 3), random(4)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    same(p.call("conv", x, w, b).results[0], convolved(padded, w, 8) + b)
    windows = x.reshape(1, 4, 2, 4, 2, 3)
    same(p.call("maxpool", x).results[0], windows.max((2, 4)))
    same(p.call("avgpool", x).results[0], windows.mean((2, 4)))
    a, b = random(1, 4, 8), random(1, 8, 5)
    same(p.call("mm", a, b).results[0], a @ b)
    x = random(4, 8)
    same(p.call("red", x).results[0], x.sum(1, keepdims=True))
    same(p.call("arg", x).results[0], x.argmax(1))
    same(p.call("t", x, x[:1].copy()).results[0], np.tanh(x + x[:1]))
    x, updates, at = random(1, 8, 4), random(1, 3, 4), np.array([[3, 0, 7]], "i4")
    same(p.call("gath", x, at).results[0], x[:, at[0]])
    expected = x.copy()
    expected[0, at[0]] = updates[0]
    same(p.call("scat", x, at, updates).results[0], expected)
    x, y = random(2, 4), random(3, 4)
    same(p.call("cat", x, y).results[0], np.concatenate([x, y]))
    same(p.call("tr", x).results[0], x.T)
    x = random(6, 4)
    same(p.call("slice", x).results[0], x[1:3, :3])
    same(p.call("reshape", x).results[0], x.reshape(-1))
    small = np.array([-5, 3, 127, -128], "i1")
    same(p.call("i8", small).results[0], small)
    x = random(4)
    same(p.call("if", x, np.array(True)).results[0], np.exp(x))
    same(p.call("if", x, np.array(False)).results[0], x)
    for n in (0, 3):
        same(p.call("while", x, np.array(n, "i4")).results[0], x * (n + 1))


@check
def more_operations(p: cpurun.Program) -> None:
    x, w, out = random(1, 6, 6, 2), random(3, 3, 3, 2), random(1, 4, 4, 3)
    expected = out + convolved(x, w, 4)
    p.call("wino", x, w, out)
    same(out, expected, 1e-3)
    a, b, c = random(4, 5), random(6, 5), random(4, 6)
    expected = c + a @ b.T
    p.call("contract", a, b, c)
    same(c, expected)
    a, b = random(4, 8), random(8, 4)
    same(p.call("elw", a, b).results[0], a + b.T)
    bits = np.arange(9, dtype="i4") * 10**8
    for name in ("bitcast", "bitcast2"):
        np.testing.assert_array_equal(p.call(name, bits).results[0], bits.view("f4"))
    assert p.call("rankdim", random(3, 7), 1).results == [2, 7]
    x, update = random(8, 8), random(4, 2)
    expected = x.copy()
    expected[0:8:2, 1:5:3] = update
    same(p.call("strided", x, update).results[0], expected)
    x = random(4, 8, 6)
    same(p.call("rr", x, 3).results[0], x[:, 3])
    x = random(9)
    same(p.call("reverse", x).results[0], x[::-1])
    same(p.call("unr", x[:4].copy()).results[0], np.exp(x[:4]))
    same(p.call("iota", 7).results[0], np.arange(7))
    most, again = p.call("topk1", random(16)).results
    same([most, again], [random(16).max()] * 2)
    a, b, c = (
        np.arange(32, dtype="i1").reshape(4, 8),
        np.arange(40, dtype="i1").reshape(8, 5) - 20,
        np.ones((4, 5), "i4"),
    )
    expected = 1 + (a.astype("i4") - 2) @ (b.astype("i4") - 3)
    p.call("quant", a, b, 2, 3, c)
    same(c, expected)
    x, y = np.abs(random(9)).astype("f8"), np.abs(random(9)).astype("f8") + 1
    powers, quotients = p.call("mathops", x, y).results
    same(powers, x**y + np.arctan2(x, y))
    same(quotients, np.array([math.erf(value) for value in x]) / np.sqrt(y))
    x, y = np.arange(-50, 50, 7), np.arange(1, 16)
    larger = np.maximum(-(-x // y), np.abs(x // y))
    same(p.call("intops", x, y).results[0], [int(value).bit_count() if value >= 0 else -1 for value in larger])


@check
def unit_slices(p: cpurun.Program) -> None:
    x, row = random(2, 3, 4), random(1, 2)
    same(p.call("column", x, 2, 3).results[0], x[:1, :, 2])
    put = x.copy()
    put[:1, :2, 3] = row
    same(p.call("put", row, x, 3).results[0], put)
    known = np.arange(144, dtype="i4").reshape(1, 4, 1, 3, 4, 3)
    same(p.call("known", known).results[0], known[:, 1:, 0, :1, ::2][:, :, :, :2])
    y, z = random(2, 2, 2, 1, 2, 2), random(1, 1, 4, 1, 1, 1).astype("f2")
    sums, last = p.call("strides", y, z).results
    same(sums, 2 * y[:, 1:, 0])
    same(last, z[:, :, 3, 0])
    wide, into = random(4, 1, 5), random(1, 5, 4)
    same(p.call("put_in_parallel", wide, into).results[0], 2 * wide.transpose(1, 2, 0))
    numbers = np.arange(12, dtype="i4").reshape(3, 4)
    always, never, zero = p.call("alike", numbers).results
    assert always.all()
    assert not never.any()
    assert not zero.any()
    assert zero.shape == (3, 4)


@check
def small_floats_scaled(p: cpurun.Program) -> None:
    narrow, scale = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    powers = np.array([0.25, 1, 2, 64, 2**-20, 1, 4, 8, 16], "f4")
    x = (random(9, 4) * 8).astype(narrow)
    same(p.call("widen", x, powers.astype(scale), np.zeros((9, 4), "f4")).results[0], x.astype("f4") * powers[:, None])
    y = random(9)
    got, other = p.call("narrow", y, powers.astype(scale), powers).results
    np.testing.assert_array_equal(got.view("u1"), (y / powers).astype(narrow).view("u1"))
    np.testing.assert_array_equal(other.view("u1"), (y / powers).astype(ml_dtypes.float8_e5m2).view("u1"))
