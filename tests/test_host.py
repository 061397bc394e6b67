"""Host code: assembly for each machine, whole, hidden, and the same everywhere."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from pathlib import Path

import pytest

from aot import host, process
from aot.errors import CompilerCrash, LoweringError, ToolMissing, UsageError
from aot.tools import toolchain
from aot.tools.toolchain import Toolchain

TRIPLES = sorted(host.PROCESSORS)
ENTRY = """
source_filename = "/home/somebody/kernels/k.mlir"
@table = external hidden constant i8
@text = internal constant [10 x i8] c"a # b // c"
declare void @aot_rt_launch(ptr, ptr)
declare float @expf(float)
define hidden void @aot_entry_k__f(ptr %slots) {
  %params = alloca [4 x ptr]
  store ptr @text, ptr %params
  call void @aot_rt_launch(ptr @table, ptr %params)
  %x = load half, ptr %slots
  %y = fpext half %x to float
  %e = call float @expf(float %y)
  %z = fptrunc float %e to half
  store half %z, ptr %slots
  ret void
}
define void @not_hidden() { ret void }
define internal void @unused() { ret void }
!llvm.ident = !{!0}
!0 = !{!"somebody's compiler"}
"""


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    return toolchain.find(environment={})


def objects(assembly: bytes, triple: str, tools: Toolchain, folder: Path) -> dict[str, str]:
    """Symbols of the assembled text, by name, with nm's letter."""
    source, made = folder / f"{triple}.s", folder / f"{triple}.o"
    source.write_bytes(assembly)
    process.check([tools.llc.parent / "llvm-mc", f"-triple={triple}", "-filetype=obj", source, "-o", made])
    lines = process.check([tools.llc.parent / "llvm-nm", made]).stdout.decode().splitlines()
    return {line.split()[-1]: line.split()[-2] for line in lines}


@pytest.mark.parametrize("triple", TRIPLES)
def test_assembly_assembles(triple: str, tools: Toolchain, tmp_path: Path) -> None:
    made = host.assemble(ENTRY, triple, "k.mlir", tools)
    assert made.triple == triple
    symbols = objects(made.assembly, triple, tools, tmp_path)
    assert symbols["aot_entry_k__f"] == "T"
    assert symbols["aot_rt_launch"] == symbols["expf"] == symbols["table"] == "U"
    assert "unused" not in symbols
    assert b"a # b // c" in made.assembly


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
def test_the_c_compiler_takes_it(tools: Toolchain, tmp_path: Path) -> None:
    triple = f"{os.uname().machine}-linux-gnu"
    (tmp_path / "k.s").write_bytes(host.assemble(ENTRY, triple, "k.mlir", tools).assembly)
    compiler = shutil.which("cc")
    assert compiler is not None
    process.check([compiler, "-c", tmp_path / "k.s", "-o", tmp_path / "k.o"])


@pytest.mark.parametrize("triple", TRIPLES)
def test_every_symbol_is_hidden(triple: str, tools: Toolchain) -> None:
    text = host.assemble(ENTRY, triple, "k.mlir", tools).assembly.decode()
    assert set(re.findall(r"\.globl\s+(\S+)", text)) <= set(re.findall(r"\.hidden\s+(\S+)", text))


@pytest.mark.parametrize("triple", TRIPLES)
def test_nothing_of_the_builder_is_left(triple: str, tools: Toolchain) -> None:
    text = host.assemble(ENTRY, triple, "k.mlir", tools).assembly.decode()
    for secret in ("somebody", ".file", ".ident", "/home"):
        assert secret not in text


@pytest.mark.parametrize("triple", TRIPLES)
def test_the_same_text_twice_and_anywhere(
    triple: str, tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host.assemble(ENTRY, triple, "k.mlir", tools)
    monkeypatch.chdir(tmp_path)
    assert host.assemble(ENTRY, triple, "k.mlir", tools) == here


def test_the_oldest_processor_is_meant(tools: Toolchain) -> None:
    multiply_add = """
        declare float @llvm.fma.f32(float, float, float)
        define float @f(float %a, float %b, float %c) {
          %r = call float @llvm.fma.f32(float %a, float %b, float %c)
          ret float %r
        }"""
    assert b"vfmadd" not in host.assemble(multiply_add, "x86_64-linux-gnu", "k.mlir", tools).assembly
    assert b"fmadd" in host.assemble(multiply_add, "aarch64-linux-gnu", "k.mlir", tools).assembly


COROUTINE = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
declare ptr @malloc(i64)
define ptr @f() presplitcoroutine {
  %id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %memory = call ptr @malloc(i64 64)
  %frame = call ptr @llvm.coro.begin(token %id, ptr %memory)
  %state = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %state, label %done [i8 0, label %done
                                 i8 1, label %done]
done:
  call void @llvm.coro.end(ptr %frame, i1 false, token none)
  ret ptr %frame
}
"""


def test_coroutines_are_split(tools: Toolchain) -> None:
    assert b"f.resume" in host.assemble(COROUTINE, "x86_64-linux-gnu", "k.mlir", tools).assembly


def test_only_coroutines_need_opt_where_code_need_not_be_fast(tools: Toolchain) -> None:
    without = dataclasses.replace(tools, opt=Path("/nowhere/opt"))
    made = host.assemble(ENTRY, "x86_64-linux-gnu", "k.mlir", without, quick=True).assembly
    assert b"aot_entry_k__f" in made
    for code, quick in ((ENTRY, False), (COROUTINE, True)):
        with pytest.raises(ToolMissing, match="/nowhere/opt"):
            host.assemble(code, "x86_64-linux-gnu", "k.mlir", without, quick=quick)


def test_bad_llvm_ir_is_an_error_with_the_source(tools: Toolchain) -> None:
    with pytest.raises(LoweringError, match=r"kernels/k.mlir: opt refuses the host code") as caught:
        host.assemble("define nonsense", "x86_64-linux-gnu", "kernels/k.mlir", tools)
    assert "expected type" in caught.value.message


def test_a_crash_of_llvm_is_an_error_with_the_source(tools: Toolchain) -> None:
    unselectable = 'define void @f() { call void asm sideeffect "", "{nosuchregister}"(i64 1)\n ret void }'
    with pytest.raises((CompilerCrash, LoweringError), match=r"kernels/k.mlir"):
        host.assemble(unselectable, "x86_64-linux-gnu", "kernels/k.mlir", tools)


def test_other_machines_are_refused(tools: Toolchain) -> None:
    with pytest.raises(UsageError, match="no host code for 'riscv64-linux-gnu'"):
        host.assemble(ENTRY, "riscv64-linux-gnu", "k.mlir", tools)
