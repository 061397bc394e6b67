"""The rewrites of tensor-level lowering, one by one: small IR before, properties of the IR after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from aot import mlir
from aot.errors import LoweringError
from aot.lower.bufferization import constants
from aot.lower.general import leftovers
from aot.lower.launches import grid
from aot.lower.numbers import numerics, smallfloat

LAUNCH = """
gpu.launch blocks(%bx, %by, %bz) in (%gx = {x}, %gy = {y}, %gz = {z})
           threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {{ {body} gpu.terminator }}
"""
HEAD = "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"


@dataclass(frozen=True)
class After:
    """A module after a rewrite, as values that outlive the context."""

    text: str
    value: Any
    """What the rewrite returned."""
    host: tuple[str, ...]
    """Names of the operations outside kernels, in order."""
    device: tuple[str, ...]
    """Names of those inside."""


def apply(rewrite: Callable[[Any], Any], source: str) -> After:
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "test.mlir", ctx)
        value = rewrite(module)
        mlir.verify(module, "test")
        sides: dict[bool, list[str]] = {False: [], True: []}
        for op in mlir.walk(module):
            sides[mlir.inside_kernel(op)].append(op.name)
        return After(str(module), value, tuple(sides[False]), tuple(sides[True]))


def unchanged(source: str) -> str:
    """The text of a module that no rewrite has seen."""
    return apply(lambda module: None, source).text


# ---------------------------------------------------------------------------------------------------------- grids

STORE_ID = "memref.store %v, %out[%by] : memref<?xi8>"
GRIDS = [
    pytest.param("%c1", "%c1", False, id="constants"),
    pytest.param("%large", "%c1", True, id="constant y over the limit"),
    pytest.param("%limit", "%limit", False, id="both at the limit"),
    pytest.param("%n", "%c1", True, id="unknown y"),
    pytest.param("%c1", "%n", True, id="unknown z"),
    pytest.param("%bounded", "%c1", False, id="y bounded by a minimum"),
]


@pytest.mark.parametrize(("y", "z", "changed"), GRIDS)
def test_grids_within_the_limits_stay(y: str, z: str, changed: bool) -> None:
    source = f"""func.func @f(%n: index, %v: i8, %out: memref<?xi8>) {{ {HEAD}
      %large = arith.constant 65536 : index
      %limit = arith.constant 65535 : index
      %bounded = arith.minui %n, %limit : index
      {LAUNCH.format(x="%n", y=y, z=z, body=STORE_ID)}
      return }}"""
    after = apply(grid.linearise, source)
    assert ("arith.remui" in after.device) == changed
    assert ("arith.muli" in after.host) == changed


def test_a_folded_grid_gives_ids_and_extents_of_the_old_one() -> None:
    body = """%q = gpu.block_id z
      memref.store %v, %out[%q] : memref<?xi8>
      memref.store %v, %out[%gy] : memref<?xi8>"""
    source = f"""func.func @f(%a: index, %b: index, %c: index, %v: i8, %out: memref<?xi8>) {{ {HEAD}
      {LAUNCH.format(x="%a", y="%b", z="%c", body=body)} return }}"""
    after = apply(grid.linearise, source)
    assert "memref.store %arg3, %arg4[%arg1]" in after.text
    # One division for each axis, in 32 bits: no block number is larger.
    assert after.device.count("arith.remui") == 3
    assert "gpu.block_id" not in after.text
    assert ": index to i32" in after.text


def test_clusters_keep_their_grid() -> None:
    source = f"""func.func @f(%n: index) {{ {HEAD}
      gpu.launch clusters(%cx, %cy, %cz) in (%kx = %c1, %ky = %c1, %kz = %c1)
        blocks(%bx, %by, %bz) in (%gx = %n, %gy = %n, %gz = %c1)
        threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {{ gpu.terminator }}
      return }}"""
    assert "arith.muli" not in apply(grid.linearise, source).host


# ------------------------------------------------------------------------------------------------------ constants

TABLE = 'memref.global "private" constant @t : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>\n'
GET = "%g = memref.get_global @t : memref<4xf32>\n"
ESCAPES = [
    pytest.param("func.func @f() -> memref<4xf32> {", "return %g : memref<4xf32>", 1, id="returned"),
    pytest.param(
        "func.func @f(%c: i1, %x: memref<4xf32>) -> memref<4xf32> {",
        "%s = arith.select %c, %g, %x : memref<4xf32>\nreturn %s : memref<4xf32>",
        1,
        id="selected",
    ),
    pytest.param(
        "func.func @f() -> memref<?xf32> {",
        "%s = memref.cast %g : memref<4xf32> to memref<?xf32>\nreturn %s : memref<?xf32>",
        1,
        id="returned through a cast",
    ),
    pytest.param(
        "func.func @f(%c: i1, %x: memref<4xf32>) -> memref<4xf32> {",
        """%s = scf.if %c -> memref<4xf32> { scf.yield %g : memref<4xf32> } else { scf.yield %x : memref<4xf32> }
        return %s : memref<4xf32>""",
        1,
        id="yielded",
    ),
    pytest.param(
        "func.func @f(%i: index) -> f32 {", "%v = memref.load %g[%i] : memref<4xf32>\nreturn %v : f32", 0, id="read"
    ),
    pytest.param(
        "func.func @f(%x: memref<4xf32>) {",
        "linalg.exp ins(%g : memref<4xf32>) outs(%x : memref<4xf32>)\nreturn",
        0,
        id="operand of linalg",
    ),
]


@pytest.mark.parametrize(("head", "body", "copies"), ESCAPES)
def test_constants_that_leave_are_copied(head: str, body: str, copies: int) -> None:
    after = apply(constants.escape, TABLE + head + GET + body + "}")
    assert after.host.count("memref.copy") == copies


def test_memory_of_a_global_that_can_change_cannot_leave() -> None:
    source = (
        TABLE.replace("constant ", "") + "func.func @f() -> memref<4xf32> {\n" + GET + "return %g : memref<4xf32> }"
    )
    with pytest.raises(LoweringError, match="a global leaves its function") as caught:
        apply(constants.escape, source)
    assert caught.value.diagnostics[0].line == 4


def test_constants_and_their_views_are_named_inside_launches() -> None:
    body = """%u = memref.load %s[%c0] : memref<2xf32, strided<[1], offset: ?>>
      %w = memref.load %g[%c0] : memref<4xf32>
      memref.store %u, %x[%c0] : memref<4xf32>
      memref.store %w, %x[%c1] : memref<4xf32>"""
    source = f"""{TABLE} func.func @f(%x: memref<4xf32>, %i: index) {{ {HEAD} {GET}
      %s = memref.subview %g[%i] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: ?>>
      {LAUNCH.format(x="%c1", y="%c1", z="%c1", body=body)} return }}"""
    after = apply(constants.sink, source)
    assert after.device.count("memref.get_global") == 1
    assert after.device.count("memref.subview") == 1


# ------------------------------------------------------------------------------------------------------- numerics


def reduction(kind: str, body: str) -> str:
    return f"""func.func @f(%x: tensor<?x?x{kind}>, %i: tensor<?x{kind}>) -> tensor<?x{kind}> {{
      %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                            iterator_types = ["parallel", "reduction"]}}
        ins(%x : tensor<?x?x{kind}>) outs(%i : tensor<?x{kind}>) {{
      ^bb0(%a: {kind}, %o: {kind}): {body} linalg.yield %s : {kind} }} -> tensor<?x{kind}>
      return %r : tensor<?x{kind}> }}"""


MATMUL = """func.func @f(%a: tensor<4x8x{k}>, %b: tensor<8x4x{k}>, %c: tensor<4x4x{k}>) -> tensor<4x4x{k}> {{
  %r = linalg.matmul ins(%a, %b : tensor<4x8x{k}>, tensor<8x4x{k}>) outs(%c : tensor<4x4x{k}>) -> tensor<4x4x{k}>
  return %r : tensor<4x4x{k}> }}"""
SUM = "%s = arith.addf %a, %o : {k}"
MASKED = "%z = arith.constant 0.0 : f16 %p = arith.cmpf ogt, %a, %z : f16 %q = arith.addf %a, %o : f16 "
WIDENED = [
    pytest.param(reduction("f16", SUM.format(k="f16")), True, id="f16 sum"),
    pytest.param(reduction("bf16", SUM.format(k="bf16")), True, id="bf16 sum"),
    pytest.param(reduction("f8E5M2", SUM.format(k="f8E5M2")), True, id="f8 sum"),
    pytest.param(reduction("f32", SUM.format(k="f32")), False, id="f32 sum"),
    pytest.param(reduction("f16", "%s = arith.maximumf %a, %o : f16"), False, id="a maximum is exact"),
    pytest.param(reduction("f16", MASKED + "%s = arith.select %p, %q, %o : f16"), True, id="masked sum"),
    pytest.param(reduction("f16", "%s = math.fma %a, %a, %o : f16"), True, id="fma"),
    pytest.param(
        reduction(
            "f16",
            """%e = arith.extf %o : f16 to f32 %b = arith.extf %a : f16 to f32
               %t = arith.addf %e, %b : f32 %s = arith.truncf %t : f32 to f16""",
        ),
        False,
        id="explicit precision stays",
    ),
    pytest.param(MATMUL.format(k="f16"), True, id="matmul"),
    pytest.param(
        MATMUL.replace("tensor", "memref")
        .replace(" -> memref<4x4x{k}>\n", "\n")
        .replace("%r = ", "")
        .replace(" -> memref<4x4x{k}> {{", " {{")
        .replace("return %r : memref<4x4x{k}>", "return")
        .format(k="f16"),
        True,
        id="matmul on memrefs",
    ),
    pytest.param(
        """func.func @f(%x: tensor<4x8xf16>, %i: tensor<4xf16>) -> tensor<4xf16> {
          %r = linalg.reduce ins(%x : tensor<4x8xf16>) outs(%i : tensor<4xf16>) dimensions = [1]
            (%a: f16, %o: f16) { %s = arith.addf %a, %o : f16 linalg.yield %s : f16 }
          return %r : tensor<4xf16> }""",
        True,
        id="linalg.reduce",
    ),
    pytest.param(
        """func.func @f(%x: tensor<4xf16>, %i: tensor<4xf16>) -> tensor<4xf16> {
          %r = linalg.add ins(%x, %x : tensor<4xf16>, tensor<4xf16>) outs(%i : tensor<4xf16>) -> tensor<4xf16>
          return %r : tensor<4xf16> }""",
        False,
        id="no reduction",
    ),
]


@pytest.mark.parametrize(("source", "widened"), WIDENED)
def test_narrow_sums_accumulate_in_f32(source: str, widened: bool) -> None:
    after = apply(numerics.widen, source)
    assert (after.text != unchanged(source)) == widened
    assert ("arith.truncf" in after.host) == (widened or "truncf" in source)


def test_a_widened_matmul_is_still_one_and_filled_in_f32() -> None:
    source = """func.func @f(%a: tensor<4x8xf16>, %b: tensor<8x4xf16>) -> tensor<4x4xf16> {
      %z = arith.constant 0.0 : f16
      %e = tensor.empty() : tensor<4x4xf16>
      %i = linalg.fill ins(%z : f16) outs(%e : tensor<4x4xf16>) -> tensor<4x4xf16>
      %r = linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x4xf16>) outs(%i : tensor<4x4xf16>) -> tensor<4x4xf16>
      return %r : tensor<4x4xf16> }"""
    after = apply(numerics.widen, source)
    assert "linalg.matmul ins(%arg0, %arg1 : tensor<4x8xf16>, tensor<8x4xf16>) outs(%4 : tensor<4x4xf32>)" in after.text
    assert "outs(%2 : tensor<4x4xf32>)" in after.text
    # The text that MLIR reads back has the body that named operations have for such types.
    assert apply(lambda module: None, after.text).host == after.host


# ------------------------------------------------------------------------------------------------------ leftovers

READS = [
    pytest.param("%v = memref.load %x[%c0] : memref<?xf32>\nreturn %v : f32", 0, 1, id="returned"),
    pytest.param(
        "%v = memref.load %x[%c0] : memref<?xf32>\nmemref.store %v, %x[%c1] : memref<?xf32>\nreturn %w : f32",
        1,
        0,
        id="moved within the device",
    ),
    pytest.param(
        """memref.store %w, %x[%c0] : memref<?xf32>
           %v = memref.load %x[%c1] : memref<?xf32>
           return %v : f32""",
        1,
        1,
        id="write, then read",
    ),
    pytest.param(
        """%v = memref.load %x[%c1] : memref<?xf32>
           memref.store %w, %x[%c0] : memref<?xf32>
           return %v : f32""",
        1,
        1,
        id="read, then write",
    ),
    pytest.param("%v = memref.load %x[%c1] : memref<?xf32>\nreturn %w : f32", 0, 0, id="never used"),
    pytest.param(
        """%r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %w) -> f32 {
             %v = memref.load %x[%i] : memref<?xf32>
             %t = arith.addf %s, %v : f32
             scf.yield %t : f32 }
           return %r : f32""",
        1,
        1,
        id="a loop as a whole",
    ),
]


@pytest.mark.parametrize(("body", "launches", "loads"), READS)
def test_leftovers(body: str, launches: int, loads: int) -> None:
    source = f"func.func @f(%x: memref<?xf32>, %w: f32, %n: index) -> f32 {{ {HEAD} {body} }}"
    after = apply(leftovers.to_device, source)
    assert after.host.count("gpu.launch") == launches
    assert after.value == (frozenset({"f"}) if loads else frozenset())
    assert after.text.count("call @aot_rt_load_i32") == loads
    assert not {"memref.load", "memref.store", "scf.for"} & set(after.host)
    # What is taken for a value on its way is given back.
    assert after.text.count("call @aot_rt_alloc") == after.text.count("call @aot_rt_free")


def test_a_function_that_calls_a_reading_one_reads() -> None:
    source = """
    func.func private @g(%x: memref<f32>) -> f32 { %v = memref.load %x[] : memref<f32> return %v : f32 }
    func.func @f(%x: memref<f32>) -> f32 { %v = call @g(%x) : (memref<f32>) -> f32 return %v : f32 }
    func.func @h(%x: memref<f32>, %v: f32) { memref.store %v, %x[] : memref<f32> return }"""
    assert apply(leftovers.to_device, source).value == {"f", "g"}


def test_memory_marked_as_the_hosts_stays_there() -> None:
    source = """func.func @f(%v: index) -> index {
      %a = memref.alloca() {aot.host} : memref<index>
      memref.store %v, %a[] : memref<index>
      %r = memref.load %a[] : memref<index>
      return %r : index }"""
    after = apply(leftovers.to_device, source)
    assert "gpu.launch" not in after.host
    assert {"memref.load", "memref.store"} <= set(after.host)


REFUSED = [
    pytest.param(
        """%a = memref.alloca() {aot.host} : memref<4xf32>
           memref.copy %a, %x : memref<4xf32> to memref<4xf32>""",
        "uses host memory and device memory at once",
        id="a copy between host and device",
    ),
    pytest.param(
        "%r = memref.realloc %x : memref<4xf32> to memref<8xf32>", "would run on the host", id="an unknown operation"
    ),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_what_cannot_move_is_an_error_with_its_place(body: str, message: str) -> None:
    with pytest.raises(LoweringError) as caught:
        apply(leftovers.to_device, f"func.func @f(%x: memref<4xf32>) {{\n{body}\nreturn }}")
    assert message in caught.value.text()
    assert caught.value.hint
    assert caught.value.diagnostics[0].line in (2, 3)


# ---------------------------------------------------------------------------------------------------- small types

STORED = [
    pytest.param("memref<4xi1>", "memref<4xi8>", id="i1"),
    pytest.param("memref<?xi4, strided<[?], offset: ?>>", "memref<?xi8, strided<[?], offset: ?>>", id="strided i4"),
    pytest.param("memref<f8E4M3FN>", "memref<i8>", id="f8"),
    pytest.param("memref<*xi1>", "memref<*xi8>", id="unranked"),
    pytest.param("memref<4xf4E2M1FN, 1>", "memref<4xi8, 1>", id="f4 in a memory space"),
    pytest.param("f8E5M2", "i8", id="f8 scalar"),
    pytest.param("vector<4xf8E5M2>", "vector<4xi8>", id="f8 vector"),
    pytest.param("i1", "i1", id="i1 scalar"),
    pytest.param("vector<4xi1>", "vector<4xi1>", id="i1 vector"),
]


@pytest.mark.parametrize(("before", "after"), STORED)
@pytest.mark.parametrize(
    "shell",
    [
        "func.func @f(%x: {}) {{ return }}",
        "func.func private @f({})",
        "gpu.module @m {{ gpu.func @f(%x: {}) kernel {{ gpu.return }} }}",
    ],
)
def test_types_in_signatures(shell: str, before: str, after: str) -> None:
    assert f"{after}" in apply(smallfloat.rewrite, shell.format(before)).text.split("{\n", 1)[1]


GLOBALS = [
    pytest.param("memref<3xi1> = dense<[true, false, true]>", "memref<3xi8> = dense<[1, 0, 1]>", id="i1"),
    pytest.param("memref<2xi3> = dense<[-1, 2]>", "memref<2xi8> = dense<[-1, 2]>", id="i3, with its sign"),
    pytest.param("memref<2xf8E5M2> = dense<[1.0, 0x7D]>", "memref<2xi8> = dense<[60, 125]>", id="f8, NaN kept"),
    pytest.param("memref<2x2xf4E2M1FN> = dense<6.0>", "memref<2x2xi8> = dense<7>", id="f4 splat"),
    pytest.param('memref<2xf8E4M3FN> = dense<"0x38C0">', "memref<2xi8> = dense<[56, -64]>", id="f8 blob"),
    pytest.param("memref<2xi1> = uninitialized", "memref<2xi8> = uninitialized", id="uninitialized"),
]


@pytest.mark.parametrize(("before", "after"), GLOBALS)
def test_globals(before: str, after: str) -> None:
    assert (
        f'memref.global "private" @g : {after}'
        in apply(smallfloat.rewrite, f'memref.global "private" @g : {before}').text
    )


ACCESSES = [
    pytest.param("%v = memref.load %m[%i] : memref<?xi1>\nmemref.store %v, %m[%i] : memref<?xi1>", id="memref"),
    pytest.param("%v = affine.load %m[0] : memref<?xi1>\naffine.store %v, %m[0] : memref<?xi1>", id="affine"),
    pytest.param(
        """%v = vector.load %m[%i] : memref<?xi1>, vector<4xi1>
           vector.store %v, %m[%i] : memref<?xi1>, vector<4xi1>""",
        id="vector",
    ),
    pytest.param(
        """%p = arith.constant false
           %v = vector.transfer_read %m[%i], %p : memref<?xi1>, vector<4xi1>
           vector.transfer_write %v, %m[%i] : vector<4xi1>, memref<?xi1>""",
        id="transfer",
    ),
    pytest.param(
        """%k = vector.create_mask %i : vector<4xi1>
           %v = vector.maskedload %m[%i], %k, %k : memref<?xi1>, vector<4xi1>, vector<4xi1> into vector<4xi1>
           vector.maskedstore %m[%i], %k, %v : memref<?xi1>, vector<4xi1>, vector<4xi1>""",
        id="masked: the mask stays",
    ),
]


@pytest.mark.parametrize("body", ACCESSES)
def test_accesses_of_narrow_elements(body: str) -> None:
    after = apply(smallfloat.rewrite, f"func.func @f(%m: memref<?xi1>, %i: index) {{ {body} return }}")
    assert after.host.count("arith.trunci") == 1
    assert after.host.count("arith.extui") >= 1
    assert "memref<?xi1>" not in after.text


def test_nothing_to_do_changes_nothing() -> None:
    source = """func.func @f(%x: memref<4xi8>, %c: i1, %v: f16) -> f16 {
      %w = arith.maximumf %v, %v : f16
      return %w : f16 }"""
    assert apply(smallfloat.rewrite, source).text == unchanged(source)


UNFIT = [
    pytest.param(
        "%r = memref.atomic_rmw addf %v, %m[%i] : (f8E5M2, memref<?xf8E5M2>) -> f8E5M2",
        "memref.atomic_rmw",
        id="atomic",
    ),
    pytest.param(
        "%b = vector.broadcast %v : f8E5M2 to vector<4xf8E5M2>\n"
        "%r = vector.reduction <add>, %b : vector<4xf8E5M2> into f8E5M2",
        "vector.reduction",
        id="vector reduction",
    ),
    pytest.param("%r = gpu.all_reduce add %v {} : (f8E5M2) -> f8E5M2", "gpu.all_reduce", id="all_reduce"),
]


@pytest.mark.parametrize(("body", "message"), UNFIT)
def test_unfit_uses_of_small_floats(body: str, message: str) -> None:
    source = (
        f"gpu.module @m {{ gpu.func @f(%m: memref<?xf8E5M2>, %v: f8E5M2, %i: index) kernel {{\n{body}\ngpu.return }} }}"
    )
    with pytest.raises(LoweringError) as caught:
        apply(smallfloat.rewrite, source)
    assert message in caught.value.text()
    assert caught.value.diagnostics[0].line in (2, 3)
