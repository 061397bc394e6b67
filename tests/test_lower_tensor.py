"""Tensor-level lowering: signatures, roles, the shape of the product, schedules, and errors with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from aot import mlir
from aot.errors import LoweringError
from aot.lower import tensor
from aot.lower.general import schedule
from aot.lower.general.schedule import Nest
from aot.lower.launches import tiling
from aot.lower.source import signature
from aot.model import READS_DEVICE, Function

PATH = "kernels/test.mlir"


@dataclass(frozen=True)
class Lowered:
    """What is left of a lowering when its context is gone."""

    functions: tuple[Function, ...]
    messages: tuple[str, ...]
    text: str
    ops: frozenset[str]
    host_ops: frozenset[str]
    stages: tuple[str, ...]


def lower(source: str, names: dict[str, list[str]] | None = None) -> Lowered:
    stages: list[str] = []
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), PATH, ctx)
        done = tensor.lower(module, names or {}, tensor.Options(), lambda stage, _: stages.append(stage))
        ops = mlir.walk(done.module)
        return Lowered(
            done.functions,
            done.messages,
            str(done.module),
            frozenset(op.name for op in ops),
            frozenset(op.name for op in ops if not mlir.inside_kernel(op)),
            tuple(stages),
        )


def signatures(source: str, names: dict[str, list[str]] | None = None) -> tuple[Function, ...]:
    with mlir.context() as ctx:
        return signature.read(mlir.parse(source.encode(), PATH, ctx), names or {})


# ------------------------------------------------------------------ signatures

TYPES = [
    ("tensor<?x128xf32>", "tensor<?x128xf32>"),
    ("tensor<f16>", "tensor<f16>"),
    ("tensor<4xi1>", "tensor<4xi1>"),
    ("tensor<4xindex>", "tensor<4xindex>"),
    ("tensor<2xcomplex<f32>>", "tensor<2xcomplex<f32>>"),
    ("tensor<4xf8E4M3FN>", "tensor<4xf8E4M3FN>"),
    ("memref<4x?xbf16>", "memref<4x?xbf16>"),
    ("memref<4x?xf32, strided<[?, 1], offset: ?>>", "memref<4x?xf32, strided<[?, 1], offset: ?>>"),
    ("memref<4x8xf32, affine_map<(i, j) -> (i + 4 * j)>>", "memref<4x8xf32, strided<[1, 4]>>"),
    ("memref<4xf32, 1>", "memref<4xf32>"),
    ("i1", "i1"),
    ("index", "index"),
    ("bf16", "bf16"),
]


@pytest.mark.parametrize(("written", "read"), TYPES, ids=[row[0] for row in TYPES])
def test_type(written: str, read: str) -> None:
    (function,) = signatures(f"func.func @f(%x: {written}) {{ return }}")
    assert function.args[0].type.text() == read


UNSUPPORTED = [
    ("tensor<*xf32>", "rank must be known"),
    ("memref<*xf32>", "rank must be known"),
    ("vector<4xf32>", "use arrays and numbers"),
    ("i128", "use arrays and numbers"),
    ("ui64", "write i64"),
    ("complex<f32>", "use arrays and numbers"),
    ("memref<4xf32, 3>", "global memory"),
    ("memref<4xf32, #gpu.address_space<global>>", "leave the memory space out"),
    ("memref<4xf32, affine_map<(i) -> (i mod 2)>>", "strided layouts"),
    ("tensor<4xi128>", "elements of type 'i128'"),
    ('tensor<4xf32, "x">', "encoding"),
]


@pytest.mark.parametrize(("kind", "text"), UNSUPPORTED, ids=[row[0] for row in UNSUPPORTED])
def test_unsupported_argument(kind: str, text: str) -> None:
    with pytest.raises(LoweringError) as caught:
        signatures(f"\nfunc.func @f(%a: i32, %x: {kind}) {{ return }}", {"f": ["a", "x"]})
    (found,) = caught.value.diagnostics
    assert (found.file, found.line) == (PATH, 2)
    assert re.search(rf"argument 'x' of @f.*{text}", found.message)


def test_all_unsupported_functions_are_reported_together() -> None:
    second = "func.func @g() -> vector<2xf32> {\n  %0 = ub.poison : vector<2xf32>\n  return %0 : vector<2xf32>\n}"
    source = f"func.func @f(%x: i128) {{ return }}\n{second}"
    with pytest.raises(LoweringError) as caught:
        signatures(source)
    assert [each.line for each in caught.value.diagnostics] == [1, 2]


NAMES = [
    ("attribute", '%x: f32 {aot.name = "first"} loc("second")', ["third"], "first"),
    ("location", '%x: f32 loc("second")', ["third"], "second"),
    ("location with a place", '%x: f32 loc("second"("model.py":3:4))', ["third"], "second"),
    ("location that is no name", '%x: f32 loc("aten::mul")', ["third"], "third"),
    ("source text", "%x: f32", ["third"], "third"),
    ("nothing", "%x: f32", [], "arg0"),
]


@pytest.mark.parametrize(("argument", "given", "name"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_argument_name(argument: str, given: list[str], name: str) -> None:
    (function,) = signatures(f"func.func @f({argument}) {{ return }}", {"f": given})
    assert function.args[0].name == name


def test_private_functions_and_declarations_have_no_signature() -> None:
    source = "func.func private @p(%x: i128) { return }\nfunc.func private @d(i128)\nfunc.func @f() { return }"
    assert [function.name for function in signatures(source)] == ["f"]


# ------------------------------------------------------------------ roles

T = "tensor<4xf32>"
X_O = f"%x: {T}, %o: {T}"
UNARY = f"ins(%x : {T}) outs(%o : {T}) -> {T}"
ROLES = [
    ("outs", X_O, f"%r = linalg.exp {UNARY}", "%r", ["in", "destination"], [1]),
    ("outs read as well", f"%x: {T}", f"%r = linalg.exp ins(%x : {T}) outs(%x : {T}) -> {T}", "%r", ["in"], [None]),
    ("another use of outs", X_O, f"%r = linalg.exp {UNARY}", "%r, %o", ["in", "in"], [None, 1]),
    ("elementwise op on tensors", X_O, f"%r = arith.addf %x, %o : {T}", "%r", ["in", "in"], [None]),
    ("through fill", f"%o: {T}, %v: f32", f"%r = linalg.fill ins(%v : f32) outs(%o : {T}) -> {T}",
     "%r", ["destination", "scalar"], [0]),
    (
        "through two operations",
        X_O,
        f"%a = linalg.exp {UNARY}\n%r = linalg.negf ins(%a : {T}) outs(%a : {T}) -> {T}",
        "%r",
        ["in", "destination"],
        [1],
    ),
    (
        "not through insert",
        f"%o: {T}, %v: f32",
        f"%c = arith.constant 0 : index\n%r = tensor.insert %v into %o[%c] : {T}",
        "%r",
        ["in", "scalar"],
        [None],
    ),
    (
        "through insert when marked",
        f"%o: {T} {{bufferization.writable = true}}, %v: f32",
        f"%c = arith.constant 0 : index\n%r = tensor.insert %v into %o[%c] : {T}",
        "%r",
        ["destination", "scalar"],
        [0],
    ),
    ("returned twice", X_O, f"%r = linalg.exp {UNARY}", "%r, %r", ["in", "destination"], [1, 1]),
    (
        "two values for one array",
        X_O,
        f"%a = linalg.exp {UNARY}\n%r = linalg.negf ins(%x : {T}) outs(%a : {T}) -> {T}",
        "%a, %r",
        ["in", "destination"],
        [1, None],
    ),
    ("arguments", X_O, "", "%o, %x", ["in", "in"], [1, 0]),
    ("number", "%x: i32", "", "%x", ["scalar"], [None]),
    ("reference", "%m: memref<4xf32>", "", "%m", ["ref"], [0]),
    (
        "cast reference",
        "%m: memref<4xf32>",
        "%r = memref.cast %m : memref<4xf32> to memref<?xf32>",
        "%r",
        ["ref"],
        [0],
    ),
    (
        "unpack",
        "%x: tensor<2x4xf32>, %t: index, %o: tensor<8xf32>",
        "%r = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [4] into %o : tensor<2x4xf32> -> tensor<8xf32>",
        "%r",
        ["in", "scalar", "destination"],
        [2],
    ),
    (
        "reduce",
        f"%x: tensor<4x3xf32>, %o: {T}",
        f"%r = linalg.reduce {{ arith.addf }} ins(%x : tensor<4x3xf32>) outs(%o : {T}) dimensions = [1]",
        "%r",
        ["in", "destination"],
        [1],
    ),
]  # fmt: skip


def function_text(arguments: str, body: str, returned: str) -> str:
    """A function whose result types are found by MLIR's own parser: generic form of its return."""
    types = {
        "%x": T if f"%x: {T}" in arguments else "i32",
        "%o": T,
        "%m": "memref<4xf32>",
        "%a": T,
        "%r": "memref<?xf32>" if "memref.cast" in body else "tensor<8xf32>" if "unpack" in body else T,
    }
    results = ", ".join(types[value] for value in returned.split(", "))
    return f"func.func @f({arguments}) -> ({results}) {{\n{body}\nreturn {returned} : {results}\n}}"


@pytest.mark.parametrize(
    ("arguments", "body", "returned", "roles", "results"), [row[1:] for row in ROLES], ids=[row[0] for row in ROLES]
)
def test_roles(arguments: str, body: str, returned: str, roles: list[str], results: list[int | None]) -> None:
    source = function_text(arguments, body, returned)
    (function,) = signatures(source)
    assert [argument.role for argument in function.args] == roles
    assert [result.argument for result in function.results] == results
    # The lowered function agrees: what is new is asked for, and nothing else.
    text = lower(source).text
    new = [k for k, r in enumerate(function.results) if r.argument is None and r.type.text().startswith("tensor")]
    assert len(re.findall(r"call @aot_rt_result\(", text)) == len(new)


def test_result_layout_is_that_of_new_memory() -> None:
    kind = "memref<4x4xf32, strided<[8, 1], offset: 18>>"
    body = f"%r = memref.subview %m[2, 2] [4, 4] [1, 1] : memref<8x8xf32> to {kind}\nreturn %r : {kind}"
    (function,) = lower(f"func.func @f(%m: memref<8x8xf32>) -> {kind} {{ {body} }}").functions
    assert function.results[0].type.text() == "memref<4x4xf32>"


# ------------------------------------------------------------------ shape of the product

ID = "affine_map<(i) -> (i)>"
SUM = f"""
func.func @f(%x: tensor<?xf32>) -> (tensor<f32>, f32) {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {{indexing_maps = [{ID}, affine_map<(i) -> ()>], iterator_types = ["reduction"]}}
    ins(%x : tensor<?xf32>) outs(%i : tensor<f32>) {{
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  }} -> tensor<f32>
  %v = tensor.extract %r[] : tensor<f32>
  return %r, %v : tensor<f32>, f32
}}"""
LOOP = """
func.func @f(%x: tensor<?x4xf32>, %n: index, %c: i1) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %x) -> tensor<?x4xf32> {
    %q = scf.if %c -> tensor<?x4xf32> {
      %a = math.exp %y : tensor<?x4xf32>
      scf.yield %a : tensor<?x4xf32>
    } else {
      scf.yield %y : tensor<?x4xf32>
    }
    scf.yield %q : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}"""
BUFFERS = """
func.func @f(%a: memref<?xf32>, %n: index) {
  %t = memref.alloc(%n) : memref<?xf32>
  %s = memref.alloca() : memref<4xf32>
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%s : memref<4xf32>)
  memref.copy %a, %t : memref<?xf32> to memref<?xf32>
  memref.copy %t, %a : memref<?xf32> to memref<?xf32>
  memref.dealloc %t : memref<?xf32>
  return
}"""
LEVELS = [("reduction", SUM), ("loop", LOOP), ("buffers", BUFFERS)]
HOST = re.compile(
    r"(arith|index|cf|ub)\..*|scf\.(for|if|while|yield|condition)|func\.(func|return|call)|gpu\.launch"
    r"|memref\.(dim|view|cast|subview|reinterpret_cast|extract_aligned_pointer_as_index|extract_strided_metadata|load|store|alloca)"
    r"|builtin\.module|llvm\.inttoptr"
)


@pytest.mark.parametrize("source", [row[1] for row in LEVELS], ids=[row[0] for row in LEVELS])
def test_product(source: str) -> None:
    done = lower(source)
    assert "gpu.launch" in done.ops
    gone = {"memref.alloc", "memref.dealloc", "memref.copy", "bufferization.clone"}
    assert not gone & done.ops
    assert not [name for name in done.ops if name.startswith(("linalg.", "tensor.", "affine.", "bufferization."))]
    assert not [name for name in done.host_ops if not HOST.fullmatch(name)]
    # Memory that the host may touch is marked, and there is none in these programs but the lists of the deallocation.
    assert all("aot.host" in line for line in done.text.splitlines() if "memref.alloca" in line)


def test_results_are_numbers_only() -> None:
    done = lower(SUM)
    assert re.search(r"func\.func @f\(%\w+: memref<\?xf32>\) -> f32", done.text)
    assert re.search(r"call @aot_rt_result\(%c0", done.text)
    assert done.functions[0].flags == (READS_DEVICE,)


def test_extents_of_a_result_come_before_its_memory() -> None:
    text = lower(LOOP).text
    calls = re.findall(r"call @(aot_rt_result\w*)\(", text)
    assert calls == ["aot_rt_result_extent", "aot_rt_result_extent", "aot_rt_result"]


def test_buffers_of_a_loop_are_given_back() -> None:
    assert "call @aot_rt_free" in lower(LOOP).text
    assert not lower(LOOP).functions[0].flags


def test_one_launch_for_a_chain_of_elementwise_operations() -> None:
    done = lower(
        """
func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %a = arith.addf %x, %y : tensor<?xf32>
  %b = math.exp %a : tensor<?xf32>
  %r = arith.mulf %b, %x : tensor<?xf32>
  return %r : tensor<?xf32>
}""",
        {"f": ["x", "y"]},
    )
    assert done.text.count("gpu.launch ") == 1
    assert "aot_rt_alloc" not in done.text
    assert done.messages == (f"extent 0 of 'y' ({{}}) is not extent 0 of 'x' ({{}}) ({PATH}:5)",)


def test_a_general_contraction_is_one_launch_with_its_result_in_a_register() -> None:
    source = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                       affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%i : tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    %t = arith.maximumf %o, %s : f32
    linalg.yield %t : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
    text = lower(source).text
    assert text.count("gpu.launch ") == 1
    assert re.search(r"scf\.for .* iter_args\(.*-> \(f32\)", text)
    loop = text[text.index("scf.for") : text.index("scf.yield")]
    assert "memref.store" not in loop


LAYER = """
  %e{0} = tensor.empty() : tensor<64x64xf32>
  %f{0} = linalg.fill ins(%z : f32) outs(%e{0} : tensor<64x64xf32>) -> tensor<64x64xf32>
  %m{0} = linalg.matmul ins(%x{0}, %w : tensor<64x64xf32>, tensor<64x64xf32>)
    outs(%f{0} : tensor<64x64xf32>) -> tensor<64x64xf32>
  %t{0} = math.tanh %m{0} : tensor<64x64xf32>
  %x{1} = arith.addf %t{0}, %x0 : tensor<64x64xf32>"""


def test_what_follows_a_contraction_is_part_of_its_launch() -> None:
    layers = "".join(LAYER.format(number, number + 1) for number in range(3))
    done = lower(
        f"func.func @f(%x0: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {{"
        f"\n  %z = arith.constant 0.0 : f32{layers}\n  return %x3 : tensor<64x64xf32>\n}}"
    )
    # One each, whether the call's arrays are aligned or not.
    assert done.text.count(f'{tiling.SCHEDULE} = "ffma"') == 3
    assert done.text.count("gpu.launch ") == 3
    assert len(re.findall(r"call @aot_rt_alloc\(", done.text)) == 2
    assert len(re.findall(r"call @aot_rt_free\(", done.text)) == 2


def test_a_sum_over_rows_is_one_launch_or_two() -> None:
    # One where rows are few; else partial sums and what they give together. With vectors, and without.
    reduce = "linalg.reduce { arith.addf } ins(%x : tensor<?x?xf32>) outs(%o : tensor<?xf32>) dimensions = [0]"
    done = lower(
        f"func.func @f(%x: tensor<?x?xf32>, %o: tensor<?xf32>) -> tensor<?xf32> {{\n  %r = {reduce}\n"
        "  return %r : tensor<?xf32>\n}"
    )
    assert done.text.count("gpu.launch ") == 6
    assert "scf.for" in done.ops - done.host_ops


def test_neighbouring_threads_write_neighbouring_elements() -> None:
    generic = (
        "linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>],"
        ' iterator_types = ["parallel", "parallel"]} ins(%x : TYPE) outs(%o : TYPE)'
        " {\n^bb0(%a: complex<f32>, %b: complex<f32>): linalg.yield %a : complex<f32> }"
    )
    source = f"func.func @f(%x: TYPE, %o: TYPE) {{\n{generic}\nreturn\n}}"
    text = lower(source.replace("TYPE", "memref<?x?xcomplex<f32>>")).text
    launch = text[text.index("gpu.launch") :]
    fast = re.search(r"memref\.store %\w+, %\w+\[%\w+, (%\w+)\]", launch)
    assert fast is not None
    thread = re.search(r"threads\((%\w+),", launch)
    assert thread is not None
    assert re.search(rf"{fast[1]} = arith.addi %\w+, {thread[1]} :", launch)


def test_what_is_left_runs_in_one_thread() -> None:
    source = """func.func @f(%x: memref<?xf32>, %i: index) {
  %v = memref.load %x[%i] : memref<?xf32>
  %w = math.exp %v : f32
  memref.store %w, %x[%i] : memref<?xf32>
  return
}"""
    assert f'{tiling.SCHEDULE} = "one-thread"' in lower(source).text


def test_stages_are_dumped_in_order() -> None:
    assert lower(SUM).stages == ("linalg", "buffers", "memory", "contractions", "regions", "launches", "device")


def test_the_schedule_is_named_on_its_launch() -> None:
    text = lower(LOOP).text
    assert f'{tiling.SCHEDULE} = "pointwise' in text or f'{schedule.ATTRIBUTE} = "row' in text


# ------------------------------------------------------------------ schedules

BLOCKS = [
    (Nest((None,), has_loops=False), (256, 1, 1)),
    (Nest((None,), has_loops=True), (64, 1, 1)),
    (Nest((1000,), has_loops=False), (256, 1, 1)),
    (Nest((3,), has_loops=False), (4, 1, 1)),
    (Nest((None, None), has_loops=False), (32, 8, 1)),
    (Nest((None, 3), has_loops=False), (4, 64, 1)),
    (Nest((2, 1000), has_loops=False), (128, 2, 1)),
    (Nest((1, 1000), has_loops=False), (256, 1, 1)),
    (Nest((None, None, None), has_loops=True), (32, 8, 1)),
    (Nest((None, 2, 2, 2), has_loops=False), (2, 2, 64)),
    (Nest((0, 4), has_loops=False), (4, 1, 1)),
]


@pytest.mark.parametrize(("nest", "block"), BLOCKS, ids=[str(row[0].extents) for row in BLOCKS])
def test_block(nest: Nest, block: tuple[int, int, int]) -> None:
    chosen = schedule.choose(nest)
    assert (chosen.name, chosen.block) == (schedule.GENERAL, block)


# ------------------------------------------------------------------ assertions

CHECKED = """
func.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?xf32>
  %eq = arith.cmpi eq, %n, %m : index
  cf.assert %eq, "sizes differ"
  %r = math.exp %x : tensor<?xf32>
  return %r : tensor<?xf32>
}"""


def test_host_assertion() -> None:
    done = lower(CHECKED)
    assert "cf.assert" not in done.ops
    assert "call @aot_rt_assert" in done.text
    assert done.messages == (f"sizes differ ({PATH}:6)",)


SLICES = [
    ("all of it", "[0] [%m] [1]", 0),
    ("some of it", "[0] [%n] [1]", 1),
    ("from some place", "[%n] [2] [1]", 1),
    ("with steps", "[0] [2] [%n]", 1),
    ("a few", "[0] [2] [1]", 1),
]


@pytest.mark.parametrize(("place", "count"), [row[1:] for row in SLICES], ids=[row[0] for row in SLICES])
def test_slice_is_checked(place: str, count: int) -> None:
    kind = "tensor<2xf32>" if "[2]" in place else "tensor<?xf32>"
    done = lower(f"""
func.func @f(%x: tensor<?xf32>, %n: index) -> {kind} {{
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?xf32>
  %s = tensor.extract_slice %x{place} : tensor<?xf32> to {kind}
  return %s : {kind}
}}""")
    stride = ", stride {}" if place.endswith("[%n]") else ""
    text = f"a slice (offset {{}}, size {{}}{stride}) leaves dimension 0 of 'arg0' ({{}}) ({PATH}:5)"
    assert done.messages == (text,) * count


def test_assertion_in_a_kernel_stays() -> None:
    done = lower("""
func.func @f(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xf32>
    %ok = arith.cmpf oge, %v, %z : f32
    cf.assert %ok, "negative"
    scf.reduce
  }
  return
}""")
    assert "cf.assert" in done.ops - done.host_ops
    assert done.messages == ()


# ------------------------------------------------------------------ errors

SPARSE = "#sparse_tensor.encoding<{map = (d0) -> (d0 : compressed)}>"
M = "memref<4x4xf32>"
COLUMNS = "memref<4x4xf32, strided<[1, 4]>>"
ERRORS = [
    (
        "sparse tensors",
        f"func.func @f(%x: {T}) {{\n  %s = sparse_tensor.convert %x : {T} to tensor<4xf32, {SPARSE}>\n  return\n}}",
        2,
        "sparse tensors are not supported",
    ),
    (
        "global that is not constant",
        f'memref.global "private" @g : {M} = dense<0.0>\nfunc.func @f(%x: {M}) {{\n'
        f"  %g = memref.get_global @g : {M}\n  memref.copy %g, %x : {M} to {M}\n  return\n}}",
        3,
        "'@g' is not constant",
    ),
    (
        "layout of a buffer",
        f"func.func @f(%x: {M}) {{\n  %a = memref.alloc() : {COLUMNS}\n"
        f"  linalg.exp ins(%x : {M}) outs(%a : {COLUMNS})\n  linalg.transpose ins(%a : {COLUMNS}) outs(%x : {M})"
        " permutation = [1, 0]\n  return\n}",
        2,
        "not row-major",
    ),
]


@pytest.mark.parametrize(("source", "line", "text"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_error(source: str, line: int, text: str) -> None:
    with pytest.raises(LoweringError) as caught:
        lower(source)
    found = caught.value.diagnostics[0]
    assert (found.file, found.line) == (PATH, line)
    assert text in found.message
    assert found.source_line == source.splitlines()[line - 1]
