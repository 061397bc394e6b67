"""From sources to a wheel: what is built, what is built again, and that nothing depends on where or how."""

from __future__ import annotations

import json
import platform
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from builtpackage import KERNEL, TENSOR, Built, build_in, write_sources

import aot
from aot import onesource
from aot.commands import inspection
from aot.engine import compiling, job, ninjafile, worker
from aot.engine.cachelevels import Levels
from aot.engine.forked import Alone
from aot.engine.ninjafile import Edge
from aot.errors import AotError, LoweringError, SourceError


def test_the_wheel_holds_the_package(built: Built) -> None:
    result = built.result
    assert result.wheel.parent == built.folder / "dist"
    assert result.wheel.name.startswith("small_demo-1.5-cp310-abi3-")
    names = zipfile.ZipFile(result.wheel).namelist()
    assert {"small_demo/__init__.py", "small_demo/aot.json", "small_demo/tensor_level.pyi"} <= set(names)
    assert [name for name in names if name.endswith(".so")] == ["small_demo/_small_demo.abi3.so"]


def test_the_source_distribution_holds_the_tree(built: Built) -> None:
    assert built.result.sdist is not None
    with tarfile.open(built.result.sdist) as archive:
        names = archive.getnames()
    assert "small_demo-1.5/csrc/tables.c" in names
    assert "small_demo-1.5/blobs/kernel.fatbin" in names


def test_the_result_says_what_was_built(built: Built) -> None:
    rows = {each.name: (each.functions, each.images, each.skipped) for each in built.result.sources}
    both = ("sm_80", "sm_90", "compute_90")
    assert rows == {
        "hopper": (("hopper_only",), ("sm_90a",), ("sm_80",)),
        "kernel": (("iota",), both, ()),
        "launch": (("first",), both, ()),
        "tensor_level": (("double",), both, ()),
    }
    assert built.result.archs == ("sm_80", "sm_90")


def test_docs_and_names_come_from_the_text(built: Built) -> None:
    with zipfile.ZipFile(built.result.wheel) as wheel:
        manifest = json.loads(wheel.read("small_demo/aot.json"))
    modules = {module["name"]: module for module in manifest["modules"]}
    function = modules["tensor_level"]["functions"][0]
    assert (function["args"][0]["name"], function["doc"]) == ("x", "Doubles.")
    kernel = modules["kernel"]["kernels"][0]
    assert (kernel["params"][0]["name"], kernel["doc"]) == ("out", "Writes its own number into each element.")
    assert kernel["module"] == "inner"


def test_messages_name_files_without_their_folder(built: Built) -> None:
    """That the whole wheel is the same from another folder is checked below."""
    tables = (built.result.tree / "csrc" / "tables_0.c").read_text()
    assert '"x is too long (tensor-level.mlir:7)"' in tables


def test_the_ir_of_each_stage_is_kept(built: Built) -> None:
    names = sorted(path.name for path in (built.folder / "dump" / "tensor_level").iterdir())
    assert names[0] == "00-source.mlir"
    kinds = {name[3:] for name in names}
    assert {"linalg.mlir", "joined.mlir", "device-sm_80.mlir", "sm_80.ptx", "images.fatbin", "host.ll"} <= kinds
    assert names[0] == job.FIRST_DUMP
    (binary,) = (name for name in names if name.endswith("-binary.mlir"))
    assert "gpu.binary" in (built.folder / "dump" / "tensor_level" / binary).read_text()


def test_line_information_names_files_without_their_folder(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    for name, text in {"inner.mlir": KERNEL, "tensor.mlir": TENSOR}.items():
        (tmp_path / "kernels" / name).write_text(text)
    result = build_in(tmp_path, archs="sm_80", lineinfo=True).result
    for blob in inspection.inspect(str(result.wheel)).package.blobs:
        assert b".debug_line" in blob.data
        assert f"{blob.source}.mlir".encode() in blob.data
        assert str(tmp_path).encode() not in blob.data
    ptx = inspection.ptx_text(str(result.wheel), "iota")
    assert re.search(r"\.loc\s+1 4 ", ptx), ptx


def test_the_same_kernels_in_two_sources_are_stored_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "kernels").mkdir(exist_ok=True)
        (tmp_path / "kernels" / f"{name}.mlir").write_text(KERNEL)
    result = build_in(tmp_path, archs="sm_80", ptx=False).result
    assert [path.name for path in (result.tree / "blobs").iterdir()] == ["one.fatbin"]
    one, two = inspection.inspect(str(result.wheel)).package.blobs
    assert (one.source, two.source, one.data) == ("one", "two", two.data)


def test_a_second_build_compiles_nothing_and_a_change_only_what_it_must(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "again"
    write_sources(folder)
    first = build_in(folder)
    assert sorted(first.heard.compiled) == ["hopper.mlir", "kernel.mlir", "launch.mlir", "tensor-level.mlir"]
    assert first.result.wheel.read_bytes() == built.result.wheel.read_bytes(), "another folder, another wheel"

    assert build_in(folder).heard.compiled == []

    source = folder / "kernels" / "launch.mlir"
    good = source.read_text()
    source.write_text(good.replace("%c1 =", "%c2 ="))
    with pytest.raises(SourceError, match=r"launch\.mlir"):
        build_in(folder)
    assert first.result.wheel.read_bytes() == built.result.wheel.read_bytes()
    source.write_text(good)
    assert build_in(folder).heard.compiled == ["launch.mlir"]

    (folder / "kernels" / "aot.toml").write_text(
        'edition = 1\n[source.launch]\narchs = ["sm_90"]\n[source.hopper]\narchs = "90a"'
    )
    assert sorted(build_in(folder, name="small-demo", version="1.5").heard.compiled) == ["launch.mlir"]


LOOP = (
    "func.func @fill(%x: memref<8xf32>) {\n"
    "  %one = arith.constant 1.0 : f32\n"
    "  affine.for %i = 0 to 8 {\n    affine.store %one, %x[%i] : memref<8xf32>\n  }\n"
    "  return\n}\n"
)


def test_schedules_that_are_off_are_told_and_make_another_package(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    for name, text in {"kernel.mlir": KERNEL, "tensor.mlir": TENSOR}.items():
        (tmp_path / "kernels" / name).write_text(text)
    note = "general schedules for tensor: kernels are slower than by default"
    runs = (
        ("general", "built", "general", [note]),
        ("fast", "built", "pointwise", []),
        ("general", "cached", "general", [note]),
    )
    for schedules, how, of_kernel, notes in runs:
        built = build_in(tmp_path, archs="sm_80", ptx=False, cache=str(tmp_path / "cache"), schedules=schedules)
        assert {(each.how, each.schedules) for each in built.result.sources} == {(how, schedules)}
        assert [each for each in built.heard.notes if "schedules" in each] == notes
        shown = inspection.inspect(str(built.result.wheel))
        assert (note in inspection.text(shown)) == bool(notes)
        kernel, tensor = shown.package.manifest["modules"]
        assert (kernel["schedules"], tensor["schedules"], tensor["kernels"][0]["schedule"]) == (
            schedules,
            schedules,
            of_kernel,
        )


def test_one_text_is_for_all_architectures_where_nothing_but_the_general_schedule_is(tmp_path: Path) -> None:
    """Kernels of the user's, and functions with a table of their own, are built as ever."""
    (tmp_path / "kernels").mkdir()
    for name, text in {"kernel": KERNEL, "plain": TENSOR, "wished": TENSOR}.items():
        (tmp_path / "kernels" / f"{name}.mlir").write_text(text)
    (tmp_path / "kernels" / "aot.toml").write_text("edition = 1\n[source.wished.function.double]\nwidth = 2\n")
    dump = tmp_path / "dump"
    build_in(tmp_path, archs="sm_80,sm_100", ptx=False, dump=str(dump), schedules="general")
    lowered = {each.name: sorted(path.stem[3:] for path in each.glob("*-device-*")) for each in dump.iterdir()}
    both = ["device-sm_100", "device-sm_80"]
    assert lowered == {"kernel": both, "plain": ["device-sm_80"], "wished": both}


def test_passes_of_a_source_run_first(tmp_path: Path) -> None:
    """A pipeline of the user's that ends in gpu.launch makes the function launch level."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "fill.mlir").write_text(LOOP)
    own = "func.func(convert-affine-for-to-gpu{gpu-block-dims=0 gpu-thread-dims=1})"
    (kernels / "aot.toml").write_text(f'edition = 1\n[source.fill]\npasses = ["{own}"]\n')
    built = build_in(tmp_path, name="own-passes", archs="sm_80", ptx=False)
    assert built.heard.stages[0] == "compiling 1 source for sm_80"
    result = built.result
    with zipfile.ZipFile(result.wheel) as wheel:
        module = json.loads(wheel.read("own_passes/aot.json"))["modules"][0]
    assert module["functions"][0]["level"] == "launch"
    assert len(module["kernels"]) == 1


SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %function = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_registered_pass "convert-affine-for-to-gpu"
        with options = {"gpu-block-dims" = 0, "gpu-thread-dims" = 1} to %function
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def test_a_script_beside_a_source_takes_over(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "fill.mlir").write_text(LOOP)
    (kernels / "fill.transform.mlir").write_text(SCRIPT)
    built = build_in(tmp_path, name="own-script", archs="sm_80", ptx=False)
    with zipfile.ZipFile(built.result.wheel) as wheel:
        module = json.loads(wheel.read("own_script/aot.json"))["modules"][0]
    assert module["functions"][0]["level"] == "launch"


def test_sources_left_out_are_told(tmp_path: Path) -> None:
    write_sources(tmp_path)
    (tmp_path / "kernels" / "launch.mlir").unlink()
    done = build_in(tmp_path, archs="sm_80", ptx=False)
    assert done.result.left_out == ("hopper",)
    assert [each.name for each in done.result.sources] == ["kernel", "tensor_level"]
    assert any("'hopper' is left out" in note for note in done.heard.notes)
    assert "hopper: left out: nothing of it is built" in inspection.text(aot.inspect(str(done.result.wheel)))


def test_ready_binaries_pass_through(built: Built, tmp_path: Path) -> None:
    blob = (built.folder / "build" / "objects" / "kernel" / job.BLOB).read_bytes()
    escaped = "".join(f"\\{byte:02X}" for byte in blob)
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "ready.mlir").write_text(
        "module attributes {gpu.container_module} {\n"
        f'  gpu.binary @inner [#gpu.object<#nvvm.target<chip = "sm_80">, fatbin = "{escaped}">]\n'
        "  func.func @run(%out: memref<?xi32>) {\n"
        "    %c1 = arith.constant 1 : index\n"
        "    gpu.launch_func @inner::@inner__iota blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)"
        " args(%out : memref<?xi32>)\n    return\n  }\n}\n"
    )
    done = build_in(tmp_path, name="ready", archs="sm_75,sm_86")
    assert (tmp_path / "build" / "tree" / "blobs" / "ready.fatbin").read_bytes() == blob
    assert done.result.sources[0].images == ("sm_80", "sm_90", "compute_90")
    assert any("its ready binary has nothing for sm_75" in note for note in done.heard.notes)


OWN_TARGETS = [
    ("narrow the request", "sm_75,sm_80,sm_90", ("sm_80", "compute_80"), "not built for sm_75, sm_90"),
    ("were not asked for", "sm_90", ("sm_80",), "is built for its own targets (sm_80)"),
]


@pytest.mark.parametrize(("archs", "images", "note"), [row[1:] for row in OWN_TARGETS], ids=[r[0] for r in OWN_TARGETS])
def test_targets_in_the_source(tmp_path: Path, archs: str, images: tuple[str, ...], note: str) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    text = KERNEL.replace("gpu.module @inner", 'gpu.module @inner [#nvvm.target<chip = "sm_80">]')
    (kernels / "own.mlir").write_text(text)
    done = build_in(tmp_path, name="own-targets", archs=archs)
    assert done.result.sources[0].images == images
    assert any(note in each for each in done.heard.notes) == bool(note)


def test_bytecode_is_a_source(tmp_path: Path) -> None:
    from mlir import ir

    kernels = tmp_path / "kernels"
    kernels.mkdir()
    with ir.Context(), (kernels / "compact.mlirbc").open("wb") as file:
        ir.Module.parse(TENSOR).operation.write_bytecode(file)
    result = build_in(tmp_path, name="compact", archs="sm_80", ptx=False).result
    assert result.sources[0].functions == ("double",)


def test_a_failing_worker_is_a_bug_with_its_traceback(tmp_path: Path, built: Built) -> None:
    """A job that names no architecture of the table cannot come from a plan."""
    todo = job.decode((built.folder / "build" / "jobs" / "launch.json").read_bytes())
    wrong = job.CompileJob(
        **{**vars(todo), "triples": ("x86_64-linux-gnu",), "output": str(tmp_path), "compress": "odd"}
    )
    assert worker.compile_job(wrong, lambda stage: None, Alone(), Levels()).code == 1
    failure = job.read_failure(tmp_path)
    assert failure is not None
    assert failure.kind == job.BUG
    assert "Traceback" in failure.message
    assert "launch.mlir" in failure.message


def test_results_and_failures_travel_whole(built: Built, tmp_path: Path) -> None:
    todo = job.decode((built.folder / "build" / "jobs" / "tensor_level.json").read_bytes())
    compiled = job.read_result(todo)
    assert compiled.fatbin is not None
    assert len(compiled.fatbin.data) == built.result.sources[3].blob_bytes
    moved = job.CompileJob(**{**vars(todo), "output": str(tmp_path)})
    job.write_result(moved, compiled)
    assert job.read_result(moved) == compiled
    job.write_failure(tmp_path, job.failure(LoweringError("no", hint="do")))
    assert not (tmp_path / job.RESULT).exists(), "ninja would take an old result for this one's"
    found = job.read_failure(tmp_path)
    assert found is not None
    assert isinstance(job.as_error(found), LoweringError)
    assert job.as_error(found).text() == "no\nhint: do"


def test_several_errors_are_one() -> None:
    same = compiling.together([SourceError("a"), SourceError("b")], "2 failed")
    assert (type(same), same.message) == (SourceError, "2 failed\na\nb")
    assert type(compiling.together([SourceError("a"), LoweringError("b")], "2 failed")) is AotError


def test_a_source_that_changes_during_the_build_is_refused(built: Built, tmp_path: Path) -> None:
    todo = job.decode((built.folder / "build" / "jobs" / "launch.json").read_bytes())
    shutil.copy(built.folder / "kernels" / "kernel.mlir", tmp_path / "launch.mlir")
    changed = job.CompileJob(**{**vars(todo), "file": str(tmp_path / "launch.mlir")})
    with pytest.raises(SourceError, match="changed while it was being built"):
        onesource.compile_source(changed, lambda stage: None, Alone())


def test_ninja_files_quote_what_ninja_reads() -> None:
    text = ninjafile.build_file([Edge("a b", "/w x/$j.json", "/w x/o:1/source.json")], "/w x")
    assert "builddir = /w x\n" in text
    assert "build /w$ x/o$:1/source.json: compile /w$ x/$$j.json\n" in text
    assert "  in_job = '/w x/$$j.json'\n" in text
    edge = Edge("a", "/j.json", "/o/source.json", ("/d/00.mlir",))
    assert "build /o/source.json | /d/00.mlir: compile /j.json\n" in ninjafile.build_file([edge], "/w")


def test_the_python_interface_has_the_same_words() -> None:
    assert {"build", "inspect", "BuildRequest", "BuildResult", "AotError"} <= set(aot.__all__)
    assert callable(aot.build)
    assert callable(aot.inspect)
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        aot.biuld  # noqa: B018


def test_a_wheel_names_its_own_machine_only(built: Built) -> None:
    """The tree has code for two machines when a source distribution is asked for; a wheel is of one."""
    tree = json.loads(next(built.result.tree.glob("src/*/aot.json")).read_text())
    hosts = {module["name"]: module["host"] for module in tree["modules"]}
    assert hosts["launch"] == ["aarch64", "x86-64"]
    with zipfile.ZipFile(built.result.wheel) as archive:
        wheel = json.loads(archive.read("small_demo/aot.json"))
    (machine,) = next(module["host"] for module in wheel["modules"] if module["name"] == "launch")
    assert machine == {"x86_64": "x86-64", "aarch64": "aarch64"}[platform.machine()]
