"""One small package, built once by the product itself, for the tests that look at what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from onceperrun import once

import aot
from aot.reporting.report import Silent

TENSOR = """\
// Doubles.
func.func @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %most = arith.constant 4294967296 : index
  %length = tensor.dim %x, %zero : tensor<?xf32>
  %fits = arith.cmpi ult, %length, %most : index
  cf.assert %fits, "x is too long"
  %y = arith.addf %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""
LAUNCH = """\
func.func @first(%out: memref<4xf32>) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  gpu.launch blocks(%a, %b, %c) in (%g = %c1, %h = %c1, %i = %c1)
             threads(%d, %e, %f) in (%j = %c4, %k = %c1, %l = %c1) {
    %one = arith.constant 1.0 : f32
    memref.store %one, %out[%d] : memref<4xf32>
    gpu.terminator
  }
  return
}
"""
KERNEL = """\
gpu.module @inner {
  // Writes its own number into each element.
  gpu.func @iota(%out: memref<?xi32>) kernel attributes {aot.grid = [1], aot.block = [32]} {
    %i = gpu.thread_id x
    %v = arith.index_cast %i : index to i32
    memref.store %v, %out[%i] : memref<?xi32>
    gpu.return
  }
}
"""
HOPPER = KERNEL.replace("iota", "hopper_only")
SETTINGS = """\
edition = 1

[package]
name = "small-demo"
version = "1.5"

[source.hopper]
archs = ["sm_90a"]
"""
SOURCES = {"tensor-level.mlir": TENSOR, "launch.mlir": LAUNCH, "kernel.mlir": KERNEL, "hopper.mlir": HOPPER}


@dataclass
class Heard(Silent):
    """A Reporter that remembers."""

    compiled: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def progress(self, done: int, total: int, what: str) -> None:
        self.compiled.append(Path(what).name)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass(frozen=True)
class Built:
    """The package and how it was asked for."""

    folder: Path
    result: aot.BuildResult
    heard: Heard


def write_sources(folder: Path) -> Path:
    """A folder ``kernels`` in ``folder``."""
    kernels = folder / "kernels"
    kernels.mkdir(parents=True)
    for name, text in SOURCES.items():
        (kernels / name).write_text(text)
    (kernels / "aot.toml").write_text(SETTINGS)
    return kernels


@dataclass
class Curious(Heard):
    """The same with ``-v``."""

    verbose = True
    details: list[str] = field(default_factory=list)

    def detail(self, text: str) -> None:
        self.details.append(text)


def build_in(folder: Path, heard: Heard | None = None, **options: object) -> Built:
    """Builds ``folder/kernels`` with everything inside ``folder``."""
    heard = heard or Heard()
    places = {"out": str(folder / "dist"), "work": str(folder / "build"), "archs": "sm_80,sm_90", "jobs": 2}
    request = aot.BuildRequest((str(folder / "kernels"),), **{**places, **options})  # type: ignore[arg-type]
    return Built(folder, aot.build(request, heard), heard)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The package, and a cache that had nothing before; tests must leave its folder as it is."""

    def make(folder: Path) -> Built:
        write_sources(folder)
        return build_in(folder, sdist=True, dump=str(folder / "dump"), cache=str(folder / "cache"))

    return once(tmp_path_factory, "small demo $x", make)
