# ruff: noqa: PT017 - these run without pytest
"""What calls with arrays in host memory do, one function per behaviour: each runs in a process of its own.

Run by tests/test_extension_cpu.py as ``python cpu_cases.py <name>``. ``cpupkg`` has GPU and CPU code, ``hostpkg`` has
CPU code alone. There is no driver, unless the name begins with ``gpu_``: then it is the fake one.
"""

from __future__ import annotations

import array
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import cpupkg
import hostpkg
import numpy as np
from cpupkg import demo

F32_8 = np.arange(8, dtype="float32")
NO_CODE = (
    r"the function has no CPU code: tensor-level functions get it when the package is built with `--archs \.\.\.,host`"
)


def refused(error: Any, pattern: str, call: Callable[..., Any], *args: Any, **words: Any) -> None:
    """The call's error has to be of this kind and to match the pattern."""
    try:
        got = call(*args, **words)
    except error as raised:
        assert re.search(pattern, str(raised)), f"{str(raised)!r} does not match {pattern!r}"
        return
    raise AssertionError(f"not refused, gave {got!r}")


class Dlpack:
    """An array in host memory that only has __dlpack__."""

    seen: list[dict[str, Any]] = []  # noqa: RUF012
    device = (1, 0)

    def __init__(self, content: Any) -> None:
        self.content = np.array(content)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **words: Any) -> Any:
        self.seen.append(words)
        return self.content.__dlpack__(**words)


def opened_libcuda() -> bool:
    with open("/proc/self/maps", encoding="utf-8") as file:
        return "libcuda" in file.read()


# ------------------------------------------------------------------ numpy


def case_results_are_numpy_arrays() -> None:
    for package in (cpupkg, hostpkg):
        y = package.demo.twice(F32_8)
        assert type(y) is np.ndarray
        assert y.dtype == np.float32
        assert (y == 2 * F32_8).all()
        assert y.flags.owndata, "memory of numpy's own"
        turned, total, rows, same = package.demo.several(x := np.arange(12, dtype="float32").reshape(3, 4))
        assert (turned == x.T).all()
        assert (total, rows, same is x) == (66, 3, True)
        point = package.demo.point(np.array(4, "float32"))
        assert (type(point), point.shape, point) == (np.ndarray, (), -4)
        assert package.demo.twice(F32_8[:0]).shape == (0,)
    assert not opened_libcuda()


def case_large_arrays_and_threads() -> None:
    x = np.random.default_rng(1).random(1_000_003, "float32")
    expected = 2 * x
    assert (demo.twice(x) == expected).all()
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            if not (demo.twice(x) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def case_the_lock_is_given_up() -> None:
    x, count, done = np.zeros(30_000_000, "float32"), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            count[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=watch)
    sys.setswitchinterval(10)
    thread.start()
    before = count[0]
    out = np.empty_like(x)
    demo.twice(x, out=out)
    assert count[0] > before, "no other thread ran meanwhile"
    done.set()
    thread.join()


def case_layouts_and_types() -> None:
    rows = np.arange(24, dtype="float32").reshape(4, 6)
    assert demo.strided(rows[::2, 1:3]) == rows[::2, 1:3].sum()
    assert demo.strided(rows[::-1]) == rows.sum()
    refused(ValueError, r"strides \(1, 6\): the strides do not fit", demo.strided, rows.T)
    refused(ValueError, r"must be contiguous", demo.twice, rows[:, 0])
    refused(TypeError, r"got a float64 array of shape \(8,\): another element type", demo.twice, F32_8.astype("f8"))
    refused(TypeError, r"byte order", demo.twice, F32_8.astype(">f4"))
    refused(TypeError, r"another element type", demo.twice, F32_8.astype("M8[s]"))
    refused(TypeError, r"another element type", demo.twice, np.array([None] * 4))
    refused(ValueError, r"another rank", demo.twice, np.zeros((1,) * 20, "float32"))
    shifted = np.frombuffer(bytes(33), "u1")[1:].view("float32")
    if shifted.ctypes.data % 4:
        refused(ValueError, "not a multiple of the element's size", demo.twice, shifted)
    fields = np.zeros(4, [("a", "f4"), ("b", "i1")])["a"]
    refused(ValueError, "strides are no multiples", demo.twice, fields)
    refused(TypeError, "masked arrays", demo.twice, np.ma.array(F32_8))
    refused(TypeError, r"got list: an array is needed, on a GPU .* or in host memory", demo.twice, [1.0])
    refused(TypeError, r"got numpy.float32: an array in host memory is needed", hostpkg.demo.twice, np.float32(1))
    refused(TypeError, r"got array.array", demo.twice, array.array("f", [1]))
    kinds = [np.zeros(2, "bool"), np.zeros(2, "c8"), np.zeros(2, "i8"), np.zeros(2, "i8")]
    ml_dtypes = __import__("ml_dtypes")
    small = [np.zeros(2, ml_dtypes.bfloat16), kinds[0], np.zeros(2, ml_dtypes.float8_e4m3fn), *kinds[1:]]
    demo.types(*small)
    refused(
        TypeError,
        r"'a2'.*got a float8_e5m2 array",
        demo.types,
        *small[:2],
        np.zeros(2, ml_dtypes.float8_e5m2),
        *kinds[1:],
    )
    unknown = ((ml_dtypes.int4, "an int4"), ("S1", r"a \|S1"), ("O", "an object"))
    for other, name in ((np.zeros(2, dtype), name) for dtype, name in unknown):
        refused(TypeError, rf"'a2'.*got {name} array of shape", demo.types, *small[:2], other, *kinds[1:])
    for other, name in (
        (np.zeros(8, ml_dtypes.int4), "an int4"),
        (np.zeros(8, "S1"), r"a \|S1"),
        (np.zeros(8), "a float64"),
    ):
        refused(TypeError, rf"out= for result 1: .* got {name} array of shape \(8,\)", demo.twice, F32_8, out=other)
    bytes_each = np.zeros(2, "i1"), np.zeros(2, "u1")
    in_a_byte = "another element type: {} of this one are passed in a byte each, as {}$"
    for bad in (np.zeros(2, ml_dtypes.int4), np.zeros(2, "i2"), np.zeros(2, "bool")):
        text = in_a_byte.format("numbers", "int8 or uint8")
        refused(TypeError, rf"'a': expected tensor<2xi4>, .*{text}", demo.codes, bad, bytes_each[1])
        refused(TypeError, rf"out= for result 1: expected tensor<2xi4>, .*{text}", demo.codes, *bytes_each, out=bad)
    for bad in (np.zeros(2, ml_dtypes.float4_e2m1fn), np.zeros(2, "f2")):
        text = in_a_byte.format("codes", "uint8")
        refused(TypeError, rf"'b': expected tensor<2xf4E2M1FN>, .*{text}", demo.codes, bytes_each[0], bad)

    class Own(np.ndarray):
        pass

    assert type(demo.twice(F32_8.view(Own))) is np.ndarray


def case_small_floats_come_back() -> None:
    ml_dtypes = __import__("ml_dtypes")
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    y = demo.small(x)
    assert y.dtype == ml_dtypes.bfloat16
    assert (y == x).all()


def case_read_only_arrays() -> None:
    x = np.ones((4, 4), "float32")
    x.flags.writeable = False
    out = np.zeros((4, 4), "float32")
    assert demo.square(x, out) is out
    assert (out == 1).all()
    refused(ValueError, "argument 2 'out'.*read-only, and the call writes it", demo.square, out, x)
    refused(ValueError, "argument 1 'x'.*read-only", demo.several, x)
    refused(ValueError, "out= for result 1.*read-only", demo.twice, F32_8, out=x[0, :].reshape(4))


def case_numpys_fields_and_numpys_words_say_the_same() -> None:
    """The first array of an element type is asked, those after it are read from their fields."""
    for _ in range(2):
        case_layouts_and_types()
        case_read_only_arrays()
    longlong = np.arange(2, dtype=np.longlong)
    nothing = np.zeros(2, "bool"), np.zeros(2, "c8"), np.zeros(2, "i8"), longlong
    ml_dtypes = __import__("ml_dtypes")
    small = np.zeros(2, ml_dtypes.bfloat16), nothing[0], np.zeros(2, ml_dtypes.float8_e4m3fn)
    for _ in range(2):
        demo.types(*small, *nothing[1:])


def case_a_numpy_of_another_abi() -> None:
    __import__("ml_dtypes")  # it needs what is taken away here
    np._core._multiarray_umath._ARRAY_API = None
    case_numpys_fields_and_numpys_words_say_the_same()
    case_small_floats_come_back()


def case_out_and_overlaps() -> None:
    out = np.empty(8, "float32")
    assert demo.twice(F32_8, out=out) is out
    assert (out == 2 * F32_8).all()
    base = np.arange(12, dtype="float32")
    assert (demo.twice(base[:8], out=base[2:10]) == 2 * np.arange(8)).all()
    refused(ValueError, r"the result is a float32 array of shape \(8,\)", demo.twice, F32_8, out=out[:4])
    square = np.arange(16, dtype="float32").reshape(4, 4)
    expected = (square.T) ** 2
    assert demo.square(square, square) is square
    assert (square == expected).all(), "computed from the values before the call"
    refused(ValueError, "negative size", hostpkg.demo.make, -3)
    many = np.zeros(3, "int32")
    assert demo.make(3, out=many) is many, "out= says where a call without arrays runs"
    assert many.tolist()[1:] == [1, 2]


# ------------------------------------------------------------------ other arrays


def case_dlpack_arrays() -> None:
    for package in (cpupkg, hostpkg):
        Dlpack.seen.clear()
        y = package.demo.twice(Dlpack(F32_8))
        assert type(y) is package.HostArray
        assert Dlpack.seen[0]["stream"] is None
        assert (y.shape, y.dtype, repr(y)) == (
            (8,),
            "float32",
            f"<{package.__name__}.HostArray: float32 array of shape (8,)>",
        )
        assert (np.from_dlpack(y) == 2 * F32_8).all()
        assert (np.asarray(y) == 2 * F32_8).all()
        assert y.__dlpack_device__() == (1, 0)
        assert (np.asarray(package.demo.twice(y)) == 4 * F32_8).all(), "our own are taken, too"
        assert y.__array_interface__["data"][0] % 64 == 0
    kept = np.from_dlpack(demo.twice(Dlpack(F32_8)))
    assert (kept == 2 * F32_8).all(), "the array lives as long as what was made of it"
    pinned = Dlpack(F32_8)
    pinned.device = (3, 0)
    assert (np.asarray(demo.twice(pinned)) == 2 * F32_8).all()
    pinned.device = (10, 0)
    refused(
        TypeError,
        r"got a .*Dlpack on a device that is neither a CUDA GPU nor the CPU \(DLPack's type 10\)",
        demo.twice,
        pinned,
    )
    mixed = demo.square(Dlpack(np.ones((4, 4), "float32")), out := np.zeros((4, 4), "float32"))
    assert mixed is out
    fixed = np.zeros((4, 4), "float32")
    fixed.flags.writeable = False
    read_only = Dlpack.__new__(Dlpack)
    read_only.content = fixed
    refused((ValueError, BufferError, TypeError), "read-?only", demo.square, out, read_only)


def case_results_become_the_callers_type() -> None:
    module = type(sys)("fakelib")
    made: list[Any] = []

    class Tensor(Dlpack):
        __module__ = "fakelib"

    def from_dlpack(other: Any) -> Tensor:
        made.append(type(other))
        return Tensor(np.from_dlpack(other))

    module.from_dlpack = from_dlpack  # type: ignore[attr-defined]
    sys.modules["fakelib"] = module
    y = demo.twice(Tensor(F32_8))
    assert type(y) is Tensor
    assert made == [cpupkg.HostArray]
    assert (y.content == 2 * F32_8).all()


def case_torch() -> None:
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("no torch here")
        return
    x = torch.arange(8, dtype=torch.float32)
    y = demo.twice(x)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, 2 * x)
    refused(ValueError, "negated only when read", demo.twice, torch._neg_view(x))
    refused(TypeError, r"argument 1 'x'.*got torch.Tensor that cannot be taken", demo.twice, x.to_sparse())
    refused(TypeError, r"argument 1 'x'.*got torch.Tensor that cannot be taken", demo.twice, x.to("meta"))
    assert demo.twice(x, out=x) is x
    assert type(demo.twice(x.numpy())) is np.ndarray
    assert demo.small(x.to(torch.bfloat16)).dtype == torch.bfloat16
    pair = torch.ones(4, 4), torch.zeros(4, 4)
    assert demo.square(*pair) is pair[1]


def case_jax() -> None:
    try:
        import jax  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("no jax here")
        return
    x = jax.numpy.asarray(F32_8)
    y = demo.twice(x)
    assert isinstance(y, jax.Array)
    assert (np.asarray(y) == 2 * F32_8).all()
    refused(ValueError, "read-only", demo.twice, x, out=x)
    late = jax.jit(lambda a: jax.numpy.tanh(a @ a @ a))
    for seed in range(3):
        z = late(jax.random.normal(jax.random.key(seed), (700, 700)))
        assert (np.asarray(demo.twice(z.reshape(-1))) == 2 * np.asarray(z).reshape(-1)).all(), "it was waited for"


# ------------------------------------------------------------------ places


def case_no_cpu_code() -> None:
    refused(
        TypeError,
        r"memref<4xf32.* on a GPU, got a numpy.ndarray in host memory: move it first .*; " + NO_CODE,
        demo.shifted,
        F32_8[:4],
    )
    refused(
        TypeError, "got a numpy.ndarray in host memory", demo.scale, np.zeros((2, 8), "f4"), 1, 2.0, np.zeros(8, "f4")
    )
    refused(TypeError, r"stream=: the call runs on the CPU, which has no streams", demo.twice, F32_8, stream=0)
    refused(TypeError, r"stream=", hostpkg.demo.make, 3, stream=0)
    refused(TypeError, r"stream=", demo.make, 3, out=np.zeros(3, "i4"), stream=1)
    refused(
        cpupkg.CudaError, r"no NVIDIA driver.*demo.make\(\) runs on a GPU, and on the CPU where out= is", demo.make, 3
    )


def case_without_arrays() -> None:
    hostpkg.preload()
    made = hostpkg.demo.make(4)
    assert type(made) is np.ndarray
    assert made.tolist()[1:] == [1, 2, 3]
    numpy, sys.modules["numpy"] = np, None  # type: ignore[assignment]
    try:
        assert type(hostpkg.demo.make(4)) is hostpkg.HostArray, "its import is forbidden"
    finally:
        sys.modules["numpy"] = numpy


def case_assertions_and_recovery() -> None:
    for _ in range(3):
        refused(RuntimeError, "the length must be even", demo.failing, F32_8[:3])
        assert demo.failing(F32_8).shape == (8,)


def case_the_newest_variant_is_taken() -> None:
    report = hostpkg.check()
    assert report
    assert (report.device, report.driver, report.images, report.problems) == (None, None, {}, ())
    variant = hostpkg.demo.make(1)[0]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = set(re.search(r"^(?:flags|Features)\s*:(.*)$", file.read(), re.MULTILINE)[1].split())  # type: ignore[index]
    if "sse2" in flags:
        v3 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"} <= flags
        v4 = v3 and {"avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"} <= flags
        assert variant == v3 + v4
        assert report.cpu == ("v2", "v3", "v4")[variant]
    else:
        assert (variant, report.cpu) == (0, "generic")
    assert report.threads == len(os.sched_getaffinity(0))
    kind = report.cpu if report.cpu == "generic" else f"x86-64-{report.cpu}"
    assert f"CPU code: {kind}, {report.threads} thread" in str(report)
    assert str(report).startswith("no GPU code: ok")
    assert not opened_libcuda()
    both = cpupkg.check()
    assert not both, "without a driver its GPU code cannot run"
    assert both.cpu == report.cpu
    assert "no NVIDIA driver" in str(both)


def case_documentation() -> None:
    assert "With arrays in host memory it runs on the CPU." in demo.twice.__doc__
    assert "CPU" not in demo.shifted.__doc__
    assert hostpkg.demo.twice.__doc__.endswith("Runs on the CPU.")
    module = hostpkg.__aot__["modules"][0]
    assert module["images"] == module["host"] == module["kernels"] == []
    assert all(function["cpu"] and not function["gpu"] for function in module["functions"])
    assert sorted(cpupkg.__aot__["modules"][0]["cpu"]) == sorted(module["cpu"])
    assert not hasattr(hostpkg.demo, "shifted")


# ------------------------------------------------------------------ threads and processes


def case_number_of_threads() -> None:
    code = "import hostpkg; print(hostpkg.check().threads)"
    for said, expected in (("3", 3), ("1", 1), ("0", None), ("many", None), ("-2", None), ("99999", 1024)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "AOT_NUM_THREADS": said},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(done.stdout) == (expected or len(os.sched_getaffinity(0))), said


def case_forked_children_have_threads_of_their_own() -> None:
    x = np.ones(1_000_000, "float32")
    assert (demo.twice(x) == 2).all()
    for _ in range(3):
        child = os.fork()
        if not child:
            signal.alarm(60)
            os._exit(0 if (demo.twice(x) == 2).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert (demo.twice(x) == 2).all()


def case_no_leaks() -> None:
    x = np.ones(10_000, "float32")
    counts = sys.getrefcount(x)

    def many() -> None:
        for _ in range(300):
            demo.twice(x)
            demo.twice(Dlpack(x))
            demo.twice(x, out=x)
            with contextlib.suppress(RuntimeError):
                demo.failing(x[:3])

    many()
    before = resident()
    for _ in range(5):
        many()
    assert resident() - before < 4_000_000
    assert sys.getrefcount(x) == counts


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def case_an_idle_pool_sleeps() -> None:
    demo.twice(np.ones(1_000_000, "float32"))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.05


def case_a_small_call_is_quick() -> None:
    out = np.empty(8, "float32")
    start = time.perf_counter()
    for _ in range(1000):
        demo.twice(F32_8, out=out)
    print(f"{(time.perf_counter() - start) * 1e3:.2f} us a call")


# ------------------------------------------------------------------ beside a GPU


def case_gpu_mixed_places() -> None:
    import kit

    kit.start()
    matrix = np.ones((4, 4), "float32")
    on_gpu, on_cpu = kit.CudaArray(matrix), matrix.copy()
    for kind in (kit.CudaArray, kit.ExchangeArray, kit.DlpackArray):
        name = rf"kit\.{kind.__name__}"
        second = rf"argument 2 'out': expected .* in host memory like argument 1 'x', got a {name} on a GPU"
        refused(TypeError, second, demo.square, on_cpu, kind(matrix))
        # An array that has to wait for the stream is looked at last, and named first.
        second = r"argument 2 'out': expected .* on a GPU like argument 1 'x', got a numpy.ndarray in host memory"
        waits = rf"argument 1 'x': expected .* in host memory like argument 2 'out', got a {name} on a GPU"
        refused(TypeError, second if kind is kit.ExchangeArray else waits, demo.square, kind(matrix), on_cpu)
        refused(
            TypeError,
            r"in host memory, got a .* on a GPU: the package was built with `--archs host` only",
            hostpkg.demo.twice,
            kind(F32_8),
        )
    refused(
        TypeError,
        r"in host memory, the arguments are on a GPU",
        demo.twice,
        kit.CudaArray(F32_8),
        out=np.empty(8, "f4"),
    )
    refused(TypeError, r"it is not in host memory, as the arguments are", demo.twice, F32_8, out=kit.CudaArray(F32_8))
    refused(TypeError, r"host memory", demo.twice, kit.ExchangeArray(F32_8), out=np.empty(8, "f4"))
    assert demo.square(on_gpu, other := kit.CudaArray(matrix)) is other
    assert type(demo.make(3)) is cpupkg.DeviceArray, "without arrays a GPU is taken"
    assert cpupkg.check()


def case_gpu_the_driver_is_left_alone() -> None:
    import kit

    kit.start()
    x = kit.ExchangeArray.like(kit.ExchangeArray(F32_8), device=(kit.CPU, 0))
    kit.Framework.allocated.clear()
    kit.cuda.fake_clear_log()
    y = demo.twice(x)
    assert [line.split()[0] for line in kit.log()] == ["cuMemAlloc_v2"], "the framework's own allocation"
    assert y in kit.Framework.allocated
    assert (y.numpy() == 2 * F32_8).all()
    assert (demo.twice(F32_8) == 2 * F32_8).all()
    negated = kit.ExchangeArray.like(x, negated=True)
    refused(ValueError, "negated only when read", demo.twice, negated)
    refused(ValueError, "negated only when read", demo.twice, F32_8, out=negated)
    assert kit.log() == []


def case_gpu_loaded_images() -> None:
    import kit

    kit.start()
    assert cpupkg.check().loaded == {}
    kit.cuda.fake_set(b"image", 1)
    demo.twice(kit.CudaArray(F32_8))
    report = cpupkg.check()
    assert report.loaded == {"demo": "compute_90 (JIT)"}
    assert "demo: compute_90, loaded: compute_90 (JIT)" in str(report)
    log = kit.cuda.fake_log().decode().splitlines()
    copies = [line for line in log if line.startswith("cuMemcpyDtoHAsync")]
    assert len(copies) == 1
    assert not copies[0].endswith(" s0"), "never on the legacy stream: it may take part in a capture"
    kit.start(1)
    assert cpupkg.check(1).loaded == {}
    kit.cuda.fake_set(b"image", 0)
    cpupkg.preload(1)
    assert cpupkg.check(1).loaded == {"demo": "sm_80"}
    assert cpupkg.check(0).loaded == {"demo": "compute_90 (JIT)"}


def case_gpu_foreign_images() -> None:
    import kit

    kit.start()
    demo.twice(kit.CudaArray(F32_8))
    assert cpupkg.check().loaded == {"demo": "unknown"}
    kit.cuda.fake_set(b"image", 7)
    cpupkg.preload(1)
    assert cpupkg.check(1).loaded == {"demo": "unknown"}


if __name__ == "__main__":
    globals()[f"case_{sys.argv[1]}"]()
