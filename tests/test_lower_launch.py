"""Launch level: memory of two kinds, tokens, flags, results, and what is refused."""

from __future__ import annotations

import re

import pytest

from aot.errors import LoweringError, SourceError
from aot.model import FORK, HOST_SYNC, LAUNCH, MESSAGES, READS_DEVICE, SERIAL, TENSOR
from tests.lowering import function, launch, levels, lower

STORE = "memref.store %f1, %x[%tx] : memref<4xf32>"
ARRAY = "f(%x: memref<4xf32>)"
HOST = "%h = memref.alloc() : memref<4xf32>\n"
UNRANKED = HOST + "%u = memref.cast %h : memref<4xf32> to memref<*xf32>\n"
REGISTER = UNRANKED + "gpu.host_register %u : memref<*xf32>\n"
TYPES = "memref<4xf32>, memref<4xf32>"
PRINT = "func.func private @printMemrefF32(memref<*xf32>)\n"

ASYNC_LAUNCH = (
    "gpu.launch async [{tokens}] blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)"
    " threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {{ " + STORE + " gpu.terminator }}\n"
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            function("f(%x: tensor<4xf32>)", "return %x : tensor<4xf32>", "-> tensor<4xf32>"), TENSOR, id="tensor"
        ),
        pytest.param(function(ARRAY, "linalg.fill ins(%f1 : f32) outs(%x : memref<4xf32>)"), TENSOR, id="memref"),
        pytest.param(function(ARRAY, launch(STORE)), LAUNCH, id="launch"),
        pytest.param(function("f()", "%m = gpu.alloc () : memref<4xf32>"), LAUNCH, id="alloc"),
        pytest.param(function("f()", "gpu.wait"), LAUNCH, id="wait"),
        pytest.param(
            "func.func private @inner(%x: memref<4xf32>) {\n%c1 = arith.constant 1 : index\n"
            "%c4 = arith.constant 4 : index\n%f1 = arith.constant 1.0 : f32\n"
            + launch(STORE)
            + "return }\n"
            + function(ARRAY, "call @inner(%x) : (memref<4xf32>) -> ()"),
            LAUNCH,
            id="through-a-call",
        ),
    ],
)
def test_level(source: str, expected: str) -> None:
    assert levels(source) == {"f": expected}


FLAGS = {
    "none": (function(ARRAY, launch(STORE)), ()),
    "register": (function("f()", REGISTER), (HOST_SYNC,)),
    "shared": (function("f()", "%m = gpu.alloc host_shared () : memref<4xf32>"), (HOST_SYNC,)),
    "copy-from-host": (function(ARRAY, HOST + f"gpu.memcpy %x, %h : {TYPES}"), (HOST_SYNC,)),
    "copy-on-device": (function("f(%x: memref<4xf32>, %y: memref<4xf32>)", f"gpu.memcpy %x, %y : {TYPES}"), ()),
    "print": (
        PRINT + function(ARRAY, launch(STORE) + UNRANKED + "call @printMemrefF32(%u) : (memref<*xf32>) -> ()"),
        (HOST_SYNC,),
    ),
    "printf": (function(ARRAY, launch('gpu.printf "x\\n"')), (MESSAGES,)),
    "kernel-assert": (function("f(%b: i1)", launch('cf.assert %b, "no"')), (MESSAGES,)),
    "one-chain": (
        function(ARRAY, "%a = gpu.wait async\n%b = " + ASYNC_LAUNCH.format(tokens="%a") + "gpu.wait [%b]"),
        (),
    ),
    "two-chains": (
        function(
            ARRAY,
            "%a = gpu.wait async\n%b = gpu.wait async\n%c = "
            + ASYNC_LAUNCH.format(tokens="%a")
            + "%d = "
            + ASYNC_LAUNCH.format(tokens="%b")
            + "gpu.wait [%c, %d]",
        ),
        (FORK,),
    ),
    "two-chains-through-a-loop": (
        function(
            ARRAY,
            "%a = gpu.wait async\n%b = gpu.wait async\n"
            "%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %a) -> (!gpu.async.token) {\n"
            "%u = " + ASYNC_LAUNCH.format(tokens="%t, %b") + "scf.yield %u : !gpu.async.token\n}\ngpu.wait [%r, %b]",
        ),
        (),
    ),
    "async": (
        function(ARRAY, "%t = async.execute {\n" + launch(STORE) + "async.yield\n}\nasync.await %t : !async.token"),
        (SERIAL,),
    ),
    "host-load": (
        function(
            "f(%n: memref<1xindex>, %x: memref<4xf32>)",
            "%k = memref.load %n[%c0] : memref<1xindex>\nscf.for %i = %c0 to %k step %c1 {\n" + launch(STORE) + "}",
        ),
        (READS_DEVICE,),
    ),
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags(case: str) -> None:
    source, expected = FLAGS[case]
    assert lower(source).function("f").flags == expected


def test_flags_of_a_function_do_not_depend_on_its_neighbours() -> None:
    source = function("quiet(%x: memref<4xf32>)", launch(STORE)) + function("loud()", launch('gpu.printf "x\\n"'))
    done = lower(source)
    assert (done.function("quiet").flags, done.function("loud").flags) == ((), (MESSAGES,))


def test_tokens_that_a_loop_carries_are_no_events() -> None:
    source = function(
        ARRAY,
        "%a = gpu.wait async\n%b = gpu.wait async\n"
        "%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %a) -> (!gpu.async.token) {\n"
        "%u = " + ASYNC_LAUNCH.format(tokens="%t, %b") + "scf.yield %u : !gpu.async.token\n}\ngpu.wait [%r]",
    )
    done = lower(source)
    assert "mgpuEventSynchronize" not in done.host_ir
    assert "mgpuStreamSynchronize" in done.host_ir
    # An event that is waited for has been made and recorded.
    body = done.llvm("aot_test__f")
    for event in re.findall(r"@mgpuStreamWaitEvent\(ptr %\d+, ptr (%\d+)\)", body):
        assert f"{event} = call ptr @mgpuEventCreate()" in body


class TestMemory:
    def test_host_work_stays_on_the_host(self) -> None:
        done = lower(
            function(
                ARRAY,
                HOST + "linalg.fill ins(%f1 : f32) outs(%h : memref<4xf32>)\n"
                f"gpu.memcpy %x, %h : {TYPES}\nmemref.dealloc %h : memref<4xf32>",
            )
        )
        assert not done.kernels
        assert "_mlir_memref_to_llvm_alloc" in done.host_ir
        assert "@malloc" not in done.host_ir

    def test_linalg_on_arguments_becomes_a_launch_of_many_threads(self) -> None:
        done = lower(function("f(%x: memref<?xf32>)", "gpu.wait\nlinalg.fill ins(%f1 : f32) outs(%x : memref<?xf32>)"))
        assert [each.schedule for each in done.kernels] == ["general"]
        assert done.kernels[0].max_block == (256, 1, 1)

    def test_a_store_to_an_argument_becomes_a_launch_of_one_thread(self) -> None:
        done = lower(function("f(%x: memref<?xf32>)", "gpu.wait\nmemref.store %f1, %x[%c1] : memref<?xf32>"))
        assert done.kernels[0].max_block == (1, 1, 1)
        assert "memref.store" not in done.body("f")

    def test_a_copy_inside_device_memory_is_no_launch(self) -> None:
        done = lower(
            function(
                "f(%x: memref<?xf32>, %y: memref<?xf32>)",
                "gpu.wait\nmemref.copy %x, %y : memref<?xf32> to memref<?xf32>",
            )
        )
        assert not done.kernels
        assert "gpu.memcpy" in done.body("f")

    def test_host_memory_carried_by_a_loop_is_told_from_device_memory(self) -> None:
        done = lower(
            function(
                ARRAY,
                HOST + "%g = memref.alloc() : memref<4xf32>\n"
                f"%r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%p = %h, %q = %g) -> ({TYPES}) {{\n"
                "memref.store %f1, %p[%i] : memref<4xf32>\nscf.yield %q, %p : memref<4xf32>, memref<4xf32>\n}\n"
                "memref.store %f1, %x[%c0] : memref<4xf32>\n"
                f"gpu.memcpy %x, %r#0 : {TYPES}",
            )
        )
        assert len(done.kernels) == 1
        assert "memref.store" in done.body("f")
        assert "unrealized" not in done.host

    def test_constants_go_into_the_kernels_that_use_them(self) -> None:
        done = lower(
            'memref.global "private" constant @w : memref<4xf32> = dense<2.0>\n'
            + function(
                ARRAY,
                "%w = memref.get_global @w : memref<4xf32>\n"
                + launch("%v = memref.load %w[%tx] : memref<4xf32>\nmemref.store %v, %x[%tx] : memref<4xf32>"),
            )
        )
        assert "aot_test__w" not in done.llvm("aot_test__f")

    def test_constants_passed_to_kernels_are_copied_and_freed(self) -> None:
        done = lower(
            "module attributes {gpu.container_module} {\n"
            'memref.global "private" constant @w : memref<4xf32> = dense<2.0>\n'
            "gpu.module @m { gpu.func @k(%a: memref<4xf32>) kernel { gpu.return } }\n"
            + function(
                "f()",
                "%w = memref.get_global @w : memref<4xf32>\n"
                "gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1) args(%w : memref<4xf32>)",
            )
            + "}"
        )
        body = done.body("f")
        assert body.index("gpu.memcpy") < body.index("gpu.launch_func") < body.index("gpu.dealloc")

    @pytest.mark.parametrize(
        ("kind", "kernels"), [("f32", 0), ("i16", 0), ("i8", 1), ("f64", 1), ("i1", 1), ("index", 1)]
    )
    def test_memset_of_any_width(self, kind: str, kernels: int) -> None:
        value = "1.0" if kind.startswith("f") else "true" if kind == "i1" else f"1 : {kind}"
        value = f"{value} : {kind}" if kind.startswith("f") else value
        source = function(
            f"f(%x: memref<?x{kind}>)",
            f"%v = arith.constant {value}\n%t = gpu.wait async\n"
            f"%u = gpu.memset async [%t] %x, %v : memref<?x{kind}>, {kind}\ngpu.wait [%u]",
        )
        assert len(lower(source).kernels) == kernels

    def test_strided_copies_are_a_kernels_work(self) -> None:
        view = "memref<4xf32, strided<[4], offset: 1>>"
        source = function(
            "f(%x: memref<4x4xf32>, %y: memref<4xf32>)",
            f"%s = memref.subview %x[0, 1] [4, 1] [1, 1] : memref<4x4xf32> to {view}\n"
            f"gpu.memcpy %y, %s : memref<4xf32>, {view}",
        )
        assert [each.schedule for each in lower(source).kernels] == ["general"]

    def test_registered_globals_stay_where_they_are(self) -> None:
        done = lower(
            'memref.global "private" @g : memref<4xf32> = dense<2.0>\n'
            + function(
                "f()",
                "%g = memref.get_global @g : memref<4xf32>\n%u = memref.cast %g : memref<4xf32> to memref<*xf32>\n"
                "gpu.host_register %u : memref<*xf32>\n" + launch("memref.store %f1, %g[%tx] : memref<4xf32>"),
            )
        )
        assert done.host.count("memref.global") == 1
        assert "unrealized" not in done.host


class TestResults:
    def test_device_memory_is_copied_out(self) -> None:
        done = lower(
            function(
                "f(%n: index)",
                "%m = gpu.alloc (%n) : memref<?xf32>\nreturn %m, %n : memref<?xf32>, index",
                "-> (memref<?xf32>, index)",
            )
        )
        body = done.body("f")
        assert body.index("aot_rt_result_extent") < body.index("@aot_rt_result(") < body.index("gpu.memcpy")
        assert "return %arg0 : index" in body

    def test_an_argument_is_an_alias(self) -> None:
        done = lower(function(ARRAY, launch(STORE) + "return %x : memref<4xf32>", "-> memref<4xf32>"))
        assert done.function("f").results[0].argument == 0
        assert "aot_rt_result" not in done.host

    def test_either_an_argument_or_new_memory_is_copied(self) -> None:
        done = lower(
            function(
                "f(%x: memref<4xf32>, %b: i1)",
                "%m = gpu.alloc () : memref<4xf32>\n"
                "%r = scf.if %b -> memref<4xf32> {\nscf.yield %x : memref<4xf32>\n}"
                " else {\nscf.yield %m : memref<4xf32>\n}\n"
                "return %r : memref<4xf32>",
                "-> memref<4xf32>",
            )
        )
        assert done.function("f").results[0].argument is None
        assert "aot_rt_result" in done.host

    def test_a_strided_view_becomes_contiguous(self) -> None:
        kind = "memref<4x2xf32, strided<[4, 1], offset: 1>>"
        done = lower(
            function(
                "f(%x: memref<4x4xf32>)",
                f"gpu.wait\n%s = memref.subview %x[0, 1] [4, 2] [1, 1] : memref<4x4xf32> to {kind}\nreturn %s : {kind}",
                f"-> {kind}",
            )
        )
        assert done.function("f").results[0].type.text() == "memref<4x2xf32>"
        assert len(done.kernels) == 1


REFUSED = {
    "mixed-copy": (
        function(ARRAY, "gpu.wait\n" + HOST + "memref.copy %h, %x : memref<4xf32> to memref<4xf32>"),
        "'memref.copy' uses host and device memory at once: copy with gpu.memcpy first",
        "memref.copy",
    ),
    "mixed-linalg": (
        function(ARRAY, "gpu.wait\n" + HOST + "linalg.copy ins(%h : memref<4xf32>) outs(%x : memref<4xf32>)"),
        "'linalg.copy' uses host and device memory at once",
        "linalg.copy",
    ),
    "host-in-kernel": (
        function("f()", HOST + launch("memref.store %f1, %h[%tx] : memref<4xf32>")),
        "a kernel gets host memory",
        "memref.store",
    ),
    "mutable-global": (
        'memref.global "private" @g : memref<4xf32> = dense<1.0>\n'
        + function(
            ARRAY,
            "%h = memref.get_global @g : memref<4xf32>\n"
            + launch("%v = memref.load %h[%tx] : memref<4xf32>\nmemref.store %v, %x[%tx] : memref<4xf32>"),
        ),
        "a kernel uses '@g', which is not constant",
        "%v = memref.load",
    ),
    "either-memory-in-a-kernel": (
        function(
            "f(%x: memref<4xf32>, %b: i1)",
            HOST
            + "%r = arith.select %b, %x, %h : memref<4xf32>\n"
            + launch("memref.store %f1, %r[%tx] : memref<4xf32>"),
        ),
        "a kernel gets memory that is the host's on one path",
        "memref.store",
    ),
    "thread-id-on-the-host": (
        function("f()", "gpu.wait\n%t = gpu.thread_id x"),
        "'gpu.thread_id' in host code",
        "%t = gpu.thread_id",
    ),
    "strided-copy-to-the-host": (
        function(
            "f(%x: memref<4x4xf32>)",
            HOST
            + "%s = memref.subview %x[0, 1] [4, 1] [1, 1] : memref<4x4xf32> to memref<4xf32, strided<[4], offset: 1>>\n"
            "gpu.memcpy %h, %s : memref<4xf32>, memref<4xf32, strided<[4], offset: 1>>",
        ),
        "one of its arrays has a strided layout",
        "gpu.memcpy",
    ),
    "token-in-a-kernel": (
        function(ARRAY, "%t = gpu.wait async\n" + launch("gpu.wait [%t]\n" + STORE)),
        "a kernel cannot get a value of type '!gpu.async.token'",
        "gpu.wait [%t]",
    ),
    "unranked-in-a-kernel": (
        function(
            ARRAY,
            "%u = memref.cast %x : memref<4xf32> to memref<*xf32>\n"
            + launch("%r = memref.cast %u : memref<*xf32> to memref<4xf32>\nmemref.store %f1, %r[%tx] : memref<4xf32>"),
        ),
        "a kernel cannot get a value of type 'memref<*xf32>'",
        "%r = memref.cast",
    ),
    "memory-space": (
        function("f()", "%m = gpu.alloc () : memref<4xf32, 1>"),
        "leave the memory space out",
        "%m = gpu.alloc",
    ),
    "either-memory": (
        function(
            "f(%x: memref<4xf32>, %b: i1)",
            "gpu.wait\n"
            + HOST
            + "%r = arith.select %b, %x, %h : memref<4xf32>\nmemref.store %f1, %r[%c0] : memref<4xf32>",
        ),
        "memory that is the host's on one path and the device's on another",
        "memref.store",
    ),
    "memset-of-host-memory": (
        function("f()", HOST + "gpu.memset %h, %f1 : memref<4xf32>, f32"),
        "use linalg.fill",
        "gpu.memset",
    ),
    "wrong-free": (function(ARRAY, "gpu.wait\nmemref.dealloc %x : memref<4xf32>"), "use gpu.dealloc", "memref.dealloc"),
    "wrong-device-free": (
        function("f()", HOST + "gpu.dealloc %h : memref<4xf32>"),
        "use memref.dealloc",
        "gpu.dealloc",
    ),
    "returned-host-memory": (
        function("f()", "gpu.wait\n" + HOST + "return %h : memref<4xf32>", "-> memref<4xf32>"),
        "memory of the host, not of the device",
        "return",
    ),
    "tensor": (
        function("f(%x: tensor<4xf32>)", "gpu.wait\n%y = arith.addf %x, %x : tensor<4xf32>"),
        "'arith.addf' makes a tensor",
        "%y = ",
    ),
    "recursion": (
        "func.func @f(%n: index) {\ngpu.wait\ncall @f(%n) : (index) -> ()\nreturn }",
        "function '@f' calls itself",
        "func.func @f",
    ),
    "unranked-argument": (function("f(%x: memref<*xf32>)", "gpu.wait"), "the rank must be known", "func.func @f"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, message, start = REFUSED[case]
    with pytest.raises(LoweringError) as caught:
        lower(source)
    found = [each for each in caught.value.diagnostics if message in each.message]
    assert found, caught.value.text()
    assert found[0].source_line.startswith(start)


@pytest.mark.parametrize(
    "source",
    ["func.func private @f() { return }", "module {}", "func.func private @f()", "gpu.module @m {}",
     "gpu.module @m { func.func @f() { return } }"],
    ids=["private", "empty", "declaration", "empty-gpu-module", "device-function"],
)  # fmt: skip
def test_no_kernels(source: str) -> None:
    with pytest.raises(SourceError, match="no kernels"):
        lower(source)


PRINTF = {
    "too-few": ("%d %d", "%i : i32", "2 conversions for 1 arguments"),
    "too-many": ("x", "%i : i32", "0 conversions for 1 arguments"),
    "float-as-integer": ("%d", "%f1 : f32", "prints integers"),
    "integer-as-float": ("%f", "%i : i32", "prints floating-point numbers"),
    "unknown": ("%y", "%i : i32", "no conversion"),
    "dangling": ("100%", "%i : i32", "no conversion"),
    "string": ("%s", "%i : i32", "prints pointers"),
    "star": ("%*d", "%i : i32", "width or precision"),
    "n": ("%n", "%i : i32", "no conversion"),
}


@pytest.mark.parametrize("case", PRINTF)
def test_printf_that_does_not_fit(case: str) -> None:
    text, argument, message = PRINTF[case]
    body = "%i = arith.constant 1 : i32\n" + launch(f'gpu.printf "{text}", {argument}')
    with pytest.raises(LoweringError) as caught:
        lower(function("f()", body))
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].line == 8


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("%d", "index", "%lld"),
        ("%lld", "i32", "%d"),
        ("%5ld|", "i64", "%5lld|"),
        ("%hhu%%", "i8", "%u%%"),
        ("%-8.3f", "f16", "%-8.3f"),
        ("%#llx", "i16", "%#x"),
    ],
)
def test_printf_lengths_follow_the_arguments(text: str, type_: str, expected: str) -> None:
    value = "1.0" if type_.startswith("f") else "1"
    body = f"%v = arith.constant {value} : {type_}\n" + launch(f'gpu.printf "{text}", %v : {type_}')
    assert f'gpu.printf "{expected}"' in lower(function("f()", body)).host


def test_a_called_public_function_keeps_a_private_copy() -> None:
    branch = "cf.cond_br %b, ^a, ^d\n^a:\n" + launch(STORE) + "cf.br ^d\n^d:\nreturn %x : memref<4xf32>"
    source = function("f(%x: memref<4xf32>, %b: i1)", branch, "-> memref<4xf32>") + function(
        "g(%x: memref<4xf32>, %b: i1)",
        "scf.for %i = %c0 to %c4 step %c1 {\nfunc.call @f(%x, %b) : (memref<4xf32>, i1) -> memref<4xf32>\n}",
    )
    done = lower(source)
    assert [each.name for each in done.functions] == ["f", "g"]
    assert "f_inner1" in done.body("g")
    assert done.function("f").results[0].argument == 0


def test_functions_that_only_kernels_call_stay_device_code() -> None:
    source = (
        "func.func private @put(%x: memref<4xf32>, %i: index, %b: i1) {\n%f1 = arith.constant 1.0 : f32\n"
        "cf.cond_br %b, ^a, ^d\n^a:\nmemref.store %f1, %x[%i] : memref<4xf32>\ncf.br ^d\n^d:\nreturn }\n"
    ) + function(
        "f(%x: memref<4xf32>, %b: i1)",
        launch("scf.for %i = %c0 to %c4 step %c1 {\nfunc.call @put(%x, %i, %b) : (memref<4xf32>, index, i1) -> ()\n}")
        + "memref.store %f1, %x[%c0] : memref<4xf32>",
    )
    done = lower(source)
    assert "func.func @aot_test__put" not in done.host
    assert "func.func private @f__put" in done.host
    assert "aot.device" not in done.host
    assert len(done.kernels) == 2


def test_modules_inside_the_source_are_taken_out() -> None:
    inner = "module attributes {gpu.container_module} {\ngpu.module @m { gpu.func @k() kernel { gpu.return } }\n"
    inner += function("f()", "gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)") + "}\n"
    done = lower(inner + function("g()", "gpu.wait"))
    assert [each.name for each in done.functions] == ["f", "g"]
    with pytest.raises(LoweringError, match="define the same symbol"):
        lower(inner + function("f()", "gpu.wait"))


def test_both_levels_in_one_source() -> None:
    source = function(
        "square(%x: tensor<4xf32>)",
        "%r = arith.mulf %x, %x : tensor<4xf32>\nreturn %r : tensor<4xf32>",
        "-> tensor<4xf32>",
    )
    source += function(
        "check(%x: tensor<?xf32>)",
        '%n = tensor.dim %x, %c0 : tensor<?xf32>\n%b = arith.cmpi ne, %n, %c0 : index\ncf.assert %b, "empty"',
    )
    source += function("fill(%x: memref<4xf32>, %b: i1)", 'cf.assert %b, "not now"\n' + launch(STORE))
    done = lower(source)
    assert {each.name: each.level for each in done.functions} == {"square": TENSOR, "check": TENSOR, "fill": LAUNCH}
    assert [text.split(" (")[0] for text in done.messages] == ["empty", "not now"]
    assert len(done.kernels) == 2


def test_launches_are_told_by_the_extents_of_arguments() -> None:
    source = """
    func.func @f(%x: tensor<?x33xf32>, %n: index) -> tensor<?x33xf32> {
      %c0 = arith.constant 0 : index
      %m = tensor.dim %x, %c0 : tensor<?x33xf32>
      %e = tensor.empty(%m) : tensor<?x33xf32>
      %y = linalg.exp ins(%x : tensor<?x33xf32>) outs(%e : tensor<?x33xf32>) -> tensor<?x33xf32>
      return %y : tensor<?x33xf32>
    }"""
    tiling = lower(source, {"f": ["x", "n"]}).kernels[0].tiling
    assert tiling is not None
    assert tiling.grid[0].startswith("ceildiv(x.0 * 33, ")
    assert tiling.launch().endswith(f"threads {tiling.block[0]}")
