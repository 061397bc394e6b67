"""The runtime core on the fake driver: modules, clusters, captures, contexts, devices, drivers that lack something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from fakecuda import RUNTIME, Core, build_core, build_fake, sanitizer

READS, HOST_SYNC, MESSAGES, FORK = 1, 2, 4, 8
NO_BINARY = 209
E_LIMIT, E_NO_DRIVER, E_FORKED, E_CAPTURE, E_UNSUPPORTED = -3, -6, -8, -9, -10
LAUNCH = "launch 0 2 1 1 64 1 1"


def names(log: list[str]) -> list[str]:
    return [line.split()[0] for line in log]


def live(core: Core) -> int:
    return core.fake("live", 0)


# ------------------------------------------------------------------ loading


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            NO_BINARY, ["Fake GPU (device 0, compute capability 9.0)", "sm_80 (cubin), sm_90a (cubin)"], id="gpu"
        ),
        pytest.param(
            218, ["cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX (218)", "driver's log: line 3: oops"], id="jit"
        ),
    ],
)
def test_load_errors(core: Core, code: int, expected: list[str]) -> None:
    core.fake("fail", "cuModuleLoadDataEx", 1, code)
    core.fake("set_jit_log", "line 3: oops\n")
    result = core.call(LAUNCH)
    assert result.code == code
    assert result.message.startswith("pack.kernels: ")
    for text in expected:
        assert text in result.message
    assert core.call(LAUNCH).code == 0, "a load that failed is tried again"


@pytest.mark.parametrize("core", [{"driver": 12040}], indirect=True)
@pytest.mark.parametrize("code", [200, 209, 218, 222])
def test_old_driver_is_named(core: Core, code: int) -> None:
    core.fake("fail", "cuModuleLoadDataEx", 1, code)
    message = core.call(LAUNCH).message
    assert "needs a driver for CUDA 13.0 or later, this one supports CUDA 12.4" in message
    assert "ptxas 13.5" in message


def test_kernel_that_the_image_lacks(core: Core) -> None:
    core.fake("hide_function", "m__hopper_only")
    assert core.call(LAUNCH).code == 0
    result = core.call("launch 2 1 1 1 1 1 1")
    assert result.code == 500
    assert "kernel hopper_only of pack.kernels is not in the image that the driver took for Fake GPU" in result.message


def test_host_code_asks_which_kernels_the_image_holds(core: Core) -> None:
    ours, another = 90 << 8 | ord("a"), 80 << 8
    assert core.call(f"serves {ours} | serves {another}").values[:2] == [1, 0]
    assert "cuModuleLoadDataEx" in names(core.log())
    assert core.call(f"serves {ours}").code == 0
    assert names(core.log()) == ["cuCtxGetId"], "asked again, it is known"


def test_kernels_that_the_image_lacks_are_known(core: Core) -> None:
    core.fake("hide_function", "m__hopper_only")
    assert core.call(f"serves {90 << 8 | ord('a')}").values[0] == 0


@pytest.mark.parametrize(
    ("core", "early"),
    [
        pytest.param({"image": 1}, True, id="sm_90a"),
        pytest.param({"image": 0}, False, id="sm_80 cannot wait"),
        pytest.param({}, False, id="unknown image"),
        pytest.param({"image": 1, "driver": 12020}, False, id="old driver"),
    ],
    indirect=["core"],
)
def test_kernels_that_wait_for_the_work_ahead_begin_early(core: Core, early: bool) -> None:
    for _ in range(2):
        core.log()
        assert core.call("launch 1 2 1 1 128 1 1").code == 0
    assert core.log()[-1].endswith("programmatic 1") is early


def test_load_in_a_capture_is_relaxed(core: Core) -> None:
    core.call(LAUNCH)
    assert "cuModuleLoadDataEx mode 2" in core.log()


def test_preload(core: Core) -> None:
    assert core.ask("preload")["code"] == 0
    core.log()
    core.call(LAUNCH)
    assert "cuModuleLoadDataEx" not in names(core.log())


def test_sources_load_apart(core: Core) -> None:
    core.call(LAUNCH)
    core.log()
    assert core.call(f"other | {LAUNCH} | other").code == 0
    assert names(core.log()).count("cuModuleLoadDataEx") == 1


def test_threads_load_once_and_do_not_disturb_each_other(core: Core) -> None:
    script = f"alloc 400 | poke $0 5 | {LAUNCH} | load32 $0 | alloc 8 | free $0"
    assert core.ask("threads", 4, 100, script, READS) == [0, 0, 0, 0]
    log = names(core.log())
    assert (log.count("cuModuleLoadDataEx"), log.count("cuMemPoolCreate"), log.count("cuInit")) == (1, 1, 1)
    assert (live(core), core.fake("bad_frees")) == (0, 0)


def test_threads_race_for_nothing(tmp_path: Path, fake_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads, pools, chains and memory of graphs, watched by a sanitizer where the compiler has one that runs here."""
    library = sanitizer("thread")
    if library is None:
        pytest.skip("this compiler has no -fsanitize=thread")
    watched = build_core(tmp_path, "-fsanitize=thread")
    monkeypatch.setenv("LD_PRELOAD", library)
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1 ignore_noninstrumented_modules=1")
    if subprocess.run([sys.executable, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("the sanitizer does not work on this kernel")
    running = Core(watched, fake_cuda)
    script = f"stream | alloc 400 | gpualloc 64 $0 | {LAUNCH} | load32 $1 | free $1"
    assert running.ask("threads", 4, 50, script, READS | FORK) == [0, 0, 0, 0]
    assert running.call("alloc 4").code == 0, "a context for this thread"
    assert running.ask("threads_keep", 4, 50, "alloc 64 | alloc 3000 | free $0") == [0, 0, 0, 0]
    running.stop()


def test_kernel_called_from_c(core: Core) -> None:
    assert core.ask("kernel", 0, [2, 1, 1, 64, 1, 1, 0, 0, 0, 0])["code"] == 0
    failed = core.ask("kernel", 1, [2, 1, 1, 64, 1, 1, 0, 0, 0, 0])
    assert (failed["code"], "compiled for blocks" in failed["message"]) == (E_LIMIT, True)
    assert core.ask("kernel", 0, [0, 1, 1, 64, 1, 1, 0, 0, 0, 0])["code"] == 0


# ------------------------------------------------------------------ clusters


@pytest.mark.parametrize(
    ("cluster", "line"),
    [
        pytest.param("1 1 1", "cuLaunchKernel m__square grid 16x1x1 block 32x1x1 shared 0 s0", id="of one"),
        pytest.param("2 1 1", "cuLaunchKernelEx m__square grid 16x1x1 block 32x1x1 cluster 2x1x1 shared 0 s0", id="2"),
    ],
)
def test_clusters(core: Core, cluster: str, line: str) -> None:
    core.call(LAUNCH)
    core.log()
    assert core.call(f"launch 0 16 1 1 32 1 1 0 {cluster}").code == 0
    assert core.log()[-1] == line


def test_large_clusters_are_opted_in(core: Core) -> None:
    core.call(LAUNCH)
    core.log()
    assert core.call("launch 0 16 1 1 32 1 1 0 16 1 1").code == 0
    assert core.log()[1:] == [
        "cuFuncSetAttribute 14 1 m__square",
        "cuLaunchKernelEx m__square grid 16x1x1 block 32x1x1 cluster 16x1x1 shared 0 s0",
    ]


# ------------------------------------------------------------------ captures


@pytest.mark.parametrize(
    ("flags", "script", "message"),
    [
        pytest.param(READS, "alloc 4 | load32 $0", "host code reads device memory", id="declared read"),
        pytest.param(0, "alloc 4 | load32 $0", "host code reads device memory", id="read"),
        pytest.param(HOST_SYNC, "stream | sync $0", "host code waits for the device", id="wait"),
    ],
)
def test_waiting_in_a_capture_is_refused_before_it_breaks(core: Core, flags: int, script: str, message: str) -> None:
    stream = core.ask("new_stream") if core.call("alloc 4").code == 0 else 0
    core.fake("capture", stream, 1)
    result = core.call(script, flags=flags, stream=stream)
    assert (result.code, message in result.message) == (E_CAPTURE, True)
    assert "cuStreamSynchronize" not in " ".join(core.log())
    assert core.call(f"alloc 4 | {LAUNCH}", flags=MESSAGES, stream=stream).code == 0, "others can be captured"
    assert "cuStreamSynchronize" not in " ".join(core.log())


# ------------------------------------------------------------------ contexts and devices


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_two_devices(core: Core) -> None:
    for device in (0, 1, 0, 1):
        assert core.call(f"alloc 4 | {LAUNCH}", device=device).code == 0
    log = names(core.log())
    assert (log.count("cuModuleLoadDataEx"), log.count("cuMemPoolCreate")) == (2, 2)
    assert core.call("alloc 4", device=2).message == "there is no CUDA device 2"
    assert live(core) == 0


@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)
def test_callers_context_comes_back(core: Core) -> None:
    core.call("alloc 4", device=0)
    before = core.ask("current")
    core.call("alloc 4", device=1)
    assert core.ask("current") == before


def test_own_context_is_used_and_its_handle_may_come_back(core: Core) -> None:
    core.call(LAUNCH)
    mine = core.fake("context_new", 0, 0)
    core.ask("use_context", mine)
    core.log()
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    assert names(core.log()).count("cuModuleLoadDataEx") == 1
    core.fake("context_destroy", mine)
    again = core.fake("context_new", 0, 0)
    assert again == mine, "the fake reuses handles, as the driver does"
    core.ask("use_context", again)
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    log = names(core.log())
    assert log.count("cuModuleLoadDataEx") == 1, "another context: loaded anew"
    assert "cuMemPoolCreate" not in log, "a pool is the device's"


def test_primary_context_that_was_reset_is_taken_again(core: Core) -> None:
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    core.fake("context_destroy", core.ask("current"))
    core.log()
    assert core.call(f"alloc 4 | {LAUNCH}").code == 0
    log = names(core.log())
    assert (log.count("cuDevicePrimaryCtxRetain"), log.count("cuModuleLoadDataEx")) == (1, 1)


def test_forked_child_gets_an_error(core: Core) -> None:
    assert core.call(LAUNCH).code == 0
    child = core.ask("in_child", LAUNCH)
    assert child["code"] == E_FORKED
    assert "spawn" in child["message"]
    assert core.call(LAUNCH).code == 0


def test_child_of_a_parent_whose_other_library_used_cuda(core: Core) -> None:
    core.ask("init_driver")
    child = core.ask("in_child", LAUNCH)
    assert child["code"] == E_FORKED
    assert "was CUDA used before this process was forked?" in child["message"]


def test_fork_before_first_use_is_fine(core: Core) -> None:
    assert core.ask("in_child", LAUNCH)["code"] == 0


# ------------------------------------------------------------------ other drivers

OPTIONAL = (
    "cuCtxGetId",
    "cuFuncLoad",
    "cuLaunchKernelEx",
    "cuMemPoolCreate",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuTensorMapEncodeTiled",
    "cuTensorMapEncodeIm2col",
)


def test_driver_without_the_optional_entries(core_library: Path, tmp_path: Path) -> None:
    core = Core(core_library, build_fake(tmp_path / "old", OPTIONAL), {"driver": 11010})
    assert core.call(f"alloc 4 | {LAUNCH} | free $0 | alloc 8").code == 0
    assert "cuMemFree_v2 m2" in core.log()
    message = core.call("launch 0 2 1 1 1 1 1 0 2 1 1").message
    assert "cuLaunchKernelEx needs an NVIDIA driver for CUDA 11.8 or later; this one supports CUDA 11.1" in message
    result = core.call("alloc 4096 | tma $0 0 64 64 64 64 8 0 2 7")
    assert (result.code, "CUDA 12.0 or later" in result.message) == (E_UNSUPPORTED, True)
    core.stop()


@pytest.mark.parametrize("core", [{"pools": 0}], indirect=True)
def test_device_without_pools_waits_before_it_frees(core: Core) -> None:
    assert core.call("alloc 4 | free $0").code == 0
    assert core.log()[-4:] == [
        "cuMemAlloc_v2 4",
        "cuPointerGetAttribute m1 9",
        "cuStreamSynchronize s0",
        "cuMemFree_v2 m1",
    ]


def test_trim_gives_the_pool_back(core: Core) -> None:
    core.call("alloc 4")
    assert core.ask("core", "pool_trim", 0) == 0
    assert core.log()[-1] == "cuMemPoolTrimTo pool1 0"


def test_entry_that_every_driver_must_have(core_library: Path, tmp_path: Path) -> None:
    core = Core(core_library, build_fake(tmp_path / "broken", ["cuStreamIsCapturing"]))
    result = core.call(LAUNCH)
    assert (result.code, "no cuStreamIsCapturing (CUDA 10.0" in result.message) == (E_NO_DRIVER, True)
    core.stop()


def test_library_that_cannot_be_opened(core_library: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    core = Core(core_library, tmp_path, steered=False)
    for result in (core.call(LAUNCH), core.call(LAUNCH)):
        assert (result.code, result.message.startswith("no NVIDIA driver on this machine: ")) == (E_NO_DRIVER, True)
    core.stop()


@pytest.mark.parametrize("core", [{"devices": 0}], indirect=True)
def test_no_device(core: Core) -> None:
    assert core.call(LAUNCH).message == "cuInit failed: CUDA_ERROR_NO_DEVICE (100), text of the driver"


# ------------------------------------------------------------------ the library itself


def test_core_neither_links_the_driver_nor_python(core_library: Path) -> None:
    with core_library.open("rb") as file:
        elf = ELFFile(file)
        dynamic, table = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".dynsym")
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(table, SymbolTableSection)
        needed = [str(getattr(tag, "needed", "")) for tag in dynamic.iter_tags("DT_NEEDED")]
        symbols = [symbol for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"]
    assert "libc.so.6" in needed
    assert not [name for name in needed if "cuda" in name]
    undefined = {symbol.name for symbol in symbols}
    assert not [name for name in undefined if name.startswith(("cu", "Py", "_Py"))]


def test_one_variable_of_the_environment_is_read() -> None:
    sources = "".join(path.read_text() for path in sorted(RUNTIME.glob("*.[ch]")))
    assert re.findall(r"\bgetenv\(.*?\)", sources) == ['getenv("AOT_NUM_THREADS")']


@pytest.mark.parametrize(
    ("code", "name"),
    [(0, "CUDA_SUCCESS"), (2, "CUDA_ERROR_OUT_OF_MEMORY"), (99999, "CUDA_ERROR_UNKNOWN"), (-1, "AOT_ASSERTION")],
)
def test_names_of_errors(core: Core, code: int, name: str) -> None:
    core.call("alloc 4")
    assert core.ask("error_name", code) == name
