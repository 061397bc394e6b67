"""Host code as LLVM IR: entry points, launches, names, and what may be undefined."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from aot import process
from aot.errors import LoweringError
from aot.lower.hostmodule import externals
from aot.tools import toolchain
from tests import cpurun
from tests.lowering import cases, function, launch, lower

RUNTIME = Path(__file__).parent.parent / "templates" / "runtime"
STORE = launch("memref.store %f1, %x[%tx] : memref<4xf32>")
ARRAY = "f(%x: memref<4xf32>)"


def declared(text: str) -> set[str]:
    """Functions that the IR takes from outside."""
    return set(re.findall(r"^declare .*?@([\w.]+)\(", text, re.MULTILINE))


def defined(text: str) -> dict[str, str]:
    """Definition -> its linkage or visibility."""
    return {name: word for word, name in re.findall(r"^define (\w+) .*?@(\w+)\(", text, re.MULTILINE)}


class TestEntries:
    def test_one_hidden_entry_per_function_and_nothing_else_visible(self) -> None:
        source = "func.func private @inner(%b: i1) -> i1 {\ncf.cond_br %b, ^a, ^a\n^a:\nreturn %b : i1 }\n"
        source += function(ARRAY, STORE) + function(
            "g(%b: i1)", "gpu.wait\nscf.for %i = %c0 to %c4 step %c1 {\nfunc.call @inner(%b) : (i1) -> i1\n}"
        )
        done = lower(source)
        assert [each.entry for each in done.functions] == ["aot_entry_test__f", "aot_entry_test__g"]
        assert defined(done.host_ir) == {
            "aot_test__f": "internal",
            "aot_test__g": "internal",
            "aot_test__inner": "internal",
            "aot_entry_test__f": "hidden",
            "aot_entry_test__g": "hidden",
        }

    def test_arrays_come_as_descriptors_and_scalars_by_value(self) -> None:
        done = lower(function("f(%x: memref<?x4xf16>, %n: index, %s: f16, %b: i1)", "gpu.wait"))
        entry = done.llvm("aot_entry_test__f")
        types = re.findall(r"load (\w+), ptr", entry)
        descriptor = ["ptr", "ptr", *["i64"] * 5]
        assert types == ["ptr", *descriptor, "ptr", "i64", "ptr", "half", "ptr", "i8"]

    def test_returned_numbers_go_to_their_slots(self) -> None:
        source = function(
            "f(%x: memref<4xf32>, %n: index)",
            "gpu.wait\n%d = arith.constant 2.0 : f64\nreturn %n, %x, %d : index, memref<4xf32>, f64",
            "-> (index, memref<4xf32>, f64)",
        )
        entry = lower(source).llvm("aot_entry_test__f")
        assert "extractvalue { i64, double }" in entry
        # Two arguments, then results 0 and 2: slots 2 and 4.
        assert re.findall(r"getelementptr ptr, ptr %0, i32 (\d)", entry) == ["0", "1", "2", "4"]
        assert re.findall(r"store (\w+) %", entry) == ["i64", "double"]

    @pytest.mark.parametrize(
        ("type_", "word", "stored"), [("i1", "zext i1", "i8"), ("i4", "sext i4", "i8"), ("i33", "sext i33", "i64")]
    )
    def test_odd_widths_lie_in_whole_bytes(self, type_: str, word: str, stored: str) -> None:
        entry = lower(function(f"f(%i: {type_})", f"gpu.wait\nreturn %i : {type_}", f"-> {type_}")).llvm(
            "aot_entry_test__f"
        )
        assert f"load {stored}" in entry
        assert word in entry
        assert f"store {stored}" in entry

    def test_attributes_of_arguments_do_not_disturb(self) -> None:
        source = function('f(%x: memref<4xf32> {aot.name = "values"}, %n: i32 {aot.name = "count"})', STORE)
        assert [each.name for each in lower(source).function("f").args] == ["values", "count"]

    def test_one_number(self) -> None:
        entry = lower(function("f() ", "gpu.wait\n%i = arith.constant 3 : i8\nreturn %i : i8", "-> i8")).llvm(
            "aot_entry_test__f"
        )
        assert "call i8 @aot_test__f()" in entry
        assert "store i8" in entry


class TestLaunches:
    def test_arguments_of_the_call(self) -> None:
        source = function(
            "f(%x: memref<4xf32>, %n: index, %bytes: i32)",
            "gpu.launch blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c4, %gz = %c1)"
            " threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) dynamic_shared_memory_size %bytes {\n"
            "memref.store %f1, %x[%tx] : memref<4xf32>\ngpu.terminator\n}",
        )
        body = lower(source).llvm("aot_test__f")
        call = re.search(r"call void @aot_rt_launch\((.*)\)", body)
        assert call is not None
        words = call.group(1).split(", ")
        assert words[:2] == ["ptr @aot_source_test", "i32 0"]
        assert words[3:11] == [f"i64 {n}" for n in (4, 1, 4, 1, 1, 0, 0, 0)]
        assert words[2].startswith("i64 %")
        assert words[11].startswith("i32 %")
        assert words[12] == "ptr null"
        assert words[14] == "i32 0"

    def test_clusters(self) -> None:
        source = function(
            ARRAY,
            "gpu.launch clusters(%cx, %cy, %cz) in (%ux = %c4, %uy = %c1, %uz = %c1)"
            " blocks(%bx, %by, %bz) in (%gx = %c4, %gy = %c1, %gz = %c1)"
            " threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {\n"
            "memref.store %f1, %x[%tx] : memref<4xf32>\ngpu.terminator\n}",
        )
        assert "i64 1, i64 1, i64 1, i64 4, i64 1, i64 1, i32 0, ptr null" in lower(source).llvm("aot_test__f")

    def test_kernels_are_numbered_as_described(self) -> None:
        done = lower(function(ARRAY, STORE + STORE) + function("g(%x: memref<4xf32>)", STORE))
        assert [each.symbol for each in done.kernels] == ["f__f_kernel", "f__f_kernel_1", "g__g_kernel"]
        assert re.findall(r"@aot_source_test, i32 (\d)", done.llvm("aot_test__f")) == ["0", "1"]
        assert re.findall(r"@aot_source_test, i32 (\d)", done.llvm("aot_test__g")) == ["2"]

    @pytest.mark.parametrize(
        ("before", "waits"),
        [("", 0), ("%m = gpu.alloc host_shared () : memref<4xf32>\n", 1)],
        ids=["asynchronous", "host-memory"],
    )
    def test_waiting(self, before: str, waits: int) -> None:
        body = lower(function(ARRAY, before + STORE)).llvm("aot_test__f")
        assert re.search(rf"@aot_rt_launch\(.*, i32 {waits}\)", body)

    def test_asynchronous_launches_run_on_their_token(self) -> None:
        source = function(
            ARRAY,
            "%a = gpu.wait async\n%b = gpu.launch async [%a] blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)"
            " threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {\n"
            "memref.store %f1, %x[%tx] : memref<4xf32>\ngpu.terminator\n}\ngpu.wait [%b]",
        )
        body = lower(source).llvm("aot_test__f")
        stream = re.search(r"(%\d+) = call ptr @mgpuStreamCreate", body)
        assert stream is not None
        assert re.search(rf"@aot_rt_launch\(.*, ptr {stream.group(1)}, ptr %\d+, i32 0\)", body)

    def test_loops_do_not_let_the_stack_grow(self) -> None:
        body = (
            "scf.for %i = %c0 to %c4 step %c1 {\n%h = memref.alloc() : memref<4xf32>\n"
            "%u = memref.cast %h : memref<4xf32> to memref<*xf32>\ngpu.host_register %u : memref<*xf32>\n"
            + STORE
            + "gpu.host_unregister %u : memref<*xf32>\nmemref.dealloc %h : memref<4xf32>\n}"
        )
        text = lower(function(ARRAY, body)).llvm("aot_test__f")
        entry, *blocks = re.split(r"\n\n?\d+:", text)
        assert "alloca" in entry
        assert not any("alloca" in block for block in blocks)


class TestNames:
    @pytest.mark.parametrize("name", ["main", "tanh", "malloc", "aot_rt_launch", "printMemrefF32", "memcpy"])
    def test_functions_never_meet_a_librarys(self, name: str) -> None:
        done = lower(function(f"{name}(%x: memref<4xf32>)", STORE))
        assert f"@aot_test__{name}(" in done.host_ir
        assert set(defined(done.host_ir)) == {f"aot_test__{name}", f"aot_entry_test__{name}"}

    def test_globals_are_internal(self) -> None:
        source = "memref.global constant @environ : memref<4xf32> = dense<2.0>\n" + function(
            ARRAY,
            "gpu.wait\n%w = memref.get_global @environ : memref<4xf32>\n"
            "%v = memref.load %w[%c1] : memref<4xf32>\nreturn %v : f32",
            "-> f32",
        )
        assert "@aot_test__environ = internal constant" in lower(source).host_ir


def test_the_runtime_has_what_host_code_may_call(tmp_path: Path) -> None:
    starts = ("rt_", "cpu_", "mgpu", "async", "print", "memref")
    sources = [each for start in starts for each in RUNTIME.glob(f"{start}*.c")]
    command = ["cc", "-std=gnu11", "-w", "-c", f"-I{RUNTIME}", *map(str, sorted(sources))]
    subprocess.run(command, cwd=tmp_path, check=True)
    defined: set[str] = set()
    for each in tmp_path.glob("*.o"):
        with each.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            defined |= {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
    assert sorted(externals.RUNTIME - defined) == []


class TestOutside:
    def test_unknown_functions_are_build_errors(self) -> None:
        source = "func.func private @mystery(index)\n" + function("f()", "gpu.wait\ncall @mystery(%c1) : (index) -> ()")
        with pytest.raises(LoweringError, match="nothing provides: 'mystery'") as caught:
            lower(source)
        assert (caught.value.diagnostics[0].file, caught.value.diagnostics[0].line) == ("kernels/test.mlir", 1)

    @pytest.mark.parametrize("name", ["system", "exit", "malloc", "abort", "cudaMalloc", "cuLaunchKernel"])
    def test_of_libc_little_is_let_through(self, name: str) -> None:
        source = f"func.func private @{name}()\n" + function("f()", f"gpu.wait\ncall @{name}() : () -> ()")
        with pytest.raises(LoweringError, match=name):
            lower(source)

    def test_unused_declarations_do_not_matter(self) -> None:
        source = "func.func private @mystery(index)\nllvm.func @printf(!llvm.ptr, ...) -> i32\n" + function(
            "f()", "gpu.wait"
        )
        assert declared(lower(source).host_ir) == set()

    def test_math_on_the_host(self) -> None:
        source = function("f(%a: f32, %b: f64)", "gpu.wait\n%c = math.tanh %a : f32\n%d = math.powf %b, %b : f64\n"
                          "%e = math.sqrt %a : f32\n%g = math.erf %b : f64\nreturn %c, %d, %e, %g : f32, f64, f32, f64",
                          "-> (f32, f64, f32, f64)")  # fmt: skip
        # LLVM's intrinsics become calls of the same library, or instructions, later.
        assert {name.split(".")[-2] if "." in name else name for name in declared(lower(source).host_ir)} == {
            "tanh",
            "pow",
            "sqrt",
            "erf",
        }

    def test_clamps_need_no_library(self) -> None:
        source = function("f(%a: f16)", "gpu.wait\n%c = math.clampf %a to [%a, %a] : f16\nreturn %c : f16", "-> f16")
        assert not any("clamp" in name for name in declared(lower(source).host_ir))

    def test_assertions_call_the_runtime(self) -> None:
        done = lower(function("f(%b: i1)", 'gpu.wait\ncf.assert %b, "no luck"'))
        assert done.messages == ("no luck (kernels/test.mlir:7)",)
        assert declared(done.host_ir) == {"aot_rt_assert"}

    def test_asynchronous_regions_keep_their_frames_in_the_runtime(self) -> None:
        done = lower(
            function(ARRAY, "%t = async.execute {\n" + STORE + "async.yield\n}\nasync.await %t : !async.token")
        )
        names = declared(done.host_ir)
        assert "_mlir_memref_to_llvm_aligned_alloc" in names
        assert not names & {"malloc", "free", "aligned_alloc", "abort", "puts"}

    def test_printing(self) -> None:
        source = "func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}\n" + function(
            "f()",
            "gpu.wait\n%h = memref.alloc() : memref<4xf32>\n%u = memref.cast %h : memref<4xf32> to memref<*xf32>\n"
            "call @printMemrefF32(%u) : (memref<*xf32>) -> ()\n"
            "%v = vector.load %h[%c0] : memref<4xf32>, vector<4xf32>\nvector.print %v : vector<4xf32>",
        )
        done = lower(source)
        assert "_mlir_ciface_printMemrefF32" in declared(done.host_ir)
        assert {"printF32", "printOpen", "printComma", "printClose", "printNewline"} <= declared(done.host_ir)

    def test_what_has_no_lowering_is_named_with_its_place(self) -> None:
        source = function("f()", "gpu.wait\nnvvm.barrier0")
        with pytest.raises(LoweringError) as caught:
            lower(source)
        assert "nvvm.barrier" in caught.value.text()
        assert "test.mlir:7" in caught.value.text()


def test_blocks_behind_a_switch_come_in_the_order_of_its_cases() -> None:
    """MLIR would make them in the order of addresses: of others in each build."""
    body = f"{STORE}\n%h = memref.alloc() : memref<4xf32>\n%s = scf.index_switch %n -> f32\n"
    body += cases("%h[%n] : memref<4xf32>")
    body += "default { scf.yield %f1 : f32 }\nmemref.store %s, %h[%c0] : memref<4xf32>"
    source = function("f(%x: memref<4xf32>, %n: index, %l: f32)", body)
    text = lower(source).host_ir
    switch = text[text.index("switch i32") :]
    labels = [int(label) for label in re.findall(r"i32 \d+, label %(\d+)", switch[: switch.index("]")])]
    assert len(set(labels)) == 24
    assert labels == sorted(labels)


QUOTIENTS = {
    **{f"arith.{name}": f"arith.{name} %x, %y : index" for name in ("divsi", "divui", "remsi", "remui")},
    **{f"arith.{name}": f"arith.{name} %x, %y : index" for name in ("ceildivsi", "ceildivui", "floordivsi")},
    **{f"index.{name}": f"index.{name} %x, %y" for name in ("divs", "divu", "rems", "remu")},
    **{f"index.{name}": f"index.{name} %x, %y" for name in ("ceildivs", "ceildivu", "floordivs")},
    "floordiv": "affine.apply affine_map<(i)[s] -> (i floordiv s)>(%x)[%y]",
    "mod": "affine.apply affine_map<(i)[s] -> (i mod s)>(%x)[%y]",
}
"""What makes %r of %x and %y."""


def test_divisions_of_wide_numbers_build() -> None:
    """The least i128 is a number that the bindings cannot say."""
    wide = "%a = arith.extsi %x : i64 to i128\n%b = arith.extsi %y : i64 to i128\n%q = arith.divsi %a, %b : i128\n"
    source = function(
        "f(%x: i64, %y: i64)", f"gpu.wait\n{wide}%r = arith.trunci %q : i128 to i64\nreturn %r : i64", "-> i64"
    )
    assert "-170141183460469231731687303715884105728" in lower(source).llvm("aot_test__f")


@pytest.mark.parametrize("operation", QUOTIENTS)
def test_divisions_of_host_code_do_not_trap(operation: str) -> None:
    """An array without elements makes extents of 0, which front ends divide by."""
    text = f"""
func.func @f(%x: index, %y: index) -> index {{
  %r = {QUOTIENTS[operation]}
  return %r : index
}}
"""
    folder = cpurun.scratch()
    (folder / "f.ll").write_text(lower(text).host_ir.replace("define hidden", "define"))
    llc = toolchain.find_llvm("llc", {})
    process.check([llc, "-filetype=obj", "-relocation-model=pic", "f.ll", "-o", "f.o"], cwd=folder)
    process.check([str(shutil.which("cc")), "-shared", "f.o", "-o", "f.so"], cwd=folder)
    entry = ctypes.CDLL(str(folder / "f.so")).aot_entry_test__f
    for x, y in ((7, 0), (-(2**63), -1), (0, 0)):
        entry(slots(x, y)[0])
    given, result = slots(7, 2)
    entry(given)
    assert result.value == (4 if "ceil" in operation else 1 if "rem" in operation or operation == "mod" else 3)


def slots(*numbers: int) -> tuple[ctypes.Array[ctypes.c_void_p], ctypes.c_int64]:
    """Arguments and the place of the result, as an entry takes them."""
    values = [ctypes.c_int64(number) for number in (*numbers, 0)]
    return (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values)), values[-1]
