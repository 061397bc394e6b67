"""Images and fatbins: what is in them, what ptxas says about them, and what goes wrong."""

from __future__ import annotations

import dataclasses
import io
import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from aot import mlir, process
from aot.dump import Dump
from aot.engine import forked
from aot.engine.forked import Alone
from aot.errors import AotError, ArchUnfit, CompilerCrash, LoweringError, MismatchError, ToolMissing, UsageError
from aot.fatbins import binary, cubin, fatbin, images, ptxas, ptxtext
from aot.fatbins.binary import BuiltImage, Order
from aot.fatbins.fatbin import Given, Part
from aot.fatbins.images import Bench
from aot.fatbins.ptxtext import Header
from aot.fatbins.samecode import same_code
from aot.lower.gpumodule import device
from aot.lower.gpumodule.device import DeviceJob, Lowering
from aot.model import FatBinary
from aot.settings.selection import Pick
from aot.targets import arch, archlist
from aot.targets.arch import target
from aot.tools import toolchain
from aot.tools.toolchain import Toolchain

PATH = "kernels/k.mlir"
SHARED = "memref<64xf32, #gpu.address_space<workgroup>>"
TWO_KERNELS = f"""
gpu.module @k {{
  gpu.func @big(%a: memref<?xf64>, %n: i32) workgroup(%w: {SHARED})
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %t = gpu.thread_id x
    %own = memref.alloca() : memref<300xf64>
    %x = memref.load %a[%t] : memref<?xf64>
    %f = arith.truncf %x : f64 to f32
    memref.store %f, %w[%t] : {SHARED}
    gpu.barrier
    memref.store %x, %own[%t] : memref<300xf64>
    %c = arith.index_cast %n : i32 to index
    %z = memref.load %own[%c] : memref<300xf64>
    %g = memref.load %w[%c] : {SHARED}
    %h = arith.extf %g : f32 to f64
    %r = arith.addf %h, %z : f64
    memref.store %r, %a[%t] : memref<?xf64>
    gpu.return
  }}
  gpu.func @empty(%a: memref<?xf32>) kernel {{
    gpu.return
  }}
}}
"""
TYPES = [(kind, "arith.addf", "arith.maximumf", "addf") for kind in ("f16", "bf16", "f32", "f64")]
TYPES += [(kind, "arith.muli", "arith.maxsi", "maxs") for kind in ("i32", "i64")]
EMPTY = "gpu.module @k { gpu.func @f(%a: memref<?xf32>) kernel { gpu.return } }"


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    return toolchain.find(environment={})


def build(
    source: str, archs: str, tools: Toolchain, *, lineinfo: bool = False, quick: bool = False
) -> tuple[BuiltImage, ...]:
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(source.encode(), PATH, ctx))
        picks = [Pick(each, each) for each in archlist.parse(archs).targets]
        return tuple(images.build(isolated, picks, Bench(PATH, tools, Dump(None), Alone(), lineinfo, quick)))


ALL = "75,80,86,89,90,90a,100,100a,103,110,120"


@pytest.fixture(scope="module")
def built(tools: Toolchain) -> tuple[BuiltImage, ...]:
    return build(TWO_KERNELS, f"{ALL},75+PTX", tools)


@pytest.fixture(scope="module")
def merged(built: tuple[BuiltImage, ...]) -> FatBinary:
    return binary.merge("two", built)


def test_one_image_per_target(merged: FatBinary) -> None:
    names = [each.target for each in merged.images]
    assert names == [f"sm_{word}" for word in ALL.split(",")] + ["compute_75"]
    assert [entry.target for entry in fatbin.entries(merged.data)] == names
    assert [entry.kind for entry in fatbin.entries(merged.data)] == [each.kind for each in merged.images]


def test_ptx_is_written_at_its_lowest_version(merged: FatBinary) -> None:
    assert merged.images[-1].ptx_version == "6.3"


def test_the_same_bytes_twice(merged: FatBinary, tools: Toolchain) -> None:
    assert binary.merge("two", build(TWO_KERNELS, f"{ALL},75+PTX", tools)) == merged


def test_usage_of_every_kernel_and_cubin(merged: FatBinary) -> None:
    usage = {(kernel, name): used for kernel, name, used in merged.usage}
    assert len(usage) == 2 * len(ALL.split(","))
    for word in ALL.split(","):
        big, empty = usage["big", f"sm_{word}"], usage["empty", f"sm_{word}"]
        assert big.static_shared_bytes == 256
        assert big.local_bytes >= 2400
        assert 8 <= big.registers <= 64
        assert (big.max_threads, empty.max_threads) == (128, 1024)
        assert empty.spill_bytes == 0


def test_registers_are_those_of_the_cubin(built: tuple[BuiltImage, ...]) -> None:
    for each in built[:-1]:
        found = {kernel.name: (kernel.registers, kernel.code_bytes) for kernel in cubin.kernels(each.data)}
        assert found == {name: (used.registers, used.code_bytes) for name, used in each.usage}
        assert 0 < found["empty"][1] < found["big"][1] < len(each.data)


def test_numbers_of_cubins(built: tuple[BuiltImage, ...]) -> None:
    assert [f"sm_{cubin.number(each.data)}" for each in built[:-1]] == [
        re.sub("a$", "", each.image.target) for each in built[:-1]
    ]


@pytest.mark.parametrize("length", [0, 5, 40, 100])
def test_what_is_no_whole_cubin_is_told(built: tuple[BuiltImage, ...], length: int) -> None:
    with pytest.raises(LoweringError, match="not a cubin: "):
        cubin.kernels(built[0].data[:length])


def test_a_damaged_cubin_is_told_or_read(built: tuple[BuiltImage, ...]) -> None:
    """Whatever byte is another one, no other error comes of it."""
    told, rng = [], random.Random(1)
    for _ in range(2000):
        damaged = bytearray(built[0].data)
        damaged[rng.randrange(len(damaged))] ^= rng.randrange(1, 256)
        try:
            cubin.kernels(bytes(damaged))
        except LoweringError as error:
            told.append(error.message)
    assert len(told) > 20
    assert all(each.startswith("not a cubin: ") for each in told)


def test_one_text_is_for_all_images_where_building_is_to_be_quick(tools: Toolchain) -> None:
    """Though LLVM writes products and sums of bf16 for 9.0 otherwise than for 8.0."""
    code = """gpu.module @k { gpu.func @f(%a: memref<?xbf16>) kernel {
      %t = gpu.thread_id x
      %x = memref.load %a[%t] : memref<?xbf16>
      %y = arith.mulf %x, %x : bf16
      memref.store %y, %a[%t] : memref<?xbf16>
      gpu.return
    } }"""
    texts: dict[bool, set[str]] = {}
    for quick in (False, True):
        made = build(code, "80,86,90,90a,100", tools, quick=quick)
        assert [f"sm_{cubin.number(each.data)}" for each in made] == ["sm_80", "sm_86", "sm_90", "sm_90", "sm_100"]
        assert [re.search(r"\.target (\w+)", each.ptx)[1] for each in made] == [each.image.target for each in made]  # type: ignore[index]
        assert [re.search(r"aot_image = (\d)", each.ptx)[1] for each in made[1:]] == ["1", "2", "3", "4"]  # type: ignore[index]
        texts[quick] = {each.ptx.partition(".entry")[2] for each in made}
    assert (len(texts[True]), len(texts[False])) == (1, 2)


def test_each_image_knows_its_position(built: tuple[BuiltImage, ...]) -> None:
    assert [re.search(r"aot_image = (\d+)", each.ptx) is not None for each in built] == [False] + [True] * 11
    assert ".const .align 4 .u32 aot_image = 11;" in built[-1].ptx


def test_the_position_costs_the_kernels_nothing(tools: Toolchain, built: tuple[BuiltImage, ...]) -> None:
    with_position = built[1].ptx
    declared = next(line for line in with_position.splitlines() if "aot_image" in line)
    without = with_position.replace(declared, "")
    assert binary.cubin(without.encode(), Order(PATH, target("sm_80"), "sm_80", tools)).usage == built[1].usage


def test_what_is_shared_is_what_llvm_would_write(tools: Toolchain) -> None:
    """Of code with arithmetic of all types and atomics, for every architecture that another one speaks for."""
    source = kernel_of_all_types()
    with mlir.context() as ctx:
        lowering = Lowering(device.isolate(mlir.parse(source.encode(), PATH, ctx)))
        own = {
            name: binary.translate(lowering.lower(DeviceJob(target(name), (8, 8))), tools)
            for name in ("sm_80", "sm_86", "sm_87", "sm_89")
        }
    for name, text in own.items():
        assert same_code(target(name), target("sm_80"), old=False)
        assert ptxtext.adapted(own["sm_80"], Header(name, (8, 8), 0)) == text


def kernel_of_all_types(types: Sequence[tuple[str, str, str, str]] = TYPES, *, atomics: bool = True) -> str:
    body = "".join(
        f"%x{n} = memref.load %a{n}[%i] : memref<?x{kind}>\n%y{n} = {add} %x{n}, %x{n} : {kind}\n"
        f"%z{n} = {mul} %y{n}, %x{n} : {kind}\nmemref.store %z{n}, %a{n}[%i] : memref<?x{kind}>\n"
        for n, (kind, add, mul, _) in enumerate(types)
    )
    body += "".join(
        f"%r{n} = memref.atomic_rmw {atomic} %z{n}, %a{n}[%i] : ({kind}, memref<?x{kind}>) -> {kind}\n"
        for n, (kind, _, _, atomic) in enumerate(types if atomics else ())
    )
    arguments = ", ".join(f"%a{n}: memref<?x{kind}>" for n, (kind, *_) in enumerate(types))
    return f"gpu.module @k {{ gpu.func @f({arguments}) kernel {{\n%i = gpu.thread_id x\n{body}gpu.return }} }}"


MOVED = """
gpu.module @k {{ gpu.func @f(%a: memref<?xbf16>, %b: memref<?xi16>, %c: memref<?xf32>) kernel {{
  %i = gpu.thread_id x
  %f = vector.load %c[%i] : memref<?xf32>, vector<2xf32>
  {}
  %zero = arith.constant 0.0 : f32
  %first = vector.extract %f[0] : f32 from vector<2xf32>
  %p = arith.cmpf olt, %first, %zero : f32
  %one = memref.load %b[%i] : memref<?xi16>
  %other = arith.constant 7 : i16
  %chosen = arith.select %p, %one, %other : i16
  memref.store %chosen, %b[%i] : memref<?xi16>
  gpu.return }} }}
"""
WIDENED = """
  %x = vector.load %a[%i] : memref<?xbf16>, vector<2xbf16>
  %y = arith.extf %x : vector<2xbf16> to vector<2xf32>
  %s = arith.mulf %y, %y : vector<2xf32>"""
NARROWED = """
  %n = arith.truncf {} : vector<2xf32> to vector<2xbf16>
  vector.store %n, %a[%i] : memref<?xbf16>, vector<2xbf16>"""
TRAITS = {
    "all that is old": (kernel_of_all_types([row for row in TYPES if row[0] != "bf16"], atomics=False), True),
    "i16 that is moved, bf16 that is widened": (
        MOVED.format(WIDENED + "\n  vector.store %s, %c[%i] : memref<?xf32>, vector<2xf32>"),
        True,
    ),
    "bf16 that is narrowed": (MOVED.format(NARROWED.format("%f")), True),
    "bf16 between both": (MOVED.format(WIDENED + NARROWED.format("%s")), False),
    "bf16": (kernel_of_all_types([row for row in TYPES if row[0] == "bf16"], atomics=False), False),
    "16-bit integers": (kernel_of_all_types([("i16", "arith.addi", "arith.maxsi", "maxs")], atomics=False), False),
    "atomics": (kernel_of_all_types([row for row in TYPES if row[0] == "f32"]), False),
}


@pytest.mark.parametrize(("source", "old"), TRAITS.values(), ids=TRAITS)
def test_what_9_0_shares_with_8_0_is_what_llvm_would_write(source: str, old: bool, tools: Toolchain) -> None:
    with mlir.context() as ctx:
        lowering = Lowering(device.isolate(mlir.parse(source.encode(), PATH, ctx)))
        names = ("sm_80", "sm_90", "sm_90a")
        own = [binary.translate(lowering.lower(DeviceJob(target(name), (8, 8))), tools) for name in names]
        assert lowering.is_old(lowering.form(target("sm_80"))) is old
    assert same_code(target("sm_90"), target("sm_80"), old=old) is old
    assert not old or [ptxtext.adapted(own[0], Header(name, (8, 8), 0)) for name in names] == own
    _, image = build(source, "80,90", tools)
    assert image.ptx.encode() == ptxtext.adapted(own[1], Header("sm_90", (8, 8), 1))


APART = """
gpu.module @k {{
  gpu.func @first(%a: memref<?xf32>) kernel {{
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<?xf32>
    {more}
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }}
  gpu.func @newer(%a: memref<?xf32>) kernel attributes {{aot.needs = "sm_90"}} {{
    %i = gpu.cluster_id x
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }}
  gpu.func @last(%a: memref<?xf32>) kernel {{
    %i = gpu.block_id x
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("more", "translations"),
    [
        ("", [["first", "last"], ["newer"]]),
        ("%b = arith.truncf %x : f32 to bf16\n%c = arith.addf %b, %b : bf16\n%y = arith.extf %c : bf16 to f32\n"
         "memref.store %y, %a[%i] : memref<?xf32>", [["first", "last"], ["first", "last"], ["newer"]]),
        ('gpu.printf "%f", %x : f32', [["first", "last"], ["first", "newer", "last"], ["newer"]]),
    ],
    ids=["old", "new", "calls"],
)  # fmt: skip
def test_kernels_that_images_share_are_translated_once(
    more: str, translations: list[list[str]], tools: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    translate, found = binary.translate, []

    def watched(module: mlir.Module, tools: Toolchain) -> bytes:
        text = translate(module, tools)
        found.append(re.findall(r"\.entry (\w+)", text.decode()))
        return text

    monkeypatch.setattr(binary, "translate", watched)
    older, newer = build(APART.format(more=more), "80,90", tools)
    assert sorted(found) == translations
    assert [name for name, _ in older.usage] == ["first", "last"]
    assert [name for name, _ in newer.usage] == ["first", "last", "newer"]
    with mlir.context() as ctx:
        lowering = Lowering(device.isolate(mlir.parse(APART.format(more=more).encode(), PATH, ctx)))
        whole = translate(lowering.lower(DeviceJob(target("sm_90"), (8, 8))), tools).decode()
    for name in ("first", "newer", "last"):
        assert (
            ptxtext.kernel(newer.ptx, name).partition(".entry")[2] == ptxtext.kernel(whole, name).partition(".entry")[2]
        )


WIDE = (
    "gpu.module @k { llvm.func @f(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {\n"
    "%x = llvm.load %p {alignment = 32 : i64} : !llvm.ptr<1> -> vector<8xf32>\n%y = llvm.fadd %x, %x : vector<8xf32>\n"
    "llvm.store %y, %p {alignment = 32 : i64} : vector<8xf32>, !llvm.ptr<1>\nllvm.return } }"
)


@pytest.mark.parametrize(("source", "shared"), [(EMPTY, True), (WIDE, False)], ids=["any version", "a later version"])
def test_ptx_is_the_text_of_a_cubin_where_its_lowest_version_has_all_of_it(
    source: str, shared: bool, tools: Toolchain
) -> None:
    cubin_of, newer = build(source, "100,100+PTX", tools)
    assert newer.image.ptx_version == "8.6"
    assert (cubin_of.image.ptx_version == "8.6") == shared
    assert ("st.global.v4.b64" in cubin_of.ptx) != shared
    assert "st.global.v4.b64" not in newer.ptx
    assert (newer.ptx.replace(" = 1;", ";") == cubin_of.ptx) == shared


def test_nothing_of_the_machine_is_in_an_image(merged: FatBinary, tools: Toolchain) -> None:
    for secret in (b"/tmp", str(tools.toolkit).encode(), PATH.encode(), b"TimeInMs"):
        assert secret not in merged.data


MODES = ["none", "fast", "size"]


def test_compression(built: tuple[BuiltImage, ...]) -> None:
    sizes = []
    for mode in MODES:
        data = binary.merge("two", built, mode).data
        assert all(entry.compressed is (mode != "none") for entry in fatbin.entries(data))
        sizes.append(len(data))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] // 2


COMPRESSION = {"CUDA 13": ((13, 0), "size"), "CUDA 12": ((12, 9), "none")}


@pytest.mark.parametrize(("cuda", "mode"), COMPRESSION.values(), ids=COMPRESSION)
def test_automatic_compression_follows_the_driver(cuda: tuple[int, int], mode: str, tools: Toolchain) -> None:
    assert fatbin.compression("auto", dataclasses.replace(tools, cuda=cuda)) == mode


def test_unknown_compression(tools: Toolchain) -> None:
    with pytest.raises(UsageError, match="'zip'; choose one of none, fast, size, auto"):
        fatbin.compression("zip", tools)


def test_two_images_of_one_target_are_our_mistake(built: tuple[BuiltImage, ...]) -> None:
    with pytest.raises(AssertionError, match="two images of one target"):
        binary.merge("two", [built[1], built[1]])


def test_a_cubin_of_another_architecture_is_refused(built: tuple[BuiltImage, ...]) -> None:
    with pytest.raises(LoweringError, match="nvFatbin refuses"):
        fatbin.merge("two", [Part("sm_90", built[1].data)])


def test_the_module_gets_the_fatbin_back(merged: FatBinary) -> None:
    with mlir.context() as ctx:
        module = mlir.parse(TWO_KERNELS.encode(), PATH, ctx)
        binary.embed(module, merged)
        mlir.verify(module, "embedding")
        assert mlir.op_names(module) == {"builtin.module", "gpu.binary"}
        again = mlir.parse(str(module).encode(), PATH, ctx)
        op = next(op for op in mlir.walk(again) if op.name == "gpu.binary")
        assert mlir.symbol_name(op) == "k"
        objects = mlir.bindings().ArrayAttr(op.attributes["objects"])
        assert [mlir.dialect("gpu").ObjectAttr(each).object for each in objects] == [merged.data]


def test_ptxas_readable_inspection(merged: FatBinary, tools: Toolchain, tmp_path: Path) -> None:
    assert tools.cuobjdump is not None
    file = tmp_path / "two.fatbin"
    file.write_bytes(merged.data)
    listed = process.check([tools.cuobjdump, "--list-elf", "--list-ptx", file]).stdout.decode()
    assert "two.sm_90a.cubin" in listed
    assert "two.sm_75.ptx" in listed


TENSOR_COPY = """
gpu.module @k {
  llvm.func @f(%bar: !llvm.ptr<3>, %map: !llvm.ptr, %to: !llvm.ptr<7>, %i: i32) attributes {nvvm.kernel} {
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %bar, box[%i] : !llvm.ptr<7>, !llvm.ptr
    llvm.return
  }
}
"""


def test_ptx_gets_the_lowest_version_that_llvm_can_write_the_code_in(tools: Toolchain) -> None:
    assert target("compute_90").min_ptx == (7, 8)
    (found,) = build(TENSOR_COPY, "compute_90", tools)
    assert found.image.ptx_version == "8.0"
    assert "\n.version 8.0\n.target sm_90\n" in found.ptx


def assembly(text: str) -> str:
    """A source with a kernel of assembly on a word of shared memory."""
    body = f'llvm.inline_asm has_side_effects "{text}", "r" %n : (i32) -> ()'
    return f"gpu.module @k {{ llvm.func @f(%n: i32) attributes {{nvvm.kernel}} {{\n{body}\nllvm.return\n}} }}"


def test_ptx_gets_the_version_that_assembly_in_it_needs(tools: Toolchain) -> None:
    send = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $0, [$0];"
    for lineinfo in (False, True):
        assert build(assembly(send), "compute_90", tools, lineinfo=lineinfo)[0].image.ptx_version == "8.1"
    with pytest.raises(LoweringError, match=r"k\.mlir: ptxas .* refuses the code for compute_90:") as caught:
        build(assembly("nothing $0;"), "compute_90", tools)
    assert "nothing" in caught.value.diagnostics[0].message


DIRECTIVES = {
    "maxntid": ("known_block_size = array<i32: 32, 4, 2>", ".maxntid 32, 4, 2", 256),
    "reqntid": ("nvvm.reqntid = array<i32: 64, 2>", ".reqntid 64, 2", 128),
    "minctasm": ("nvvm.minctasm = 2 : i32", ".minnctapersm 2", 1024),
    "maxnreg": ("nvvm.maxnreg = 40 : i32", ".maxnreg 40", 1024),
    "cluster": ("nvvm.cluster_dim = array<i32: 2, 1, 1>", ".reqnctapercluster 2, 1, 1", 1024),
}


@pytest.mark.parametrize(("attribute", "directive", "threads"), DIRECTIVES.values(), ids=DIRECTIVES)
def test_launch_bounds_pass_through(attribute: str, directive: str, threads: int, tools: Toolchain) -> None:
    (found,) = build(EMPTY.replace("kernel {", f"kernel attributes {{{attribute}}} {{"), "90", tools)
    assert directive in found.ptx
    assert found.usage[0][1].max_threads == threads


def test_functions_that_kernels_call_are_no_kernels(tools: Toolchain) -> None:
    source = (
        "gpu.module @k { func.func @helper(%a: memref<?xf32>) { return }\n"
        "gpu.func @f(%a: memref<?xf32>) kernel { func.call @helper(%a) : (memref<?xf32>) -> ()\ngpu.return } }"
    )
    (found,) = build(source, "90", tools)
    assert [name for name, _ in found.usage] == ["f"]
    assert "helper" not in found.ptx


def test_a_kernel_that_llvm_dies_on_is_a_crash_with_the_source() -> None:
    def compute(mark: forked.Mark) -> bytes:
        with mlir.context(mark) as ctx:
            module = mlir.parse(EMPTY.encode(), PATH, ctx)
            mlir.run_passes(module, ["gpu.module(convert-gpu-to-nvvm)"], "lowering")
            mlir.run_passes(module, ["nvvm-attach-target{chip=sm_100 features=+ptx60}"], "lowering")
            mlir.run_passes(module, ["gpu-module-to-binary{format=isa}"], "translating")
        return b""

    outcome = forked.finish(forked.start(compute))
    assert process.died(outcome.done)
    message = process.crash(outcome.done, PATH, outcome.stage).message
    assert message.startswith(PATH)
    assert "in: translating: gpu-module-to-binary" in message
    assert "LLVM ERROR: PTX version 6.0 does not support target 'sm_100'" in message


def test_a_cuda_12_toolkit_gets_ptx_that_it_reads(tools: Toolchain) -> None:
    assert arch.cubin_ptx(target("sm_90"), toolchain.ptx_of_cuda((12, 4))) == (8, 4)
    assert arch.cubin_ptx(target("sm_90"), tools.ptx) == arch.CUBIN_PTX


# ------------------------------------------------------------------------- math functions

UNARY = (
    "exp", "tanh", "erf", "log", "sin", "cos", "exp2", "log2", "log1p", "expm1", "sqrt", "rsqrt", "ceil", "floor",
    "trunc", "round", "atan",
)  # fmt: skip
MATH_TYPES = ["f16", "bf16", "f32", "f64"]


@pytest.mark.parametrize("dtype", MATH_TYPES)
@pytest.mark.parametrize("archs", ["75,120", "80+PTX"])
def test_math_functions_are_linked(dtype: str, archs: str, tools: Toolchain) -> None:
    bodies = [f"%y = math.{name} %x : {dtype}" for name in UNARY]
    bodies.append(f"%y = math.powf %x, %x : {dtype}")
    kernels = "\n".join(
        f"gpu.func @f{number}(%a: memref<?x{dtype}>) kernel {{\n%i = gpu.thread_id x\n"
        f"%x = memref.load %a[%i] : memref<?x{dtype}>\n{body}\n"
        f"memref.store %y, %a[%i] : memref<?x{dtype}>\ngpu.return\n}}"
        for number, body in enumerate(bodies)
    )
    for each in build(f"gpu.module @k {{\n{kernels}\n}}", archs, tools):
        assert "__nv_" not in "".join(re.findall(r"\.extern.*?;", each.ptx, re.DOTALL))


def test_functions_of_libdevice_are_declared_in_any_dialect(tools: Toolchain) -> None:
    source = """
gpu.module @k {
  func.func private @__nv_sinf(f32) -> f32
  func.func private @__nv_ldexp(f64, i32) -> f64
  gpu.func @f(%a: memref<?xf32>, %b: memref<?xf64>, %n: i32) kernel {
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %y = func.call @__nv_sinf(%x) : (f32) -> f32
    memref.store %y, %a[%i] : memref<?xf32>
    %u = memref.load %b[%i] : memref<?xf64>
    %v = func.call @__nv_ldexp(%u, %n) : (f64, i32) -> f64
    memref.store %v, %b[%i] : memref<?xf64>
    gpu.return
  }
}
"""
    for each in build(source, "80,80+PTX", tools):
        assert not re.search(r"\.extern|__nv_|ciface", each.ptx)


def calling(function: str) -> str:
    return (
        f"gpu.module @k {{ llvm.func @{function}(f32) -> f32\n"
        "llvm.func @f(%p: !llvm.ptr) attributes {nvvm.kernel} {\n"
        f"%x = llvm.load %p : !llvm.ptr -> f32\n%y = llvm.call @{function}(%x) : (f32) -> f32\n"
        "llvm.store %y, %p : f32, !llvm.ptr\nllvm.return } }"
    )


@pytest.mark.parametrize("archs", ["80", "compute_80"])
def test_a_missing_libdevice_function_says_where_it_was_looked_for(archs: str, tools: Toolchain) -> None:
    without = dataclasses.replace(tools, libdevice=None)
    with pytest.raises(ToolMissing, match=r"__nv_nosuchf.*libdevice\.10\.bc, which does not exist") as caught:
        build(calling("__nv_nosuchf"), archs, without)
    assert PATH in caught.value.message


# ------------------------------------------------------------------------- failures


def inline(assembly: str) -> str:
    return (
        "gpu.module @k { llvm.func @fine() attributes {nvvm.kernel} { llvm.return }\n"
        f'llvm.func @guilty() attributes {{nvvm.kernel}} {{ llvm.inline_asm has_side_effects "{assembly}", "" '
        ": () -> ()\nllvm.return } }"
    )


LARGE = SHARED.replace("64x", "20000x")
FAILURES = {
    "nonsense": (inline("no.such.instruction;"), "80", LoweringError, 2, r"kernel 'guilty': .*no\.such"),
    "nonsense in PTX": (inline("no.such.instruction;"), "compute_80", LoweringError, 2, r"kernel 'guilty'"),
    "newer instruction": (inline("wgmma.fence.sync.aligned;"), "80", ArchUnfit, 2, r"kernel 'guilty': .*wgmma"),
    "unknown function": (calling("nowhere"), "80", LoweringError, 4, "a kernel calls 'nowhere', which is not defined"),
    "too much static shared memory": (
        f"gpu.module @k {{ gpu.func @f(%a: memref<?xf32>) workgroup(%w: {LARGE}) kernel {{\n%i = gpu.thread_id x\n"
        f"%x = memref.load %a[%i] : memref<?xf32>\nmemref.store %x, %w[%i] : {LARGE}\ngpu.barrier\n"
        f"%c = gpu.block_id x\n%y = memref.load %w[%c] : {LARGE}\nmemref.store %y, %a[%c] : memref<?xf32>\n"
        "gpu.return } }",
        "80",
        LoweringError,
        1,
        "too much shared data",
    ),
}


@pytest.mark.parametrize("lineinfo", [False, True])
@pytest.mark.parametrize(("source", "archs", "kind", "line", "words"), FAILURES.values(), ids=FAILURES)
def test_failures_of_ptxas(
    source: str, archs: str, kind: type[AotError], line: int, words: str, lineinfo: bool, tools: Toolchain
) -> None:
    with pytest.raises(kind) as caught:
        build(source, archs, tools, lineinfo=lineinfo)
    assert type(caught.value) is kind
    assert re.search(words, caught.value.text())
    assert caught.value.message.startswith(f"{PATH}: ")
    found = {(each.file, each.line, each.source_line) for each in caught.value.diagnostics}
    assert found == {(PATH, line, source.splitlines()[line - 1])}
    assert "/tmp" not in caught.value.text()


@pytest.mark.parametrize("name", ["two words", "it's", "{braces}", "equals=sign"])
def test_temporary_folders_of_any_name(
    name: str, tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert len(build(EMPTY, "80,80+PTX", tools)) == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("archs", ["80", "compute_80"])
def test_a_ptxas_that_dies(archs: str, tools: Toolchain, tmp_path: Path) -> None:
    script = tmp_path / "ptxas"
    script.write_text("#!/bin/sh\nkill -SEGV $$\n")
    script.chmod(0o755)
    with pytest.raises(CompilerCrash, match=r"k\.mlir: ptxas .* died while assembling for (sm|compute)_80"):
        build(EMPTY, archs, dataclasses.replace(tools, ptxas=script))


def test_a_report_that_does_not_fit_the_cubin(tools: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "report", lambda words: ptxas.Report(()))
    with pytest.raises(MismatchError, match=r"sm_80: the cubin gives kernel 'f' \d+ registers, ptxas reported nothing"):
        build(EMPTY, "80", tools)


# ------------------------------------------------------------------------- ptxas' words

WORDS = """
ptxas info    : 272 bytes gmem, 4 bytes cmem[3]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'k'
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    2440 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 2448 bytes cumulative stack size, 256 bytes smem, 396 bytes cmem[0]
ptxas info    : Compile time = 19.785 ms
ptxas info    : Function properties for __internal_trig_reduction_slowpathd
    8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas warning : Stack size for entry function 'k' cannot be statically determined
"""


def test_the_report_is_read_kernel_by_kernel() -> None:
    report = ptxas.report(WORDS)
    assert report.kernels == (
        ptxas.KernelReport("a", 4, 0, 0, 0),
        ptxas.KernelReport("k", 168, 256, 2448, 40),
    )
    assert [text.split()[0] for text in report.warnings] == ["(C7510)", "Stack"]


THREADS = {4: 1024, 32: 1024, 64: 1024, 65: 896, 96: 640, 128: 512, 168: 384, 255: 256}


@pytest.mark.parametrize(("registers", "threads"), THREADS.items(), ids=map(str, THREADS))
def test_threads_that_registers_allow(registers: int, threads: int) -> None:
    assert ptxas.max_threads(registers) == threads


def test_a_promised_block_size_is_the_limit() -> None:
    report = ptxas.KernelReport("k", 64, 0, 0, 0)
    assert [report.usage(block, 512).max_threads for block in (None, 128, 2048)] == [1024, 128, 1024]


# ------------------------------------------------------------------------- ready-made binaries


@pytest.fixture
def given(tools: Toolchain) -> list[Given]:
    return [Given(each.image.kind, each.data, each.image.target) for each in build(EMPTY, "80,90a,80+PTX", tools)]


def test_ready_cubins_and_ptx_are_merged(given: list[Given]) -> None:
    adopted = fatbin.adopt("ready", given)
    assert [each.target for each in adopted.images] == ["sm_80", "sm_90a", "compute_80"]
    assert [entry.target for entry in fatbin.entries(adopted.data)] == ["sm_80", "sm_90a", "compute_80"]


def test_a_ready_fatbin_stays_as_it_is(given: list[Given]) -> None:
    data = fatbin.adopt("ready", given, "size").data
    again = fatbin.adopt("again", [Given(fatbin.FATBIN, data)])
    assert again.data == data
    assert [each.target for each in again.images] == ["sm_80", "sm_90a", "compute_80"]


def test_the_bytes_are_believed_before_the_attribute(given: list[Given]) -> None:
    mislabelled = dataclasses.replace(given[0], chip="sm_90")
    assert fatbin.adopt("ready", [mislabelled]).images[0].target == "sm_80"


def _with_bytes(given: Given, place: slice, data: bytes) -> Given:
    changed = bytearray(given.data)
    changed[place] = data
    return Given("cubin", bytes(changed))


REFUSED = {
    "twice the same": (lambda given: [given[0], given[0]], "two ready objects for sm_80"),
    "a fatbin and more": (
        lambda given: [given[0], Given(fatbin.FATBIN, fatbin.adopt("r", given).data)],
        "can only be the single object",
    ),
    "no cubin": (lambda given: [Given("cubin", b"nothing")], "ready: .*not a cubin"),
    "half a cubin": (lambda given: [_with_bytes(given[0], slice(200, None), b"")], "ready: .*it is cut off"),
    "nearly a cubin": (lambda given: [_with_bytes(given[0], slice(-1, None), b"")], "ready: .*it is cut off"),
    "an object of x86": (lambda given: [_with_bytes(given[0], slice(18, 20), b"\x3e\0")], "ready: .*ELF machine 62"),
    "of no architecture": (
        lambda given: [_with_bytes(given[0], slice(48, 52), bytes(4))],
        "ready: .*unknown architecture 'sm_0'",
    ),
    "no ptx": (lambda given: [Given("ptx", b"nothing")], r"without a \.target line"),
    "no fatbin": (lambda given: [Given("fatbin", b"nothing at all, but long enough")], "not a fatbin"),
    "half a fatbin": (lambda given: [Given("fatbin", fatbin.adopt("r", given).data[:-8])], "cut off"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_ready_binaries_that_are_refused(make: object, message: str, given: list[Given]) -> None:
    with pytest.raises(LoweringError, match=message):
        fatbin.adopt("ready", make(given))  # type: ignore[operator]


def test_threads_of_ptxas_change_nothing(tools: Toolchain) -> None:
    """Not even with a division of 64 bits, for which ptxas adds a function, behind a kernel with shared memory."""
    kernel = """
.visible .entry {name}(.param .u64 p, .param .u64 n) {{
  .reg .b64 %a<6>;
  ld.param.u64 %a1, [p];
  ld.param.u64 %a2, [n];
  {code}
  st.global.u64 [%a1], %a4;
  ret;
}}
"""
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 room[];\n"
    shared = "mov.b64 %a3, room; st.shared.u64 [%a3], %a2; bar.sync 0; ld.shared.u64 %a4, [%a3+8];"
    text = head + kernel.format(name="a", code=shared) + kernel.format(name="b", code="div.u64 %a4, %a1, %a2;")
    made = [ptxas.assemble(text.encode(), target("sm_90a"), PATH, tools, ("-v",), threads) for threads in (1, 2, 4)]
    assert tools.threads
    assert len({data for data, _ in made}) == 1
    assert len({ptxas.report(words) for _, words in made}) == 1


DEBUG = """
#file = #llvm.di_file<"k.c" in "/">
#unit = #llvm.di_compile_unit<id = distinct[0]<>, sourceLanguage = DW_LANG_C, file = #file, isOptimized = true,
  emissionKind = LineTablesOnly>
#of = #llvm.di_subprogram<id = distinct[1]<>, compileUnit = #unit, scope = #file, name = "f", file = #file, line = 1,
  scopeLine = 1, subprogramFlags = Definition>
gpu.module @k {
  llvm.func @f(%p: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    %x = llvm.load %p : !llvm.ptr -> f32 loc("k.c":2:1)
    llvm.store %x, %p : f32, !llvm.ptr loc("k.c":3:1)
    llvm.return loc("k.c":4:1)
  } loc(fused<#of>["k.c":1:1])
}
"""


@pytest.mark.parametrize("as_bytecode", [False, True])
def test_debug_information_of_a_source_is_left_out(tools: Toolchain, as_bytecode: bool) -> None:
    """With it ptxas refuses to optimise."""
    data = DEBUG.encode()
    if as_bytecode:
        written = io.BytesIO()
        with mlir.context() as ctx:
            mlir.parse(data, PATH, ctx).operation.write_bytecode(written)
        data = written.getvalue()
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(data, PATH, ctx))
        assert "#llvm.di_subprogram" in isolated.operation.get_asm(enable_debug_info=True)
        lowering = Lowering(isolated)
        assert ".loc" not in binary.translate(lowering.lower(DeviceJob(target("sm_80"), (8, 0))), tools).decode()
        # Of a source without any, nobody looks.
        ctx.aot_debug = False
        assert (
            "\t.loc" in binary.translate(Lowering(isolated).lower(DeviceJob(target("sm_80"), (8, 0))), tools).decode()
        )
