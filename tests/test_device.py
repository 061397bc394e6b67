"""Device code for one target: what is lowered, what is refused, and for whom."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from aot import mlir
from aot.errors import ArchUnfit, LoweringError
from aot.fatbins import binary
from aot.lower.gpumodule import device, switchblocks
from aot.lower.gpumodule.device import DeviceJob, Lowering
from aot.targets import arch
from aot.targets.arch import target
from aot.tools import toolchain
from aot.tools.toolchain import Toolchain
from tests.lowering import cases

PATH = "kernels/k.mlir"
WORKGROUP = "#gpu.address_space<workgroup>"


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    return toolchain.find(environment={})


def kernel(body: str, arguments: str = "%a: memref<?xf32>") -> str:
    """A source with one kernel; ``%i`` is its thread, ``%c0`` and ``%z`` are zeros."""
    return (
        f"gpu.module @k {{\ngpu.func @f({arguments}) kernel {{\n%i = gpu.thread_id x\n%c0 = arith.constant 0 : index\n"
        f"%z = arith.constant 0.0 : f32\n{body}\ngpu.return\n}}\n}}"
    )


def lowered(source: str, name: str = "sm_90", look: Callable[[mlir.Module], object] = str) -> object:
    """``look`` at the lowered module, while its context lives."""
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), PATH, ctx)
        wanted = target(name)
        version = arch.cubin_ptx(wanted)
        assert version is not None
        return look(Lowering(device.isolate(module)).lower(DeviceJob(wanted, version)))


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "vector<8xf16>"])
def test_maxima_of_floats_are_one_operation(kind: str) -> None:
    body = f"%l = memref.load %a[%i] : memref<?x{kind}>\n%m = arith.maximumf %l, %l : {kind}\n"
    body += f"%n = arith.minnumf %m, %l : {kind}\nmemref.store %n, %a[%i] : memref<?x{kind}>"
    text = str(lowered(kernel(body, f"%a: memref<?x{kind}>")))
    assert "llvm.intr.maximum" in text
    assert "llvm.intr.minnum" in text
    assert "llvm.fcmp" not in text


@pytest.mark.parametrize(("kind", "count"), [("f32", 1), ("vector<4xf32>", 4)])
def test_rough_exponentials_are_one_instruction(kind: str, count: int) -> None:
    body = f"%l = memref.load %a[%i] : memref<?x{kind}>\n%m = math.exp %l fastmath<afn> : {kind}\n"
    body += f"%n = math.exp2 %m fastmath<afn> : {kind}\nmemref.store %n, %a[%i] : memref<?x{kind}>"
    text = str(lowered(kernel(body, f"%a: memref<?x{kind}>")))
    assert text.count("llvm.nvvm.ex2.approx.ftz.f") == 2 * count
    exact = str(lowered(kernel(body.replace(" fastmath<afn>", ""), f"%a: memref<?x{kind}>")))
    assert "llvm.nvvm.ex2.approx.ftz.f" not in exact


@pytest.mark.parametrize(
    ("dividend", "divisor", "full"),
    [("%l", "%l", True), ("%l", "%h", False), ("%one", "%l", False), ("%l", "%one", False), ("%l", "%large", True)],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_rough_quotients_know_large_divisors(lanes: int, dividend: str, divisor: str, full: bool) -> None:
    """``div.approx.f32`` gives 0 for divisors beyond 2^126; an f16 is none, and inverses have their own instruction."""
    single, half = (f"vector<{lanes}x{kind}>" if lanes > 1 else kind for kind in ("f32", "f16"))
    dense = "dense<{}>" if lanes > 1 else "{}"
    body = f"""%l = memref.load %a[%i] : memref<?x{single}>
        %n = memref.load %b[%i] : memref<?x{half}>
        %h = arith.extf %n : {half} to {single}
        %one = arith.constant {dense.format("1.0")} : {single}
        %large = arith.constant {dense.format("1.0e38")} : {single}
        %m = arith.divf {dividend}, {divisor} fastmath<afn> : {single}
        memref.store %m, %a[%i] : memref<?x{single}>"""
    text = str(lowered(kernel(body, f"%a: memref<?x{single}>, %b: memref<?x{half}>")))
    assert text.count("llvm.nvvm.div.full") == (lanes if full else 0)


@pytest.mark.parametrize("kind", ["f32", "f64", "vector<4xf32>", "vector<2xf64>"])
def test_a_fused_multiply_add_is_one_operation(kind: str) -> None:
    body = f"%l = memref.load %a[%i] : memref<?x{kind}>\n%m = math.fma %l, %l, %l : {kind}\n"
    body += f"memref.store %m, %a[%i] : memref<?x{kind}>"
    text = str(lowered(kernel(body, f"%a: memref<?x{kind}>")))
    assert text.count("llvm.intr.fma") == 1
    assert "llvm.call" not in text
    assert "llvm.extractelement" not in text


def test_marks_of_loops_reach_the_assembly(tools: Toolchain) -> None:
    """A loop that is not to be unrolled has its body once, and ptxas is told."""
    body = (
        "%n = arith.constant 8 : index\n%one = arith.constant 1 : index\n"
        "scf.for %j = %c0 to %n step %one {\n%k = arith.addi %i, %j : index\n"
        "%l = memref.load %a[%k] : memref<?xf32>\n%m = arith.mulf %l, %l : f32\n"
        "memref.store %m, %a[%k] : memref<?xf32>\n} MARK"
    )
    texts = [translated(kernel(body.replace("MARK", mark)), tools) for mark in ("", NOT_UNROLLED)]
    assert [text.count("st.global.b32") for text in texts] == [8, 1]
    assert [text.count('.pragma "nounroll"') for text in texts] == [0, 1]


NOT_UNROLLED = "{llvm.loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}"


@pytest.mark.parametrize(
    ("kind", "count"), [("f32", 1), ("f16", 1), ("bf16", 1), ("i8", 1), ("vector<3xi8>", 3), ("vector<4xf32>", 4)]
)
def test_threads_exchange_values_of_any_width(kind: str, count: int) -> None:
    element = kind.split("x")[-1].rstrip(">")
    load, store = ("vector.load", "vector.store") if "<" in kind else ("memref.load", "memref.store")
    types = f"memref<?x{element}>" + (f", {kind}" if "<" in kind else "")
    body = f"%one = arith.constant 1 : i32\n%w = arith.constant 32 : i32\n%v = {load} %a[%i] : {types}\n"
    body += f"%r, %there = gpu.shuffle down %v, %one, %w : {kind}\n{store} %r, %a[%i] : {types}"
    text = str(lowered(kernel(body, f"%a: memref<?x{element}>")))
    assert text.count("nvvm.shfl.sync") == count


@pytest.mark.parametrize(("kind", "count"), [("i24", 1), ("i33", 2), ("i128", 4), ("i200", 8)])
def test_threads_exchange_integers_of_any_width(kind: str, count: int) -> None:
    """In parts of 64 bits, of which each is two instructions."""
    body = f"%one = arith.constant 1 : i32\n%w = arith.constant 32 : i32\n%v = arith.index_cast %i : index to {kind}\n"
    body += f"%r, %there = gpu.shuffle down %v, %one, %w : {kind}\n%g = arith.index_cast %r : {kind} to index\n"
    text = str(lowered(kernel(f"{body}memref.store %z, %a[%g] : memref<?xf32>")))
    assert text.count("nvvm.shfl.sync") == count


@pytest.mark.parametrize(
    ("kind", "how", "extension"),
    [
        ("f16", "add", "fpext"),
        ("bf16", "maximumf", "fpext"),
        ("i8", "minsi", "sext"),
        ("i8", "maxui", "zext"),
        ("i16", "xor", "zext"),
        ("i48", "mul", "zext"),
    ],
)
def test_blocks_reduce_numbers_of_any_width(kind: str, how: str, extension: str) -> None:
    body = f"%v = memref.load %a[%i] : memref<?x{kind}>\n%r = gpu.all_reduce {how} %v {{}} : ({kind}) -> {kind}\n"
    body += f"memref.store %r, %a[%i] : memref<?x{kind}>"
    text = str(lowered(kernel(body, f"%a: memref<?x{kind}>")))
    assert f"llvm.{extension} " in text
    assert "nvvm.shfl.sync" in text


def test_narrow_reductions_of_a_body_are_refused() -> None:
    body = "%v = memref.load %a[%i] : memref<?xf16>\n%r = gpu.all_reduce %v {\n^bb0(%p: f16, %q: f16):\n"
    body += (
        "%s = arith.mulf %p, %q : f16\ngpu.yield %s : f16\n} : (f16) -> f16\nmemref.store %r, %a[%i] : memref<?xf16>"
    )
    with pytest.raises(LoweringError) as caught:
        lowered(kernel(body, "%a: memref<?xf16>"))
    assert "k.mlir:7:6: error: 'gpu.all_reduce' on 'f16': threads exchange 32 or 64 bits" in caught.value.text()


@pytest.mark.parametrize("kind", ["f16", "f32", "f64", "vector<4xf32>", "vector<2xf64>"])
def test_sines_with_cosines_are_functions_of_the_device(kind: str) -> None:
    body = f"%v = memref.load %a[%i] : memref<?x{kind}>\n%s, %c = math.sincos %v : {kind}\n"
    body += f"%r = arith.addf %s, %c : {kind}\nmemref.store %r, %a[%i] : memref<?x{kind}>"
    text = str(lowered(kernel(body, f"%a: memref<?x{kind}>")))
    assert "@__nv_sin" in text
    assert "llvm.intr" not in text


def translated(source: str, tools: Toolchain) -> str:
    with mlir.context() as ctx:
        lowering = Lowering(device.isolate(mlir.parse(source.encode(), PATH, ctx)))
        return binary.translate(lowering.lower(DeviceJob(target("sm_90"), (8, 0))), tools).decode()


BODIES = {
    "vector of one dimension": "%v = vector.load %a[%i] : memref<?xf32>, vector<4xf32>\n"
    "vector.store %v, %a[%i] : memref<?xf32>, vector<4xf32>",
    "transfer past the end": "%v = vector.transfer_read %a[%i], %z : memref<?xf32>, vector<4xf32>\n"
    "vector.transfer_write %v, %a[%i] : vector<4xf32>, memref<?xf32>",
    "masked": "%m = vector.create_mask %i : vector<4xi1>\n"
    "%v = vector.mask %m { vector.transfer_read %a[%i], %z : memref<?xf32>, vector<4xf32> } : vector<4xi1>"
    " -> vector<4xf32>\nvector.store %v, %a[%i] : memref<?xf32>, vector<4xf32>",
    "gather": "%at = arith.constant dense<[0, 2, 4, 1]> : vector<4xi32>\n"
    "%m = arith.constant dense<true> : vector<4xi1>\n"
    "%p = vector.broadcast %z : f32 to vector<4xf32>\n"
    "%v = vector.gather %a[%i][%at], %m, %p : memref<?xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>"
    " into vector<4xf32>\nvector.store %v, %a[%i] : memref<?xf32>, vector<4xf32>",
    "reduction": "%v = vector.load %a[%i] : memref<?xf32>, vector<4xf32>\n"
    "%s = vector.reduction <add>, %v : vector<4xf32> into f32\nmemref.store %s, %a[%i] : memref<?xf32>",
    "math on vectors": "%v = vector.load %a[%i] : memref<?xf32>, vector<4xf32>\n%w = math.exp %v : vector<4xf32>\n"
    "vector.store %w, %a[%i] : memref<?xf32>, vector<4xf32>",
    "linalg": "linalg.fill ins(%z : f32) outs(%a : memref<?xf32>)",
    "affine loop": "affine.for %k = 0 to 8 { affine.store %z, %a[%k] : memref<?xf32> }",
    "parallel loop": "%c1 = arith.constant 1 : index\n"
    "scf.parallel (%p) = (%c0) to (%i) step (%c1) { memref.store %z, %a[%p] : memref<?xf32> }",
    "integer power": "%p = arith.index_cast %i : index to i32\n%q = math.ipowi %p, %p : i32\n"
    "%f = arith.sitofp %q : i32 to f32\nmemref.store %f, %a[%i] : memref<?xf32>",
    "integer powers of a vector": "%b = arith.index_cast %i : index to i32\n"
    "%v = vector.broadcast %b : i32 to vector<4xi32>\n"
    "%q = math.ipowi %v, %v : vector<4xi32>\n%f = arith.sitofp %q : vector<4xi32> to vector<4xf32>\n"
    "vector.store %f, %a[%i] : memref<?xf32>, vector<4xf32>",
    "power of an index": "%q = math.ipowi %i, %i : index\nmemref.store %z, %a[%q] : memref<?xf32>",
    "clamp and truncation": "%x = memref.load %a[%i] : memref<?xf32>\n%t = math.trunc %x : f32\n"
    "%c = math.clampf %t to [%z, %x] : f32\nmemref.store %c, %a[%i] : memref<?xf32>",
    "subgroup reduction": "%x = memref.load %a[%i] : memref<?xf32>\n%r = gpu.subgroup_reduce add %x : (f32) -> (f32)\n"
    "memref.store %r, %a[%i] : memref<?xf32>",
    "block reduction": "%x = memref.load %a[%i] : memref<?xf32>\n%r = gpu.all_reduce add %x {} : (f32) -> (f32)\n"
    "memref.store %r, %a[%i] : memref<?xf32>",
    "atomic": "%r = memref.atomic_rmw addf %z, %a[%i] : (f32, memref<?xf32>) -> f32",
    "printf": 'gpu.printf "%f\\n", %z : f32',
    "dynamic shared memory": "%s = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>\n"
    "%v = memref.view %s[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to "
    "memref<32xf32, #gpu.address_space<workgroup>>\n"
    "memref.store %z, %v[%i] : memref<32xf32, #gpu.address_space<workgroup>>",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_become_llvm_dialect(body: str) -> None:
    def foreign(module: mlir.Module) -> set[str]:
        dialects = {name.split(".")[0] for name in mlir.op_names(module)}
        return dialects - {"llvm", "nvvm", "builtin", "gpu"}

    assert lowered(kernel(body), look=foreign) == set()


WIDE = {
    "load and store": "%v = vector.load %a[%i, %c0] : memref<?x8xf32>, vector<2x4xf32>\n"
    "vector.store %v, %a[%i, %c0] : memref<?x8xf32>, vector<2x4xf32>",
    "transposing transfer": "%v = vector.transfer_read %a[%i, %c0], %z "
    "{permutation_map = affine_map<(d0, d1) -> (d1, d0)>} : memref<?x8xf32>, vector<2x4xf32>\n"
    "vector.transfer_write %v, %a[%i, %c0] : vector<2x4xf32>, memref<?x8xf32>",
    "contraction": "%v = vector.transfer_read %a[%i, %c0], %z : memref<?x8xf32>, vector<4x4xf32>\n"
    "%r = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, "
    'affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} %v, %v, %v : '
    "vector<4x4xf32>, vector<4x4xf32> into vector<4x4xf32>\n"
    "vector.transfer_write %r, %a[%i, %c0] : vector<4x4xf32>, memref<?x8xf32>",
}


@pytest.mark.parametrize("body", WIDE.values(), ids=WIDE)
def test_vectors_of_two_dimensions(body: str) -> None:
    text = lowered(kernel(body, "%a: memref<?x8xf32>"))
    assert "vector." not in str(text)


def test_all_parameters_of_a_memref_by_default() -> None:
    assert "llvm.func @f(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: i64, %arg3: i64, %arg4: i64)" in str(
        lowered(kernel(""))
    )


def test_vectors_are_aligned_by_element() -> None:
    assert "alignment = 4" in str(lowered(kernel(BODIES["vector of one dimension"])))


def test_shared_memory_can_be_accessed_widely() -> None:
    memory = [f"memref<{size}, {WORKGROUP}>" for size in ("3xi8", "64xf16", "8xf32")]
    source = (
        f'gpu.module @k {{\nmemref.global "private" @g : {memory[2]}\n'
        f"gpu.func @f(%i: index, %x: i8, %y: f16, %z: f32) workgroup(%a: {memory[0]}, %b: {memory[1]}, "
        f"%c: {memory[1]} {{llvm.align = 128 : i64}}) kernel {{\n%g = memref.get_global @g : {memory[2]}\n"
        f"memref.store %x, %a[%i] : {memory[0]}\nmemref.store %y, %b[%i] : {memory[1]}\n"
        f"memref.store %y, %c[%i] : {memory[1]}\nmemref.store %z, %g[%i] : {memory[2]}\ngpu.return }} }}"
    )
    text = str(lowered(source))
    globals_ = re.findall(r"llvm.mlir.global .*@(\w+)\(\) \{(.*)\}", text)
    found = {name: re.findall(r"alignment = (\d+)", attributes) for name, attributes in globals_}
    assert found == {"g": ["16"], "__wg_f_0": [], "__wg_f_1": ["16"], "__wg_f_2": ["128"]}


def test_dynamic_shared_memory_lies_behind_static_one() -> None:
    source = kernel(BODIES["dynamic shared memory"]).replace(
        ") kernel", f") workgroup(%w: memref<8xf32, {WORKGROUP}>) kernel"
    )
    assert re.search(
        r"llvm.mlir.global external @__dynamic_shmem__0\(\) \{[^}]*\} : !llvm.array<0 x i8>", str(lowered(source))
    )
    own = (
        "gpu.module @k {\nllvm.mlir.global internal @own() {addr_space = 3 : i32} : !llvm.array<0 x f32>\n"
        "llvm.mlir.global internal @static() {addr_space = 3 : i32} : !llvm.array<4 x f32>\n"
        "llvm.func @f() attributes {gpu.kernel, nvvm.kernel} { llvm.return } }"
    )
    assert re.findall(r"llvm.mlir.global (\w+) @(own|static)", str(lowered(own))) == [
        ("external", "own"),
        ("internal", "static"),
    ]


def test_targets_of_the_source_are_replaced() -> None:
    source = kernel("").replace("@k {", '@k [#nvvm.target<chip = "sm_50">] {')
    text = str(lowered(source, "sm_80"))
    assert 'chip = "sm_80"' in text
    assert "sm_50" not in text


def test_assertions_name_the_file_without_its_folder() -> None:
    text = str(lowered(kernel('%ok = arith.cmpi ne, %i, %c0 : index\ncf.assert %ok, "first thread"')))
    assert '"k.mlir\\00"' in text
    assert "kernels/" not in text


def test_the_input_is_not_touched() -> None:
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(kernel("").encode(), PATH, ctx))
        before = str(isolated)
        Lowering(isolated).lower(DeviceJob(target("sm_80"), (8, 8)))
        assert str(isolated) == before


def test_stages_are_dumped() -> None:
    seen: list[str] = []
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(kernel("").encode(), PATH, ctx))
        Lowering(isolated).lower(DeviceJob(target("sm_80"), (8, 8)), lambda stage, module: seen.append(stage))
    assert seen == ["device-sm_80"]


NEEDS = {
    "cp.async": ("nvvm.cp.async.commit.group", "", "sm_75", "sm_80", "sm_80 or newer"),
    "redux": (
        "%p = arith.constant 1 : i32\n%q = nvvm.redux.sync add %p, %p : i32 -> i32",
        "",
        "sm_75",
        "sm_80",
        "sm_80 or newer",
    ),
    "clusters": ("nvvm.cluster.arrive", "", "sm_89", "sm_90", "sm_90 or newer"),
    "cluster ids": ("%q = gpu.cluster_id x", "", "sm_80", "sm_90", "sm_90 or newer"),
    "cluster ids, read": ("%q = nvvm.read.ptx.sreg.nclusterid.x : i32", "", "sm_89", "sm_90", "sm_90 or newer"),
    "barrier of a cluster": ("nvvm.memory.barrier <cluster>", "", "sm_89", "sm_90", "sm_90 or newer"),
    "fp8": (
        "%q = nvvm.convert.f32x2.to.f8x2 %z, %z {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>}"
        " : i16 (f8E4M3FN)",
        "",
        "sm_80",
        "sm_89",
        "sm_89 or newer",
    ),
    "scales of fp8": (
        "%q = nvvm.convert.f32x2.to.f8x2 %z, %z {rnd = #nvvm.fp_rnd_mode<rz>} : i16 (f8E8M0FNU)",
        "",
        "sm_100",
        "sm_120a",
        "sm_100a or newer",
    ),
    "float redux": (
        "%p = arith.constant 1 : i32\n%q = nvvm.redux.sync fmin %z, %p : f32 -> f32",
        "",
        "sm_120a",
        "sm_100f",
        "sm_100a or sm_103a",
    ),
    "tensor memory": ("nvvm.tcgen05.wait <load>", "", "sm_100", "sm_100a", "sm_100a or sm_101a"),
    "wgmma": ("nvvm.wgmma.fence.aligned", "", "sm_90", "sm_90a", "needs sm_90a"),
    "wgmma on the next generation": ("nvvm.wgmma.fence.aligned", "", "sm_100a", "sm_90a", "needs sm_90a"),
    "registers": ("nvvm.setmaxregister increase 232", "", "sm_90", "sm_100a", "sm_90a or newer"),
    "mma of Ampere": (
        "%r = nvgpu.mma.sync (%x, %y, %w) {mmaShape = [16, 8, 16]} : "
        "(vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf16>) -> vector<2x2xf16>",
        ", %x: vector<4x2xf16>, %y: vector<2x2xf16>, %w: vector<2x2xf16>",
        "sm_75",
        None,
        "sm_80 or newer",
    ),
    "tf32": (
        "%r = nvgpu.mma.sync (%x, %y, %w) {mmaShape = [16, 8, 4], tf32Enabled} : "
        "(vector<2x1xf32>, vector<1x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>",
        ", %x: vector<2x1xf32>, %y: vector<1x1xf32>, %w: vector<2x2xf32>",
        "sm_75",
        None,
        "sm_80 or newer",
    ),
}


@pytest.mark.parametrize(("body", "more", "unfit", "fit", "need"), NEEDS.values(), ids=NEEDS)
def test_needs_of_operations(body: str, more: str, unfit: str, fit: str | None, need: str) -> None:
    source = kernel(body, f"%a: memref<?xf32>{more}")
    with pytest.raises(ArchUnfit, match=f"{PATH}: the code needs .*, but {unfit} was asked for") as caught:
        lowered(source, unfit)
    assert need in caught.value.text()
    assert caught.value.diagnostics[0].file == PATH
    assert caught.value.diagnostics[0].line >= 6
    assert "aot.toml" in caught.value.hint
    if fit is not None:
        lowered(source, fit)


def test_the_same_operation_may_fit_in_another_form() -> None:
    lowered(kernel("nvvm.fence.proxy {kind = #nvvm.proxy_kind<alias>}"), "sm_75")
    with pytest.raises(ArchUnfit):
        lowered(kernel("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}"), "sm_75")


def test_copies_of_our_own_kernels_are_plain_ones_on_old_targets() -> None:
    pointers = "%s: !llvm.ptr<3>, %g: !llvm.ptr<1>"
    copy = "nvvm.cp.async.shared.global %s, %g, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>"
    source = kernel(f"{copy}\nnvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 0", pointers)
    ours = source.replace(") kernel {", ') kernel attributes {aot.schedule = "row"} {')
    assert "cp.async" in str(lowered(ours, "sm_80"))
    old = str(lowered(ours, "sm_75"))
    assert "cp.async" not in old
    assert re.search(r"llvm.load .*alignment = 16.*vector<4xi32>", old)
    with pytest.raises(ArchUnfit):
        lowered(source, "sm_75")


def test_one_message_shows_all_places_and_the_strongest_need() -> None:
    with pytest.raises(ArchUnfit) as caught:
        lowered(kernel("nvvm.cluster.arrive\nnvvm.wgmma.fence.aligned\nnvvm.wgmma.commit.group.sync.aligned"), "sm_80")
    assert [each.line for each in caught.value.diagnostics] == [7, 8]
    assert "needs sm_90a, but" in caught.value.message


LEFT = {
    "tensors": (
        "%t = tensor.empty() : tensor<4xf32>\n%e = tensor.extract %t[%i] : tensor<4xf32>\n"
        "memref.store %e, %a[%i] : memref<?xf32>",
        "'tensor.empty'",
    ),
    "small floats": (
        "%m = memref.alloca() : memref<4xf8E4M3FN>\n%e = memref.load %m[%i] : memref<4xf8E4M3FN>\n"
        "%f = arith.extf %e : f8E4M3FN to f32\nmemref.store %f, %a[%i] : memref<?xf32>",
        "f8E4M3FN",
    ),
}


@pytest.mark.parametrize(("body", "words"), LEFT.values(), ids=LEFT)
def test_what_cannot_be_lowered_is_told_with_its_place(body: str, words: str) -> None:
    with pytest.raises(LoweringError) as caught:
        lowered(kernel(body))
    assert words in caught.value.text()
    assert caught.value.diagnostics[0].line >= 6
    assert caught.value.diagnostics[0].source_line


SWITCH = """llvm.func @f(%x: i32, %a: f32, %b: f32) -> f32 {
  llvm.switch %x : i32, ^d [0: ^p(%a : f32), 1: ^q(%b : f32), 2: ^p(%b : f32), 3: ^q(%a : f32), 4: ^d, 5: ^p(%a : f32)]
^p(%u: f32):
  llvm.return %u : f32
^q(%v: f32):
  llvm.return %b : f32
^d:
  llvm.return %a : f32
}"""


def test_no_switch_hands_values_to_a_block_twice() -> None:
    with mlir.context() as ctx:
        module = mlir.parse(SWITCH.encode(), PATH, ctx)
        switchblocks.separate(module)
        mlir.verify(module, "switchblocks")
        text = str(module)
    assert re.findall(r"(\d): (\^bb\d\(%\w+|\^bb\d)", text) == [
        ("0", "^bb1(%arg1"),
        ("1", "^bb2(%arg2"),
        ("2", "^bb4(%arg2"),
        ("3", "^bb5(%arg1"),
        ("4", "^bb3"),
        ("5", "^bb6(%arg1"),
    ]
    assert re.findall(r"llvm.br (\^bb\d)", text) == ["^bb1", "^bb2", "^bb1"]


def test_the_same_text_whatever_lies_in_memory(tools: Toolchain) -> None:
    """MLIR would make the blocks behind a switch in the order of their addresses."""
    body = "%l = memref.load %a[%i] : memref<?xf32>\n%s = scf.index_switch %i -> f32\n"
    body += cases("%a[%c0] : memref<?xf32>")
    body += "default { scf.yield %l : f32 }\nmemref.store %s, %a[%i] : memref<?xf32>"

    def texts(module: mlir.Module) -> set[bytes]:
        found, kept = set(), []
        for count in range(6):
            kept.append([bytes(41 * number) for number in range(50 * count)])
            found.add(binary.translate(module, tools))
        return found

    made = lowered(kernel(body), look=texts)
    assert isinstance(made, set)
    assert len(made) == 1
