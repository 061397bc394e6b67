"""The generated extension against the fake driver: every case of tests/extension/cases.py in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import fakecuda
import pytest
from extension import source

from aot.engine.cache import Store
from aot.engine.cachelevels import Levels
from aot.errors import PackageError
from aot.model import CompiledSource, HostObject
from aot.tools import packid
from aot.wheels import rawzip, runtimeunits, wheel
from aot.wheels.runtimeobjects import Runtime
from aot.wheels.wheelfile import extension_of, problems

CASES = Path(source.HERE, "cases.py")
NAMES = source.case_names(CASES)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledSource:
    """The source `demo` with its host code."""
    return source.compiled(tmp_path_factory.mktemp("host"), fakecuda.compiler(), platform.machine())


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, compiled: CompiledSource) -> wheel.BuiltWheel:
    """The wheel of the test package."""
    folder = tmp_path_factory.mktemp("package")
    tree = source.write(folder / "tree", source.spec(top_level=(("twice", "demo"),)), compiled)
    return wheel.build(tree, folder / "wheel", wheel.Options(sdist=True))


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> wheel.Options:
    """Options with the runtime's objects, as a build gives them to CMake."""
    folder = tmp_path_factory.mktemp("runtime")
    runtime = Runtime(Levels(Store(folder / "cache")), folder / "first")
    runtime.begin()
    assert runtime.folder() == folder / "first" / "runtime"
    shutil.rmtree(folder / "first")
    return wheel.Options(runtime=Runtime(runtime.levels, folder / "second").folder())


def test_a_runtime_that_cannot_be_compiled_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-include nowhere.h")
    with pytest.raises(PackageError, match=r"(?s)the C runtime cannot be compiled: .*nowhere\.h"):
        Runtime(Levels(), tmp_path).folder()
    monkeypatch.setenv("CMAKE_ARGS", "-DCMAKE_BUILD_TYPE=Debug")
    assert Runtime(Levels(), tmp_path).folder() is None, "CMake, which hears of more than we do, compiles it"


def test_a_runtime_that_cannot_be_compiled_ends_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed meanwhile is told when a job has ended, not when all have."""
    monkeypatch.setenv("CFLAGS", "-include nowhere.h")
    runtime = Runtime(Levels(), tmp_path)
    runtime.check()
    runtime.begin()
    runtime.close()
    with pytest.raises(PackageError, match=r"nowhere\.h|the build is over"):
        runtime.check()


@pytest.mark.parametrize("compiler", ["env ", "gcc -specs="])
def test_every_file_that_the_compiler_is_started_by_makes_another_package(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    tool.chmod(0o755)
    monkeypatch.setenv("CC", f"{compiler}{tool}")
    before = packid.identity()
    tool.write_text("22")
    assert packid.identity() != before


def test_a_build_that_is_over_waits_for_no_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "cc"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    runtime = Runtime(Levels(), tmp_path / "wheel")
    runtime.begin()
    start = time.monotonic()
    runtime.close()
    with pytest.raises(PackageError, match="the build is over"):
        runtime.folder()
    assert time.monotonic() - start < 30


def test_the_runtime_compiles_without_warnings() -> None:
    """Its other half is compiled so for each test of the core."""
    include = sysconfig.get_paths()["include"]
    options = [
        *fakecuda.STRICT,
        "-std=gnu11",
        "-fsyntax-only",
        f"-I{include}",
        "-DPy_LIMITED_API=0x030a0000",
    ]
    sources = sorted(map(str, fakecuda.RUNTIME.glob("py_*.c")))
    done = subprocess.run(
        [*fakecuda.compiler().split(), *options, *sources], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_files_of_a_unit_compile_together(tmp_path: Path) -> None:
    """A type of one file may be called as a variable of another one is; what has a meaning may not have two."""
    names = [path.name for path in fakecuda.RUNTIME.iterdir()]
    units = [tmp_path / f"{unit}.c" for unit in runtimeunits.UNITS]
    for path, text in zip(units, runtimeunits.texts(names).values(), strict=True):
        path.write_text(text)
    folders = [fakecuda.RUNTIME, fakecuda.RUNTIME.parent, sysconfig.get_paths()["include"]]
    options = [*fakecuda.STRICT, "-Wno-shadow", "-std=gnu11", "-fsyntax-only", "-DPy_LIMITED_API=0x030a0000"]
    command = [*fakecuda.compiler().split(), *options, *(f"-I{folder}" for folder in folders), *map(str, units)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, made: wheel.BuiltWheel) -> Path:
    """A folder with the package in it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(made.wheel) as archive:
        archive.extractall(folder)
    return folder


def run(code: list[str], fake: Path, *folders: Path) -> subprocess.CompletedProcess[str]:
    environment = fakecuda.environment(fake, {"devices": 2})
    environment["PYTHONPATH"] = ":".join(map(str, folders))
    command = [sys.executable, "-X", "faulthandler", "-W", "error", *code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", NAMES)
def test_extension(name: str, site: Path, fake_cuda: Path) -> None:
    done = run([str(CASES), name], fake_cuda, site, source.HERE)
    assert done.returncode == 0, done.stdout + done.stderr


WITHOUT_A_DRIVER = """
import demopkg
report = demopkg.check()
assert not report and report.device is None and "no NVIDIA driver" in report.problems[0], report
for call in (demopkg.preload, lambda: demopkg.demo.make(3)):
    try:
        call()
    except demopkg.CudaError as error:
        assert "no NVIDIA driver" in str(error), error
    else:
        raise SystemExit("no error")
"""


def test_without_a_driver(site: Path, tmp_path: Path) -> None:
    done = run(["-c", WITHOUT_A_DRIVER], tmp_path, site)
    assert done.returncode == 0, done.stderr


TWO_VERSIONS = """
import importlib.util, sys
import kit, numpy as np
kit.start()
import demopkg as first, otherpkg as other
spec = importlib.util.spec_from_file_location("second", sys.argv[1] + "/demopkg/__init__.py",
                                              submodule_search_locations=[sys.argv[1] + "/demopkg"])
second = importlib.util.module_from_spec(spec)
sys.modules["second"] = second
spec.loader.exec_module(second)
assert (first.__version__, second.__version__, other.__version__) == ("1.0", "2.0", "1.0")
assert sys.modules["second.demo"] is second.demo is not first.demo
assert second.demo.twice.__module__ == "second.demo"
assert len({first.CudaError, second.CudaError, other.CudaError}) == 3
for package in (first, second, other, first):
    x = kit.CudaArray(np.arange(4, dtype="float32"))
    y = package.demo.twice(x)
    assert type(y) is package.DeviceArray
    assert type(other.demo.twice(y)) is other.DeviceArray, "one package takes another one's arrays"
loads = [line for line in kit.cuda.fake_log().decode().splitlines() if line.startswith("cuModuleLoadDataEx")]
assert len(loads) == 3, loads
try:
    second.demo.make(-1)
except ValueError:
    pass
try:
    other.preload(9)
except first.CudaError:
    raise SystemExit("the packages share an exception")
except other.CudaError:
    print("apart")
"""


def test_two_packages_and_two_versions_in_one_process(
    site: Path, fake_cuda: Path, compiled: CompiledSource, ready: wheel.Options, tmp_path: Path
) -> None:
    folders = []
    for name, version in (("demopkg", "2.0"), ("otherpkg", "1.0")):
        tree = source.write(tmp_path / f"{name}-tree", source.spec(name, version), compiled)
        built = wheel.build(tree, tmp_path / f"{name}-wheel", ready)
        folders.append(tmp_path / f"{name}-site")
        with zipfile.ZipFile(built.wheel) as archive:
            archive.extractall(folders[-1])
    done = run(["-c", TWO_VERSIONS, str(folders[0])], fake_cuda, site, folders[1], source.HERE)
    assert done.stdout == "apart\n", done.stderr


def test_wheel_is_what_it_should_be(made: wheel.BuiltWheel) -> None:
    name, data = made.wheel.name, made.wheel.read_bytes()
    assert name == f"demopkg-1.0-cp310-abi3-{made.platform}.whl"
    assert made.platform.startswith("manylinux_2_")
    assert len(data) <= len(source.BLOB) + 150_000
    extension, library = extension_of(rawzip.read(data))
    assert extension == "_demopkg.abi3.so"
    assert problems("_demopkg", library, {"demo.fatbin": source.BLOB}) == []
    assert problems("_other", library, {"x": b"not in it at all", "y": b"\0"})[0].startswith(
        "it exports PyInit__demopkg"
    )
    with zipfile.ZipFile(made.wheel) as archive:
        names = sorted(archive.namelist())
        assert [n for n in names if n.startswith("demopkg/")] == [
            "demopkg/__init__.py",
            "demopkg/__init__.pyi",
            "demopkg/_check.py",
            "demopkg/_demopkg.abi3.so",
            "demopkg/_shapes.py",
            "demopkg/aot.json",
            "demopkg/demo.pyi",
            "demopkg/jax.py",
            "demopkg/py.typed",
            "demopkg/torch.py",
        ]
        assert archive.testzip() is None
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        manifest = json.loads(archive.read("demopkg/aot.json"))
        tags = archive.read("demopkg-1.0.dist-info/WHEEL").decode()
    assert manifest["modules"][0]["blob_bytes"] == len(source.BLOB)
    assert f"Tag: cp310-abi3-{made.platform}\n" in tags


def test_only_the_stable_abi_is_used(made: wheel.BuiltWheel) -> None:
    tool = Path(sys.executable).with_name("abi3audit")
    if not tool.exists():
        pytest.skip("abi3audit is not installed")
    done = subprocess.run([tool, "--strict", made.wheel], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheels_are_the_same_bytes_from_anywhere(
    made: wheel.BuiltWheel, compiled: CompiledSource, ready: wheel.Options, tmp_path: Path
) -> None:
    tree = source.write(tmp_path / "a deeper" / "folder", source.spec(top_level=(("twice", "demo"),)), compiled)
    again = wheel.build(tree, tmp_path / "wheel", ready)
    assert again.sha256 == made.sha256
    assert not list((tmp_path / "wheel" / wheel.BUILT).rglob("core.c.o")), "the runtime was compiled again"


def test_a_compiler_may_have_two_words(
    made: wheel.BuiltWheel, compiled: CompiledSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in ``CC="ccache gcc"``: CMake gives assembly the first one alone, if it is not told otherwise."""
    monkeypatch.setenv("CC", f"env {fakecuda.compiler()}")
    tree = source.write(tmp_path / "tree", source.spec(top_level=(("twice", "demo"),)), compiled)
    again = wheel.build(tree, tmp_path / "wheel", wheel.Options())
    assert again.sha256 == made.sha256


def test_a_changed_tree_gives_the_wheel_that_a_new_folder_would(
    compiled: CompiledSource, ready: wheel.Options, tmp_path: Path
) -> None:
    """The backend is not asked for it."""
    assert compiled.fatbin is not None
    blob = dataclasses.replace(compiled.fatbin, data=compiled.fatbin.data + b"more code")
    changed = dataclasses.replace(compiled, fatbin=blob)
    first = wheel.build(source.write(tmp_path / "tree", source.spec(), compiled), tmp_path / "wheel", ready)
    configured = (tmp_path / "wheel" / wheel.BUILT / "CMakeCache.txt").stat().st_mtime_ns
    tree = source.write(tmp_path / "tree", source.spec(), changed)
    again = wheel.build(tree, tmp_path / "wheel", ready)
    assert again.sha256 == wheel.build(tree, tmp_path / "another", ready).sha256 != first.sha256
    assert (tmp_path / "wheel" / wheel.BUILT / "CMakeCache.txt").stat().st_mtime_ns == configured


@pytest.mark.parametrize("name", ["CMakeCache.txt", "build.ninja"])
@pytest.mark.parametrize("as_folder", [False, True])
def test_a_damaged_build_folder_is_made_anew(
    name: str, as_folder: bool, compiled: CompiledSource, ready: wheel.Options, tmp_path: Path
) -> None:
    """CMake's file is gone, or there is a folder in its place; the sources have changed."""
    assert compiled.fatbin is not None
    wheel.build(source.write(tmp_path / "tree", source.spec(), compiled), tmp_path / "wheel", ready)
    damaged = tmp_path / "wheel" / wheel.BUILT / name
    damaged.unlink()
    if as_folder:
        (damaged / "something").mkdir(parents=True)
    blob = dataclasses.replace(compiled.fatbin, data=compiled.fatbin.data + name.encode())
    tree = source.write(tmp_path / "tree", source.spec(), dataclasses.replace(compiled, fatbin=blob))
    wheel.build(tree, tmp_path / "wheel", ready)
    assert damaged.is_file()


def test_source_distribution_installs_with_pip(made: wheel.BuiltWheel, fake_cuda: Path, tmp_path: Path) -> None:
    assert made.sdist is not None
    shutil.unpack_archive(made.sdist, tmp_path / "tree")
    (tree,) = (tmp_path / "tree").iterdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*pip, "--target", tmp_path / "site", tree], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert run([str(CASES), "names_and_documentation"], fake_cuda, tmp_path / "site", source.HERE).returncode == 0


def test_stubs_are_typed(site: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import demopkg\n"
        "reveal_type(demopkg.twice(1))\n"
        "reveal_type(demopkg.demo.several(1))\n"
        "reveal_type(demopkg.check())\n"
        "demopkg.demo.make('x')\n"
        "demopkg.demo.plain(None, 3)\n"
        "demopkg.demo.scale(0, 1, 2.0, 3, grid=(1, 2))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program],
        env={"MYPYPATH": str(site), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    words = [line.partition("program.py:")[2] for line in done.stdout.splitlines() if "program.py:" in line]
    assert words == [
        '2: note: Revealed type is "Any"',
        '3: note: Revealed type is "tuple[Any, float, int, Any]"',
        '4: note: Revealed type is "demopkg._check.Report"',
        '5: error: Argument 1 to "make" has incompatible type "str"; expected "int"  [arg-type]',
        '6: error: Missing named argument "grid" for "plain"  [call-arg]',
        '6: note: "plain" defined in "demopkg.demo"',
        '6: error: Missing named argument "block" for "plain"  [call-arg]',
    ], done.stdout


def test_compiler_errors_are_shown(compiled: CompiledSource, ready: wheel.Options, tmp_path: Path) -> None:
    broken = dataclasses.replace(compiled, host=(HostObject(compiled.host[0].triple, b"  not an instruction\n"),))
    tree = source.write(tmp_path / "tree", source.spec(), broken)
    with pytest.raises(PackageError, match=r"(?s)scikit-build-core failed.*FAILED: .*host/demo-.*\.s:1: [Ee]rror"):
        wheel.build(tree, tmp_path / "wheel", ready)
    assert not list((tmp_path / "wheel").glob("*.whl"))


def test_symbols_that_nothing_provides_are_found(
    compiled: CompiledSource, ready: wheel.Options, tmp_path: Path
) -> None:
    assembly = compiled.host[0].assembly.replace(b"aot_rt_assert", b"aot_rt_asserted")
    tree = source.write(
        tmp_path / "tree",
        source.spec(),
        dataclasses.replace(compiled, host=(HostObject(compiled.host[0].triple, assembly),)),
    )
    with pytest.raises(PackageError, match="it needs 'aot_rt_asserted', which nothing provides"):
        wheel.build(tree, tmp_path / "wheel", ready)


@pytest.mark.parametrize(("machine", "accepted"), [("x86_64", True), ("aarch64", False), ("riscv64", False)])
def test_machines_without_host_code_are_refused(
    machine: str, accepted: bool, compiled: CompiledSource, tmp_path: Path
) -> None:
    other = dataclasses.replace(compiled, host=(HostObject("x86_64-linux-gnu", compiled.host[0].assembly),))
    tree = source.write(tmp_path / "tree", source.spec(), other)
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    assert cmake is not None
    options = [
        "-DCMAKE_SYSTEM_NAME=Linux",
        f"-DCMAKE_SYSTEM_PROCESSOR={machine}",
        f"-DPython_INCLUDE_DIR={sysconfig.get_paths()['include']}",
        "-DSKBUILD_SOABI=abi3",
    ]
    command = [cmake, "-S", str(tree), "-B", str(tmp_path / "build"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = " ".join(done.stderr.split())
    refused = f"demopkg has host code for x86_64-linux-gnu, not for {machine}" in words
    assert refused != accepted, done.stdout + done.stderr
    assert (done.returncode == 0) == accepted, done.stdout + done.stderr
