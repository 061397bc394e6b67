"""Launch level: what functions compute, checked on the CPU."""

from __future__ import annotations

import numpy
import pytest

from tests.cpurun import CallError, Program
from tests.launchrun import build
from tests.lowering import function, launch

N = "%n = memref.dim %x, %c0 : memref<?xf32>\n"


def grid(body: str, size: str = "%n") -> str:
    """A launch of blocks of four threads over ``size`` elements; ``%i`` is the element."""
    return (
        f"%blocks = arith.ceildivui {size}, %c4 : index\n"
        "gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %c1, %gz = %c1)"
        " threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {\n"
        "%o = arith.muli %bx, %c4 : index\n%i = arith.addi %o, %tx : index\n"
        f"%in = arith.cmpi ult, %i, {size} : index\nscf.if %in {{\n{body}\n}}\ngpu.terminator\n}}\n"
    )


DOUBLE = (
    "%v = memref.load {a}[%i] : memref<?xf32>\n%w = arith.addf %v, %v : f32\nmemref.store %w, {b}[%i] : memref<?xf32>"
)


@pytest.fixture(params=[False, True], ids=["rising", "falling"])
def backwards(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ramp(size: int) -> numpy.ndarray:
    return numpy.arange(1, size + 1, dtype="f4")


def check(program: Program, name: str, arguments: list[object], expected: list[object]) -> None:
    found = program.call(name, *arguments)
    assert len(found.results) == len(expected)
    for have, want in zip(found.results, expected, strict=True):
        numpy.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_new_memory_is_returned(size: int, backwards: bool) -> None:
    source = function(
        "f(%x: memref<?xf32>)",
        N + "%m = gpu.alloc (%n) : memref<?xf32>\n" + grid(DOUBLE.format(a="%x", b="%m"))
        + "return %m, %n : memref<?xf32>, index",
        "-> (memref<?xf32>, index)",
    )  # fmt: skip
    check(build(source, backwards=backwards), "f", [ramp(size)], [2 * ramp(size), size])


def test_an_argument_is_changed_and_returned(backwards: bool) -> None:
    source = function(
        "f(%x: memref<?xf32>)",
        N + grid(DOUBLE.format(a="%x", b="%x")) + "return %x : memref<?xf32>",
        "-> memref<?xf32>",
    )
    x = ramp(6)
    assert build(source, backwards=backwards).call("f", x).results[0] is x
    numpy.testing.assert_array_equal(x, 2 * ramp(6))


@pytest.mark.parametrize("first", [0, 1])
def test_one_of_two_is_returned(first: int, backwards: bool) -> None:
    source = function(
        "f(%x: memref<4xf32>, %b: i1)",
        "%m = gpu.alloc () : memref<4xf32>\ngpu.memset %m, %f1 : memref<4xf32>, f32\n"
        "%r = scf.if %b -> memref<4xf32> {\nscf.yield %x : memref<4xf32>\n} else {\nscf.yield %m : memref<4xf32>\n}\n"
        "return %r : memref<4xf32>",
        "-> memref<4xf32>",
    )
    check(build(source, backwards=backwards), "f", [ramp(4), first], [ramp(4) if first else numpy.ones(4)])


def test_a_strided_view_is_returned(backwards: bool) -> None:
    kind = "memref<3x2xf32, strided<[4, 1], offset: 1>>"
    source = function(
        "f(%x: memref<3x4xf32>)",
        f"gpu.wait\n%s = memref.subview %x[0, 1] [3, 2] [1, 1] : memref<3x4xf32> to {kind}\nreturn %s : {kind}",
        f"-> {kind}",
    )
    x = ramp(12).reshape(3, 4)
    check(build(source, backwards=backwards), "f", [x], [x[:, 1:3]])


def test_host_code_steered_by_device_memory(backwards: bool) -> None:
    source = function(
        "f(%x: memref<?xf32>, %count: memref<1xindex>)",
        N + "%k = memref.load %count[%c0] : memref<1xindex>\nscf.for %j = %c0 to %k step %c1 {\n"
        + grid(DOUBLE.format(a="%x", b="%x")) + "}\n"
        "%s = memref.load %x[%c0] : memref<?xf32>\n%t = arith.addf %s, %f1 : f32\n"
        "memref.store %t, %x[%c0] : memref<?xf32>\nreturn %s : f32",
        "-> f32",
    )  # fmt: skip
    x = ramp(5)
    check(build(source, backwards=backwards), "f", [x, numpy.array([3])], [8.0])
    expected = 8 * ramp(5)
    expected[0] += 1
    numpy.testing.assert_array_equal(x, expected)


def test_arrays_on_both_sides(backwards: bool) -> None:
    source = function(
        "f(%x: memref<?xf32>)",
        N + "%h = memref.alloc(%n) : memref<?xf32>\ngpu.memcpy %h, %x : memref<?xf32>, memref<?xf32>\n"
        "%sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %f1) -> (f32) {\n"
        "%v = memref.load %h[%j] : memref<?xf32>\n%t = arith.addf %s, %v : f32\nscf.yield %t : f32\n}\n"
        "linalg.fill ins(%sum : f32) outs(%h : memref<?xf32>)\n"
        "%d = gpu.alloc (%n) : memref<?xf32>\ngpu.memcpy %d, %h : memref<?xf32>, memref<?xf32>\n"
        "linalg.add ins(%x, %d : memref<?xf32>, memref<?xf32>) outs(%x : memref<?xf32>)\n"
        "memref.dealloc %h : memref<?xf32>\ngpu.dealloc %d : memref<?xf32>\nreturn %sum : f32",
        "-> f32",
    )
    x = ramp(7)
    program = build(source, backwards=backwards)
    found = program.call("f", x)
    assert (found.results, found.swept) == ([29.0], 0)
    numpy.testing.assert_array_equal(x, ramp(7) + 29)


def test_tokens(backwards: bool) -> None:
    source = function(
        "f(%x: memref<4xf32>, %y: memref<4xf32>)",
        "%t0 = gpu.wait async\n%t1 = gpu.wait async\n"
        "%a, %t2 = gpu.alloc async [%t0] () : memref<4xf32>\n"
        "%t3 = gpu.memcpy async [%t2, %t1] %a, %x : memref<4xf32>, memref<4xf32>\n"
        "%t4 = gpu.memset async [%t3] %x, %f1 : memref<4xf32>, f32\n"
        "%t5 = gpu.memcpy async [%t4] %y, %a : memref<4xf32>, memref<4xf32>\n"
        "%t6 = gpu.dealloc async [%t5] %a : memref<4xf32>\ngpu.wait [%t6]",
    )
    x, y = ramp(4), numpy.zeros(4, "f4")
    assert build(source, backwards=backwards).call("f", x, y).swept == 0
    numpy.testing.assert_array_equal(x, numpy.ones(4))
    numpy.testing.assert_array_equal(y, ramp(4))


@pytest.mark.parametrize(("kind", "type_"), [("f64", "f8"), ("i8", "i1"), ("i1", "?"), ("index", "i8"), ("f16", "f2")])
def test_memset(kind: str, type_: str, backwards: bool) -> None:
    value = "true" if kind == "i1" else f"3.0 : {kind}" if kind[0] == "f" else f"3 : {kind}"
    source = function(
        f"f(%x: memref<?x3x{kind}>)", f"%v = arith.constant {value}\ngpu.memset %x, %v : memref<?x3x{kind}>, {kind}"
    )
    x = numpy.zeros((5, 3), type_)
    build(source, backwards=backwards).call("f", x)
    assert (x == (1 if kind == "i1" else 3)).all()


def test_constants_and_host_globals(backwards: bool) -> None:
    source = 'memref.global "private" constant @w : memref<4xf32> = dense<[1.0, 2.0, 3.0, 5.0]>\n' + function(
        "f(%x: memref<4xf32>)",
        "%w = memref.get_global @w : memref<4xf32>\n"
        + launch("%v = memref.load %w[%tx] : memref<4xf32>\nmemref.store %v, %x[%tx] : memref<4xf32>")
        + "%h = memref.load %w[%c4] : memref<4xf32>\nreturn %h : f32".replace("%c4", "%c1"),
        "-> f32",
    )
    x = numpy.zeros(4, "f4")
    check(build(source, backwards=backwards), "f", [x], [2.0])
    numpy.testing.assert_array_equal(x, [1, 2, 3, 5])


def test_small_types(backwards: bool) -> None:
    source = function(
        "f(%x: memref<4xi1>, %y: memref<4xi1>, %b: i1)",
        launch(
            "%v = memref.load %x[%tx] : memref<4xi1>\n%w = arith.xori %v, %b : i1\n"
            "memref.store %w, %y[%tx] : memref<4xi1>"
        )
        + "%r = memref.load %y[%c1] : memref<4xi1>\nreturn %r : i1",
        "-> i1",
    )
    x, y = numpy.array([1, 0, 1, 1], "?"), numpy.zeros(4, "?")
    check(build(source, backwards=backwards), "f", [x, y, 1], [True])
    numpy.testing.assert_array_equal(y, ~x)


def test_an_assertion_ends_the_call(backwards: bool) -> None:
    source = function(
        "f(%x: memref<?xf32>)", N + '%ok = arith.cmpi ugt, %n, %c4 : index\ncf.assert %ok, "short"\ngpu.wait'
    )
    program = build(source, backwards=backwards)
    program.call("f", ramp(5))
    with pytest.raises(CallError):
        program.call("f", ramp(4))


def test_calls_that_inlining_leaves(backwards: bool) -> None:
    source = (
        "func.func private @put(%x: memref<4xf32>, %b: i1) -> memref<4xf32> {\n%c1 = arith.constant 1 : index\n"
        "%c4 = arith.constant 4 : index\n%f1 = arith.constant 1.0 : f32\ncf.cond_br %b, ^a, ^d\n^a:\n"
        + launch("memref.store %f1, %x[%tx] : memref<4xf32>")
        + "cf.br ^d\n^d:\nreturn %x : memref<4xf32> }\n"
        + function(
            "f(%x: memref<4xf32>)",
            "%e = scf.for %i = %c0 to %c4 step %c1 iter_args(%p = %x) -> (memref<4xf32>) {\n"
            "%b = arith.cmpi eq, %i, %c1 : index\n%q = func.call @put(%p, %b) : (memref<4xf32>, i1) -> memref<4xf32>\n"
            "scf.yield %q : memref<4xf32>\n}\nreturn %e : memref<4xf32>",
            "-> memref<4xf32>",
        )
    )
    x = numpy.zeros(4, "f4")
    check(build(source, backwards=backwards), "f", [x], [numpy.ones(4)])
    numpy.testing.assert_array_equal(x, numpy.ones(4))
