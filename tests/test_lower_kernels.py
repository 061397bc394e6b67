"""Kernels: joining and naming, parameters, default launch sizes, what upstream does not lower, ready binaries."""

from __future__ import annotations

import pytest
from mlir import ir
from mlir.dialects import gpu

from aot import mlir
from aot.errors import LoweringError
from aot.lower.source import kernels, launchsize
from aot.model import ArrayType, Kernel, ScalarType
from tests.lowering import PATH, function, launch, lower

MODULES = """
module attributes {gpu.container_module} {
  gpu.module @a {
    memref.global "private" constant @t : memref<4xf32> = dense<1.0>
    func.func private @h(%x: f32) -> f32 { %r = arith.addf %x, %x : f32  return %r : f32 }
    func.func private @__nv_fabsf(f32) -> f32
    gpu.func @k(%x: memref<4xf32>) kernel {
      %i = gpu.thread_id x
      %g = memref.get_global @t : memref<4xf32>
      %v = memref.load %g[%i] : memref<4xf32>
      %w = func.call @h(%v) : (f32) -> f32
      %u = func.call @__nv_fabsf(%w) : (f32) -> f32
      memref.store %u, %x[%i] : memref<4xf32>
      gpu.return
    }
  }
  gpu.module @b {
    memref.global "private" constant @t : memref<4xf32> = dense<2.0>
    func.func private @__nv_fabsf(f32) -> f32
    gpu.func @k(%x: memref<4xf32>) kernel {
      %i = gpu.thread_id x
      %g = memref.get_global @t : memref<4xf32>
      %v = memref.load %g[%i] : memref<4xf32>
      %u = func.call @__nv_fabsf(%v) : (f32) -> f32
      memref.store %u, %x[%i] : memref<4xf32>
      gpu.return
    }
    gpu.func @alone() kernel { gpu.return }
  }
  func.func @f(%x: memref<4xf32>) {
    %c1 = arith.constant 1 : index
    gpu.launch_func @a::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    gpu.launch_func @b::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    return
  }
}
"""


def kernel(attributes: str, parameters: str = "%x: memref<?x8xf32>, %n: index, %s: f32", **names: list[str]) -> Kernel:
    source = f"gpu.module @m {{ gpu.func @k({parameters}) kernel attributes {{{attributes}}} {{ gpu.return }} }}"
    return lower(source, names).kernels[0]


class TestJoining:
    def test_all_modules_become_one(self) -> None:
        done = lower(MODULES)
        assert done.host.count("gpu.module @") == 1
        assert [(k.module, k.name, k.symbol) for k in done.kernels] == [
            ("a", "k", "a__k"),
            ("b", "k", "b__k"),
            ("b", "alone", "b__alone"),
        ]

    def test_symbols_of_the_same_name_stay_apart(self) -> None:
        host = lower(MODULES).host
        assert "@a__t : memref<4xf32> = dense<1.0" in host
        assert "@b__t : memref<4xf32> = dense<2.0" in host
        assert "call @a__h(" in host

    def test_declarations_keep_their_name_and_are_joined(self) -> None:
        assert lower(MODULES).host.count("func.func private @__nv_fabsf(") == 1

    def test_only_kernels_that_nothing_launches_are_callable(self) -> None:
        assert {k.symbol: k.callable for k in lower(MODULES).kernels} == {
            "a__k": False,
            "b__k": False,
            "b__alone": True,
        }

    def test_names_that_would_meet_are_told_apart(self) -> None:
        source = "gpu.module @a { gpu.func @b__c() kernel { gpu.return } }\n"
        source += "gpu.module @a__b { gpu.func @c() kernel { gpu.return } }\n"
        assert [k.symbol for k in lower(source).kernels] == ["a__b__c", "a__b__c_1"]

    def test_kernels_of_a_function_are_numbered(self) -> None:
        store = launch("memref.store %f1, %x[%tx] : memref<4xf32>")
        source = function("f(%x: memref<4xf32>)", store + store) + function("g(%x: memref<4xf32>)", store)
        assert [(k.module, k.name, k.symbol) for k in lower(source).kernels] == [
            ("f", "f_kernel", "f__f_kernel"),
            ("f", "f_kernel_1", "f__f_kernel_1"),
            ("g", "g_kernel", "g__g_kernel"),
        ]

    def test_bare_kernels_are_wrapped_with_what_they_use(self) -> None:
        source = """
          llvm.func @helper(%x: f32) -> f32 { %r = llvm.fadd %x, %x : f32  llvm.return %r : f32 }
          llvm.func @kern(%p: !llvm.ptr, %s: f32) attributes {gpu.kernel, nvvm.reqntid = array<i32: 128, 1, 1>} {
            %v = llvm.call @helper(%s) : (f32) -> f32
            llvm.store %v, %p : f32, !llvm.ptr
            llvm.return
          }"""
        done = lower(source, {"kern": ["p", "s"]})
        (only,) = done.kernels
        assert [(p.name, p.type) for p in only.params] == [("p", ScalarType("ptr")), ("s", ScalarType("f32"))]
        assert (only.symbol, only.callable, only.max_block) == ("kernels__kern", True, (128, 1, 1))
        assert "nvvm.kernel" in done.host
        assert "@kernels__helper" in done.host

    def test_bare_kernels_beside_host_functions_are_refused(self) -> None:
        source = "llvm.func @k() attributes {nvvm.kernel} { llvm.return }\n" + function("f()", "gpu.wait")
        with pytest.raises(LoweringError, match="kernels outside") as caught:
            lower(source)
        assert caught.value.diagnostics[0].line == 1

    def test_targets_in_the_source_are_reported_and_removed(self) -> None:
        source = 'gpu.module @m [#nvvm.target<chip = "sm_90a">, #nvvm.target] { gpu.func @k() kernel { gpu.return } }'
        done = lower(source)
        assert done.own_chips == ("sm_90a",)
        assert "nvvm.target" not in done.host

    def test_same_source_same_text(self) -> None:
        assert lower(MODULES) == lower(MODULES)


class TestDescriptions:
    def test_parameters(self) -> None:
        params = kernel("", k=["x", "n", "s"]).params
        assert [(p.name, p.role) for p in params] == [("x", "ref"), ("n", "scalar"), ("s", "scalar")]
        assert params[0].type == ArrayType("memref", "f32", (None, 8))

    def test_launch_attributes(self) -> None:
        found = kernel("aot.cooperative, aot.programmatic = false, aot.priority = -3 : i32")
        assert (found.cooperative, found.programmatic, found.priority) == (True, False, -3)
        plain = kernel("")
        assert (plain.cooperative, plain.programmatic, plain.priority) == (False, False, None)

    def test_names_by_module_win(self) -> None:
        assert [p.name for p in kernel("", **{"k": ["a", "b", "c"], "m::k": ["x"]}).params] == ["x", "arg1", "arg2"]

    def test_booleans_are_described_as_the_source_has_them(self) -> None:
        assert kernel("", "%m: memref<?xi1>").params[0].type.text() == "memref<?xi1>"

    @pytest.mark.parametrize(
        ("attribute", "program"),
        [
            ("4", (1, 4, 0)),
            ("affine_map<() -> (7)>", (1, 7, 0)),
            ("affine_map<(d0) -> (d0)>", (2, 0, 0)),
            ("affine_map<(d0, d1)[s0] -> (s0)>", (3, 0, 0)),
            ("affine_map<(d0) -> (d0 ceildiv 256)>", (2, 0, 1, 256, 7, 0)),
            ("affine_map<(d0) -> (d0 floordiv 2)>", (2, 0, 1, 2, 6, 0)),
            ("affine_map<(d0) -> (d0 mod 8)>", (2, 0, 1, 8, 8, 0)),
            ("affine_map<(d0, d1)[s0] -> (d1 * 4 + s0)>", (2, 1, 1, 4, 5, 3, 0, 4, 0)),
        ],
    )
    def test_launch_size_programs(self, attribute: str, program: tuple[int, ...]) -> None:
        found = kernel(f"aot.grid = [{attribute}, 1], aot.block = [{attribute}], aot.shared = [{attribute}]")
        assert (found.grid, found.block, found.shared) == ((program, (1, 1, 0)), (program,), program)

    def test_shared_memory_of_the_architectures_that_have_the_kernel(self) -> None:
        launchsize.check_shared((1, 200_000, 0), [(9, 0)])
        with pytest.raises(launchsize.UnfitError, match="200000 bytes; a block has at most 101376 on sm_86"):
            launchsize.check_shared((1, 200_000, 0), [(8, 6), (9, 0)])
        with pytest.raises(launchsize.UnfitError, match="at most 232448 on any GPU"):
            launchsize.check_shared((1, 999_999, 0), [])
        assert [kernels._is_for(need, (9, 0)) for need in ("", "sm_80", "sm_100", "sm_90a", "sm_100a")] == [
            *(True, True, False, True, False)
        ]

    @pytest.mark.parametrize(
        ("attributes", "message"),
        [
            ("aot.grid = []", "it takes one to three"),
            ("aot.grid = [1, 2, 3, 4]", "it takes one to three"),
            ("aot.grid = [-1]", "aot.grid: -1 is not possible; it is at least 1"),
            ("aot.grid = 0", "aot.grid: 0 is not possible; it is at least 1"),
            ("aot.grid = [8, affine_map<() -> (0)>]", "aot.grid: 0 is not possible"),
            ("aot.grid = [1, 65536]", "aot.grid: 65536 blocks along y; a grid has at most 65535 there"),
            ("aot.block = 0", "aot.block: 0 is not possible; it is at least 1"),
            ("aot.block = [32, 1, 0]", "aot.block: 0 is not possible"),
            ("aot.block = affine_map<() -> (-1)>", "aot.block: -1 is not possible"),
            ("aot.shared = -1", "aot.shared: -1 is not possible; it is at least 0"),
            ("aot.shared = affine_map<() -> (-1)>", "aot.shared: -1 is not possible"),
            ("known_block_size = array<i32: 0, 1, 1>", "known_block_size: 0 is not possible"),
            (
                "known_block_size = array<i32: 1024, 2, 1>",
                "known_block_size: 1024 x 2 x 1 threads; a block has at most",
            ),
            ("aot.cooperative = 1", "is neither true nor false"),
            ('aot.priority = "high"', "is no integer of 32 bits"),
            ("aot.cooperativ", "did you mean aot.cooperative"),
            ('aot.block = ["x"]', "neither an integer nor an affine_map"),
            ("aot.block = [affine_map<(d0, d1, d2) -> (d0)>]", "has 3 dims and 0 symbols; the kernel's memrefs have 2"),
            ("aot.grid = [affine_map<()[s0, s1] -> (s1)>]", "1 of its parameters are integers"),
            ("aot.grid = [affine_map<(d0) -> (d0, d0)>]", "has 2 results"),
            ("aot.shared = [1, 2]", "aot.shared has 2 entries"),
        ],
    )
    def test_launch_sizes_that_do_not_fit(self, attributes: str, message: str) -> None:
        with pytest.raises(LoweringError) as caught:
            kernel(attributes)
        assert message in caught.value.diagnostics[0].message

    def test_a_known_block_size_is_the_default_and_the_only_one(self) -> None:
        found = kernel("known_block_size = array<i32: 64, 2, 1>")
        assert (found.max_block, found.block) == ((64, 2, 1), ((1, 64, 0), (1, 2, 0), (1, 1, 0)))

    def test_clusters(self) -> None:
        assert kernel("nvvm.cluster_dim = array<i32: 2, 1, 1>").cluster == (2, 1, 1)

    def test_parameters_that_python_cannot_pass(self) -> None:
        with pytest.raises(LoweringError, match="cannot pass") as caught:
            kernel("", "%v: vector<4xf32>")
        assert "parameter 'arg0' has type 'vector<4xf32>'" in caught.value.diagnostics[0].message

    def test_structs_by_value_are_not_pointers(self) -> None:
        source = """llvm.func @k(%d: !llvm.ptr {llvm.byval = !llvm.array<128 x i8>}) attributes {nvvm.kernel} {
          llvm.return }"""
        with pytest.raises(LoweringError, match="cannot pass"):
            lower(source)


class TestDeviceOperations:
    def test_subgroup_operations_are_written_out(self) -> None:
        body = """
          %a = gpu.subgroup_id : index
          %b = gpu.num_subgroups : index
          %c = gpu.subgroup_size : index
          %i = arith.index_cast %a : index to i32
          %w = gpu.subgroup_broadcast %i, specific_lane %i : i32
          %v = gpu.subgroup_broadcast %d, first_active_lane : f64
          gpu.printf "%d %d %d %d %f", %a, %b, %c, %w, %v : index, index, index, i32, f64"""
        host = lower(function("f()", "%d = arith.constant 1.0 : f64\n" + launch(body))).host
        assert "gpu.subgroup_" not in host
        assert "gpu.num_subgroups" not in host
        assert host.count("shfl.sync.idx.b32") == 3

    @pytest.mark.parametrize(("value", "count"), [("true", 1), ("false", 0)])
    def test_constant_predicates_of_barriers_are_resolved(self, value: str, count: int) -> None:
        body = f"""
          %b = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
          %p = arith.constant {value}
          nvgpu.mbarrier.arrive.expect_tx %b[%c0], %c4, predicate = %p
            : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>"""
        host = lower(function("f()", launch(body))).host
        assert host.count("nvvm.mbarrier.arrive.expect_tx") == count
        assert "predicate" not in host


class TestReadyBinaries:
    @staticmethod
    def source(data: bytes, extra: str = "") -> bytes:
        text = (
            """module attributes {gpu.container_module} {
          gpu.module @bin { gpu.func @k(%x: memref<4xf32>) kernel { gpu.return } }
          func.func @f(%x: memref<4xf32>) {
            %c1 = arith.constant 1 : index
            gpu.launch_func @bin::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
            return
          } """
            + extra
            + "}"
        )
        with mlir.context() as ctx:
            module = mlir.parse(text.encode(), PATH, ctx)
            old = module.body.operations[0].operation
            target = ir.Attribute.parse('#nvvm.target<chip = "sm_90">')
            with ir.InsertionPoint(old):
                objects = ir.ArrayAttr.get([gpu.ObjectAttr.get(target, 3, data)])
                handler = ir.Attribute.parse("#gpu.select_object")
                names = {"sym_name": ir.StringAttr.get("bin"), "objects": objects, "offloadingHandler": handler}
                ir.Operation.create("gpu.binary", attributes=names)
            old.erase()
            return str(module).encode()

    @pytest.mark.parametrize(
        ("data", "kind"),
        [
            (b"\x7fELF-cubin", "cubin"),
            (b"\x50\xed\x55\xba-fat", "fatbin"),
            (b"//\n.version 8.0\n.target sm_90\n", "ptx"),
        ],
    )
    def test_pass_through(self, data: bytes, kind: str) -> None:
        done = lower(self.source(data))
        assert done.ready == (kind,)
        assert [(k.symbol, k.module, k.callable) for k in done.kernels] == [("k", "bin", False)]
        assert "@aot_rt_launch(ptr @aot_source_test, i32 0" in done.host_ir

    def test_code_that_prints_is_recognised(self) -> None:
        assert lower(self.source(b"\x7fELF...vprintf...")).function("f").flags == ("messages",)

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(LoweringError, match="no cubin, fatbin or PTX"):
            lower(self.source(b"MZ"))

    def test_not_beside_modules_to_compile(self) -> None:
        with pytest.raises(LoweringError, match="both ready gpu"):
            lower(self.source(b"\x7fELF", "gpu.module @m { gpu.func @k() kernel { gpu.return } }"))
