# ruff: noqa: PT017 - these run without pytest
"""What the extension does, one function per behaviour: each runs in a process of its own with the fake driver.

Run by tests/test_extension.py as ``python cases.py <name>``; the generated package is ``demopkg``.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import pickle
import re
import subprocess
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import demopkg
import kit
import numpy as np
from demopkg import demo
from kit import CudaArray, DlpackArray, ExchangeArray, Framework, OldDlpackArray, Stream, TorchStream

F32_8 = np.arange(8, dtype="float32")
EXCHANGE = [ExchangeArray, kit.NewerArray, kit.OldSpellingArray]
CLASSES = [*EXCHANGE, kit.ManagedOnlyArray, DlpackArray, OldDlpackArray, CudaArray]


def refused(error: Any, pattern: str, call: Callable[..., Any], *args: Any, **words: Any) -> str:
    """The call's error, which has to be of this kind and to match the pattern."""
    try:
        got = call(*args, **words)
    except error as raised:
        assert re.search(pattern, str(raised)), f"{str(raised)!r} does not match {pattern!r}"
        return str(raised)
    raise AssertionError(f"not refused, gave {got!r}")


def content(array: Any) -> Any:
    """A result's content, whatever object holds it."""
    if isinstance(array, kit.Array):
        return array.numpy().copy()
    about = array.__cuda_array_interface__
    count = int(np.prod(about["shape"]))
    dtype = np.dtype(about["typestr"])
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(about["data"][0])
    return np.frombuffer(raw, dtype)[:count].reshape(about["shape"]).copy()


# ------------------------------------------------------------------ the package


def case_names_and_documentation() -> None:
    assert demopkg.demo is demo is sys.modules["demopkg.demo"]
    assert demopkg.twice is demo.twice
    assert demopkg.__version__ == "1.0"
    assert sorted(demopkg.__all__) == ["CudaError", "DeviceArray", "HostArray", "check", "demo", "preload", "twice"]
    assert demo.__spec__.name == "demopkg.demo"
    assert str(inspect.signature(demo.twice)) == "(x, *, stream=None, out=None)"
    assert str(inspect.signature(demo.square)) == "(x, out, *, stream=None)"
    assert str(inspect.signature(demo.scale)) == (
        "(x, n, f, y, *, grid=None, block=None, shared=None, cluster=None, cooperative=None, programmatic=None, "
        "priority=None, stream=None)"
    )
    assert demo.twice.__doc__.startswith("Doubles each element.\nA second line.\n\nx: tensor<?xf32>\n")
    assert demo.twice.__module__ == "demopkg.demo"
    assert not hasattr(demo, "twice_kernel"), "kernels of functions are not callable"
    assert issubclass(demopkg.CudaError, RuntimeError)


def case_manifest_is_read_on_demand() -> None:
    assert "__aot__" not in vars(demopkg)
    assert demopkg.__aot__["modules"][0]["name"] == "demo"
    assert demopkg.__aot__ is demopkg.__aot__
    refused(AttributeError, "no attribute 'nothing'", getattr, demopkg, "nothing")


def case_types_cannot_be_made_or_pickled() -> None:
    refused(TypeError, "cannot create", demopkg.DeviceArray)
    array = demo.make(3)
    refused(TypeError, "cannot pickle", pickle.dumps, array)


def case_import_touches_no_driver() -> None:
    assert kit.log() == []


def case_check_reports() -> None:
    report = demopkg.check()
    assert report
    assert (report.device, report.name, report.capability, report.driver) == (0, "Fake GPU", (9, 0), 13000)
    assert report.images == {"demo": "compute_90"}
    kit.cuda.fake_set(b"capability", 86)
    assert demopkg.check().images == {"demo": "sm_80"}
    kit.cuda.fake_set(b"capability", 75)
    report = demopkg.check(0)
    assert not report
    assert report.problems == ("demo: no image for compute capability 7.5; the package has sm_80, compute_90",)
    kit.cuda.fake_set(b"driver", 11080)
    assert "supports CUDA 11.8, the package needs 12.0" in str(demopkg.check())
    assert "there is no CUDA device 7" in str(demopkg.check(7))
    assert not any("Ctx" in line for line in kit.log())


def case_preload_and_trim() -> None:
    demopkg.preload(device=0)
    assert any(line.startswith("cuModuleLoadDataEx") for line in kit.log())
    demo.twice(ExchangeArray(F32_8))
    assert not any("Module" in line for line in kit.log())
    demo.make(3)
    demopkg._trim()
    assert any(line.startswith("cuMemPoolTrimTo") for line in kit.log())
    refused(demopkg.CudaError, "no CUDA device 9", demopkg.preload, 9)


# ------------------------------------------------------------------ arrays


def case_every_protocol_and_its_result() -> None:
    for kind in CLASSES:
        x = kind(F32_8)
        result = demo.twice(x)
        assert (content(result) == 2 * F32_8).all(), kind
        own = isinstance(result, demopkg.DeviceArray)
        assert own == (kind not in EXCHANGE), kind
        if not own:
            assert isinstance(result, ExchangeArray)
            assert result in Framework.allocated


def case_views_and_byte_offsets() -> None:
    for kind in CLASSES:
        x = kind(F32_8)
        tail = kind.like(x, offset=3, shape=(5,))
        assert (content(demo.twice(tail)) == 2 * F32_8[3:]).all(), kind


def case_strides() -> None:
    square = np.arange(12, dtype="float32").reshape(3, 4)
    for kind in CLASSES:
        x = kind(square)
        every_other = kind.like(x, shape=(3, 2), strides=(4, 2))
        column = kind.like(x, shape=(3,), strides=(4,))
        rows = kind.like(x, shape=(2, 4), strides=(8, 1))
        assert demo.strided(rows) == square[::2].sum()
        refused(ValueError, r"'x': expected memref<\?x\?xf32, strided<\[\?, 1\], offset: \?>>, got a float32 array of "
                r"shape \(3, 2\) with strides \(4, 2\): the strides do not fit", demo.strided, every_other)  # fmt: skip
        refused(ValueError, r"of shape \(3,\) with strides \(4,\): it must be contiguous", demo.twice, column)
    for shape, strides in (((1,), (77,)), ((0,), (5,))):  # strides that no element uses
        view = ExchangeArray.like(ExchangeArray(F32_8), shape=shape, strides=strides)
        assert content(demo.twice(view)).shape == shape


def case_static_offset_is_compiled_in() -> None:
    x = ExchangeArray([5, 6, 7, 8])
    assert demo.shifted(x) == 5


def case_element_types() -> None:
    half, byte = np.dtype("int16"), np.dtype("int8")
    good = [
        ExchangeArray([1, 2], half, code=4),
        ExchangeArray([True, False], bool),
        ExchangeArray([1, 2], byte, code=10),
        ExchangeArray([1, 2], "complex64"),
        ExchangeArray([1, 2], "int64"),
        ExchangeArray([1, 2], "int64"),
    ]
    assert demo.types(*good) is None
    demo.types(*good[:4], ExchangeArray([1, 2], "uint64"), good[5])  # iN has no sign
    wrong = [
        (0, ExchangeArray([1, 2], "float16"), "bf16>, got a float16 array"),
        (0, ExchangeArray([1, 2], half), "got an int16 array"),
        (1, ExchangeArray([1, 2], "uint8"), "i1>, got a uint8 array"),
        (2, ExchangeArray([1, 2], byte, code=12), "f8E4M3FN>, got a float8_e5m2 array"),
        (3, ExchangeArray([1, 2], "complex128"), "got a complex128 array"),
        (4, ExchangeArray([1, 2], "int32"), "got an int32 array"),
        (5, ExchangeArray([1, 2], "uint64"), "got a uint64 array"),
    ]
    for index, array, words in wrong:
        text = refused(TypeError, re.escape(words), demo.types, *good[:index], array, *good[index + 1 :])
        assert f"demo.types() argument {index + 1} 'a{index}': expected tensor<2x" in text


def case_wrong_shapes() -> None:
    rows = ExchangeArray(np.zeros((2, 3), "float32"))
    refused(ValueError, r"memref<\?x4xf32>, got a float32 array of shape \(2, 3\): another extent", demo.several, rows)
    refused(ValueError, r"expected tensor<\?xf32>, got .* \(2, 3\): another rank", demo.twice, rows)
    refused(ValueError, r"another rank", demo.twice, ExchangeArray(np.float32(1)))
    refused(ValueError, r"another rank", demo.twice, ExchangeArray(np.zeros((1,) * 20, "float32")))


def case_wrong_calls() -> None:
    x = ExchangeArray(F32_8)
    refused(TypeError, r"demo.twice\(\) is missing argument 1 'x': tensor<\?xf32>", demo.twice)
    refused(TypeError, r"demo.twice\(\) takes 1 argument, got 2", demo.twice, x, x)
    refused(TypeError, r"demo.twice\(\) has no argument or option 'y'", demo.twice, x, y=1)
    refused(TypeError, r"demo.twice\(\) got two values for argument 'x'", demo.twice, x, x=x)
    refused(TypeError, r"argument 1 'x': expected tensor<\?xf32>, got list", demo.twice, [1.0])
    refused(TypeError, r"expected tensor<\?xf32>, got int: an array on a GPU is needed", demo.twice, 3)
    refused(TypeError, r"got NoneType", demo.twice, None)
    assert (content(demo.twice(**{"".join(["x"]): x})) == 2 * F32_8).all()  # a name that is not interned
    matrix, out = ExchangeArray(np.ones((4, 4), "float32")), ExchangeArray(np.zeros((4, 4), "float32"))
    assert demo.square(out=out, x=matrix) is out


def case_host_arrays() -> None:
    words = r"expected tensor<\?xf32> on a GPU, got a numpy.ndarray in host memory: move it first \(torch: x.cuda\(\)"
    refused(TypeError, words, demo.twice, F32_8)
    for kind in (ExchangeArray, DlpackArray, kit.ManagedOnlyArray):
        refused(TypeError, "host memory", demo.twice, kind.like(kind(F32_8), device=(kit.CPU, 0)))
    pointer = F32_8.ctypes.data
    host = types.SimpleNamespace(
        __cuda_array_interface__={"shape": (8,), "typestr": "<f4", "data": (pointer, False), "version": 3}
    )
    refused(TypeError, "host memory", demo.twice, host)


def case_read_only_arrays() -> None:
    x, out = np.ones((4, 4), "float32"), np.zeros((4, 4), "float32")
    for kind in (DlpackArray, CudaArray, kit.ManagedOnlyArray):
        fixed = kind(out)
        fixed.readonly = True
        refused(ValueError, "argument 2 'out'.*read-only, and the call writes it", demo.square, kind(x), fixed)
        assert demo.square(fixed, target := kind(x)) is target  # reading is fine
        refused(ValueError, "read-only", demo.several, fixed)
    jax_like = type("ArrayImpl", (DlpackArray,), {"__module__": "jaxlib._jax"})
    refused(ValueError, "read-only", demo.square, jax_like(x), jax_like(out))


def case_alignment() -> None:
    x = CudaArray(F32_8)
    x.memory.address += 2
    try:
        refused(ValueError, "its address is not a multiple of the element's size", demo.twice, x)
    finally:
        x.memory.address -= 2


def case_lazy_views() -> None:
    plain = ExchangeArray(F32_8)
    demo.twice(plain)
    assert ExchangeArray.asked == 1, "one question"
    negated = ExchangeArray.like(plain, negated=True)
    refused(ValueError, "negated only when read", demo.twice, negated)
    refused(
        ValueError,
        "negated only when read",
        demo.make,
        8,
        out=ExchangeArray.like(ExchangeArray(np.zeros(8, "int32")), negated=True),
    )
    for flag in ("conjugated", "negated"):
        z = ExchangeArray.like(ExchangeArray([1, 2], "complex64"), **{flag: True})
        arrays = [ExchangeArray([1, 2], "int16", code=4), ExchangeArray([1, 0], bool)]
        arrays.append(ExchangeArray([1, 2], "int8", code=10))
        rest = [ExchangeArray([1, 2], "int64")] * 2
        refused(ValueError, r"'a3'.*conjugated or negated only when read.*resolve_conj", demo.types, *arrays, z, *rest)
    rows = ExchangeArray(np.zeros((2, 4), "float32"))
    imaginary = ExchangeArray.like(rows, shape=(2, 1), strides=(4, 2), negated=True)
    refused(ValueError, "negated only when read", demo.strided, imaginary)
    single = ExchangeArray.like(plain, shape=(1,), strides=(2,), negated=True)
    refused(ValueError, "negated only when read", demo.twice, single)
    refused(ValueError, "negated only when read", demo.twice, plain, out=ExchangeArray.like(single, shape=(1,)))


def case_dlpack_keywords_and_lifetime() -> None:
    x = DlpackArray(F32_8)
    demo.twice(x, stream=(stream := kit.new_stream()))
    assert DlpackArray.seen == [{"stream": stream, "max_version": (1, 1), "copy": False}]
    assert kit.released == ["capsule"], "the capsule stays its owner's, and is dropped when the call is enqueued"
    DlpackArray.seen.clear()
    DlpackArray.keywords = {"stream", "max_version"}
    demo.twice(x)
    assert DlpackArray.seen == [{"stream": 1, "max_version": (1, 1)}]
    old = OldDlpackArray(F32_8)
    DlpackArray.seen.clear()
    demo.twice(old)
    assert DlpackArray.seen == [{"stream": 1}]
    kit.released.clear()
    demo.twice(kit.ManagedOnlyArray(F32_8))
    assert kit.released == ["deleter"]


def case_broken_tensors() -> None:
    """Nothing is read through what an exporter says before it was looked at."""
    memory = kit.Memory(64)

    def exported(**changes: Any) -> Any:
        managed = kit.ManagedOld()
        tensor = managed.tensor
        extents = (ctypes.c_int64 * 1)(changes.pop("extent", 8))
        tensor.data, tensor.rank, tensor.shape = memory.address, 1, extents
        tensor.device.type, tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = kit.CUDA, 2, 32, 1
        for name, value in changes.items():
            setattr(tensor, name, value)
        capsule = kit.api.PyCapsule_New(ctypes.addressof(managed), b"dltensor", None)
        return types.SimpleNamespace(__dlpack__=lambda **words: capsule, alive=(managed, extents))

    demo.twice(exported())
    refused(ValueError, "dimensions without extents", demo.twice, exported(shape=None))
    refused(ValueError, "number of dimensions", demo.twice, exported(rank=-1))
    refused(ValueError, "number of dimensions", demo.twice, exported(rank=2**31 - 1))
    refused(ValueError, "negative extent", demo.twice, exported(extent=-8))
    refused(ValueError, "more elements than memory", demo.twice, exported(extent=2**62))
    wide = (ctypes.c_int64 * 3)(0, 2**40, 2**40)
    refused(ValueError, "more elements than memory", demo.twice, exported(rank=3, shape=wide))
    refused(ValueError, "elements at address 0", demo.twice, exported(data=None))
    empty_table = kit.Exchange()
    empty_table.major = 1
    table = kit.api.PyCapsule_New(ctypes.addressof(empty_table), b"dlpack_exchange_api", None)
    refused(TypeError, "an array", demo.twice, type("Empty", (), {"__dlpack_c_exchange_api__": table})())


def case_options_out_of_range() -> None:
    for device in (-1, 2**31, 2**40, 10**5000):
        refused(ValueError, "device=", demopkg.check, device)
        refused(ValueError, "device=", demopkg.preload, device)
    refused(TypeError, "device= .* got str", demopkg.check, "0")
    refused(TypeError, "device= .* got float", demopkg.preload, 1.0)
    array = demo.twice(CudaArray(F32_8))
    refused(TypeError, "max_version must be a tuple", array.__dlpack__, max_version=1)
    refused(TypeError, "dl_device must be a tuple", array.__dlpack__, dl_device=2)


def case_broken_protocols() -> None:
    array = CudaArray(F32_8)

    def cai(**changes: Any) -> Any:
        about = {**array.__cuda_array_interface__, **changes}
        return types.SimpleNamespace(__cuda_array_interface__=about)

    words = r"argument 1 'x': expected tensor<\?xf32>, got types.SimpleNamespace that cannot be taken: masked arrays"
    refused(TypeError, words, demo.twice, cai(mask=object()))
    refused(TypeError, "little-endian", demo.twice, cai(typestr=">f4"))
    refused(TypeError, "got an unknown 16-bit array", demo.twice, cai(typestr="<V2"))
    refused(TypeError, "'shape' must be a tuple", demo.twice, cai(shape=[8]))
    refused(TypeError, "'data' must be", demo.twice, cai(data=None))
    refused(TypeError, "tuples of one length", demo.twice, cai(strides=(4, 4)))
    refused(ValueError, "multiples of the element's size", demo.twice, cai(strides=(6,)))
    refused(TypeError, "must be a dict", demo.twice, types.SimpleNamespace(__cuda_array_interface__=3))

    refused(TypeError, "of no known type", demo.twice, cai(typestr="<f-4"))
    refused(ValueError, "negative extent", demo.twice, cai(shape=(-8,)))
    refused(ValueError, "more elements than memory", demo.twice, cai(shape=(2**62,)))
    refused(ValueError, "elements at address 0", demo.twice, cai(data=(0, False)))
    refused(TypeError, "argument 1 'x': .* cannot be taken", demo.twice, cai(data=(2**70, False)))
    refused(OverflowError, "'stream' must be a stream's address", demo.twice, cai(stream=-1))
    refused(TypeError, "'stream' must be a stream's address", demo.twice, cai(stream="legacy"))
    refused(TypeError, "its __dlpack__ gave no capsule", demo.twice, exporting(None))
    refused(TypeError, "a capsule of another kind", demo.twice, exporting(kit.capsule(kit.TABLE)))

    class Extent:
        """Takes away what it stands in while it is read."""

        def __init__(self, about: dict[str, Any]) -> None:
            self.about = about

        def __index__(self) -> int:
            self.about.clear()
            return 8

    for _ in range(100):
        about = {**array.__cuda_array_interface__, "strides": (2**40,) * 3}
        about["shape"] = (Extent(about), Extent(about), 10**6)
        changing = types.SimpleNamespace(__cuda_array_interface__=about)
        refused(
            ValueError,
            r"shape \(8, 8, 1000000\) with strides \(274877906944, 274877906944, 274877906944\)",
            demo.twice,
            changing,
        )

    class Elsewhere:
        device: Any = None

        def __dlpack_device__(self) -> Any:
            return self.device

    for device in ((2**100, 0), (2**40, 0), (-1, 0), (2,), 3):
        Elsewhere.device = device
        Elsewhere.__dlpack__ = lambda self, **words: None  # type: ignore[attr-defined]
        refused(TypeError, "argument 1 'x': expected", demo.twice, Elsewhere())

    class Raising:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **words: Any) -> Any:
            raise BufferError("not today\nframe #0")

    refused(
        TypeError, r"argument 1 'x': .*got __main__.*Raising that cannot be taken: not today$", demo.twice, Raising()
    )
    try:
        demo.twice(Raising())
    except TypeError as error:
        assert isinstance(error.__cause__, BufferError)


def case_devices_without_arrays() -> None:
    """Calls that nothing ties to a device follow the current context, also when they come one after the other."""
    for device in (0, 0, 1, 1, 0, 1):
        kit.start(device)
        assert demo.make(3).__dlpack_device__() == (2, device)
        assert demo.make(n=3).__dlpack_device__() == (2, device)


def case_devices() -> None:
    x, y = ExchangeArray(F32_8), ExchangeArray(F32_8, device=1)
    words = r"argument 2 'y': expected memref<\?xf32> on device 0 like argument 1 'x', got an array on device 1"
    refused(ValueError, words, demo.swap, x, y)
    demo.twice(x)
    kit.log()
    demo.twice(y)
    calls = kit.log()
    print(calls)
    current = calls[0].split()[-1]
    assert calls[0].startswith("cuCtxSetCurrent")
    assert calls[-1].startswith("cuCtxSetCurrent"), "the caller's context is put back"
    assert calls[-1].split()[-1] != current
    refused(ValueError, "on another device than the arguments", demo.twice, x, out=y)


# ------------------------------------------------------------------ numbers

EDGES = {
    "i1": ([0, 1, True, False], [2, -1]),
    "i3": ([-4, 3], [-5, 4]),
    "i8": ([-128, 127], [-129, 128]),
    "i32": ([-(2**31), 2**31 - 1], [-(2**31) - 1, 2**31]),
    "i64": ([-(2**63), 2**63 - 1], [-(2**63) - 1, 2**63, 10**30]),
    "index": ([-(2**63), 2**63 - 1], [2**63]),
    "ui8": ([0, 255], [-1, 256]),
    "ui64": ([0, 2**64 - 1], [-1, 2**64]),
    "f16": ([65504.0, -0.5, 2.0**-24], [65520.0, -1e6]),
    "bf16": ([3.0e38, 1.0], [3.4e38]),
    "f32": ([3.4e38, 2], [1e39]),
    "f64": ([1e308, np.float32(0.5), np.int64(3)], [10**400]),
    "complex<f32>": ([1 + 2j, 3.0], [1e39 + 0j]),
    "complex<f64>": ([1e300 - 2j, np.complex64(1j)], []),
}

RETURNED = {"i1": bool, "complex<f32>": complex, "complex<f64>": complex}


def case_numbers_and_their_ranges() -> None:
    defaults = [0] * len(EDGES)
    for index, (kind, (good, bad)) in enumerate(EDGES.items()):
        for number in good:
            got = demo.numbers(*defaults[:index], number, *defaults[index + 1 :])[index]
            error = abs(number) * {"bf16": 2e-2, "f16": 1e-3, "f32": 1e-6}.get(kind, 1e-7)
            assert abs(got - number) <= error, (kind, got)
            assert type(got) is RETURNED.get(kind, int if kind[0] in "iu" else float), (kind, got)
        for number in bad:
            words = rf"argument {index + 1} 'a{index}': expected {re.escape(kind)}, got a number out of its range"
            refused(OverflowError, words, demo.numbers, *defaults[:index], number, *defaults[index + 1 :])
        words = rf"argument {index + 1} 'a{index}': .* got a number out of its range: an int of thousands of digits"
        refused(OverflowError, words, demo.numbers, *defaults[:index], 10**5000, *defaults[index + 1 :])
    assert demo.numbers(*[1] * 14)[0] is True
    refused(TypeError, r"'a3': expected i32 \(an int\), got float", demo.numbers, *defaults[:3], 1.0, *defaults[4:])
    refused(TypeError, r"'a10': expected f32 \(a float\), got str", demo.numbers, *defaults[:10], "1", *defaults[11:])
    refused(TypeError, r"'a12': expected complex<f32> \(a complex\), got list", demo.numbers, *defaults[:12], [], 0)
    refused(TypeError, r"'a12': expected complex<f32> \(a complex\), got str", demo.numbers, *defaults[:12], "1j", 0)


def case_small_floats_are_rounded_once() -> None:
    def through(index: int, number: float) -> float:
        return demo.numbers(*[0] * index, number, *[0] * (13 - index))[index]

    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**64, 4000, dtype="uint64")
    wide = bits.view("float64")
    scaled = np.concatenate([rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 5, 2000), wide[np.abs(wide) < 6e4]])
    ties = [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-40, 2**-25, 3 * 2**-25, 2**-25 * 1.0000001, 65519.999]
    for number in [*scaled.tolist(), *ties, float("inf"), float("-inf")]:
        assert through(8, number) == float(np.float64(number).astype("float16")), number
    assert np.isnan(through(8, float("nan")))
    assert np.isnan(through(9, float("nan")))
    for number in [*scaled[:500].tolist(), 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-50]:
        # bf16 from a double: the exact value lies between two bf16 numbers; nearest, ties to even.
        low = int(np.float64(number).astype("float32").view("uint32")) & 0xFFFF0000
        near = [float(np.uint32(low + (step << 16)).view("float32")) for step in (-1, 0, 1) if low or step >= 0]
        best = min(near, key=lambda c: (abs(c - number), int(np.float32(c).view("uint32")) >> 16 & 1))
        assert through(9, number) == best, number


# ------------------------------------------------------------------ results


def case_shapes_and_aliases_of_results() -> None:
    x = ExchangeArray(np.arange(12, dtype="float32").reshape(3, 4))
    turned, total, rows, same = demo.several(x)
    assert (content(turned) == x.numpy().T).all()
    assert (total, rows) == (66.0, 3)
    assert same is x
    y = ExchangeArray(F32_8)
    z = ExchangeArray(F32_8)
    first, second = demo.swap(y, z)
    assert (first is z, second is y) == (True, True)
    point = demo.point(ExchangeArray(np.float32(4)))
    assert (point.shape, content(point)) == ((), -4)
    assert demo.types.__name__ == "types"


def case_results_without_arrays() -> None:
    made = demo.make(5)
    assert isinstance(made, demopkg.DeviceArray)
    assert (made.shape, made.dtype, made.device, made.stream) == ((5,), "int32", 0, 0)
    assert repr(made) == "<demopkg.DeviceArray: int32 array of shape (5,) on device 0>"
    assert content(made).tolist() == [0, 1, 2, 3, 4]
    assert demo.make(0).shape == (0,)
    refused(ValueError, "negative size", demo.make, -3)
    assert demo.make(2).shape == (2,), "the next call works"
    assert (content(demo.twice(demo.twice(CudaArray(F32_8)))) == 4 * F32_8).all(), "our arrays are taken, too"


def case_device_array_exports() -> None:
    stream, other = kit.new_stream(), kit.new_stream()
    made = demo.make(4, stream=stream)
    about = made.__cuda_array_interface__
    assert (about["shape"], about["typestr"], about["strides"], about["version"]) == ((4,), "<i4", None, 3)
    assert (about["stream"], demo.make(1).__cuda_array_interface__["stream"]) == (stream, 1)
    assert made.__dlpack_device__() == (2, 0)
    kit.log()
    assert '"dltensor"' in repr(made.__dlpack__(stream=stream))
    assert '"dltensor_versioned"' in repr(made.__dlpack__(stream=-1, max_version=(1, 0), dl_device=(2, 0)))
    assert kit.log() == []
    capsule = made.__dlpack__(stream=other, max_version=(1, 1))
    calls = [line.split()[0] for line in kit.log()]
    assert calls == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2"]
    refused(BufferError, "no copies", made.__dlpack__, copy=True)
    refused(BufferError, r"not on \(1, 0\)", made.__dlpack__, dl_device=(1, 0))
    del made
    assert not any(line.startswith("cuMemFreeAsync") for line in kit.log()), "the capsule holds the array"
    del capsule
    freed = [line for line in kit.log() if line.startswith(("cuMemFreeAsync", "cuStreamWaitEvent"))]
    assert [line.split()[0] for line in freed] == ["cuStreamWaitEvent", "cuMemFreeAsync"], "after the consumer's work"


def case_device_array_with_two_consumers() -> None:
    mine, one, two = kit.new_stream(), kit.new_stream(), kit.new_stream()
    made = demo.make(4, stream=mine)
    first, second = made.__dlpack__(stream=one, max_version=(1, 1)), made.__dlpack__(stream=two)
    del made
    kit.log()
    del first, second
    lines = [line.split() for line in kit.log() if line.startswith(("cuEventRecord", "cuStreamWaitEvent", "cuMemFree"))]
    records, waits = (
        [line[place] for line in lines if line[0] == name]
        for name, place in (("cuEventRecord", 2), ("cuStreamWaitEvent", 1))
    )
    assert (len(records), len(set(records)), len(waits), len(set(waits))) == (2, 2, 2, 1), "after the work of both"
    assert lines[-1][0] == "cuMemFreeAsync"


def case_results_become_the_callers_type() -> None:
    module = types.ModuleType("cuwork")
    taken: list[Any] = []

    def from_dlpack(array: Any) -> Any:
        taken.append(array)
        return ("converted", array)

    module.from_dlpack = from_dlpack  # type: ignore[attr-defined]
    sys.modules["cuwork"] = module
    kind = type("ndarray", (DlpackArray,), {"__module__": "cuwork.core"})
    tag, array = demo.twice(kind(F32_8))
    assert (tag, taken) == ("converted", [array])
    sys.modules["jax.numpy"] = module
    tag, _ = demo.twice(type("ArrayImpl", (DlpackArray,), {"__module__": "jaxlib._jax"})(F32_8))
    assert tag == "converted"
    low, high = demo.halves(kind(F32_8))
    assert (low[0], high[0]) == ("converted", "converted")


def case_allocator_errors() -> None:
    Framework.error = b"out of memory on device 0"
    refused(MemoryError, "out of memory on device 0", demo.twice, ExchangeArray(F32_8))
    Framework.kind = b"ValueError"
    refused(RuntimeError, "ValueError: out of memory on device 0", demo.twice, ExchangeArray(F32_8))
    Framework.kind = b"NotImplementedError"  # a type that only views memory
    made = demo.twice(ExchangeArray(F32_8))
    assert isinstance(made, demopkg.DeviceArray)
    Framework.error = b""
    assert (content(demo.twice(ExchangeArray(F32_8))) == 2 * F32_8).all()


def exporting(capsule: Any) -> Any:
    return types.SimpleNamespace(__dlpack__=lambda **words: capsule)


def case_out() -> None:
    for kind in CLASSES:
        x, out = kind(F32_8), kind(np.zeros(8, "float32"))
        assert demo.twice(x, out=out) is out
        assert demo.twice(x, out=(out,)) is out
        assert (out.numpy() == 2 * F32_8).all()
    x = ExchangeArray(F32_8)
    words = (
        r"demo.twice\(\) out= for result 1: expected tensor<\?xf32>, got a float32 array of shape \(7,\): "
        r"the result is a float32 array of shape \(8,\)"
    )
    refused(ValueError, words, demo.twice, x, out=ExchangeArray(F32_8[:7]))
    refused(TypeError, "another element type", demo.twice, x, out=ExchangeArray(F32_8, "float64"))
    refused(ValueError, "contiguous", demo.twice, x, out=ExchangeArray.like(x, shape=(4,), strides=(2,)))
    refused(TypeError, "an array on a GPU is needed", demo.twice, x, out=object())
    refused(TypeError, "it is in host memory", demo.twice, x, out=F32_8.copy())
    refused(TypeError, r"makes 1 array: out= takes one array, got 2", demo.twice, x, out=(x, x))
    refused(TypeError, r"makes 0 arrays", demo.strided, ExchangeArray(np.zeros((2, 2), "float32")), out=x)
    fixed = DlpackArray(F32_8)
    fixed.readonly = True
    refused(ValueError, "it is read-only", demo.twice, x, out=fixed)
    words = r"demo.twice\(\) out= for result 1: expected tensor<\?xf32>, got .* that cannot be taken: "
    refused(TypeError, words + "masked arrays", demo.twice, x, out=np.ma.masked_array(F32_8))
    refused(TypeError, words + "its __dlpack__ gave no capsule", demo.twice, x, out=exporting(None))
    failing = types.SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: ("GPU", 0))
    words = r"demo.make\(\) out= for result 1: .* that cannot be taken: "
    refused(ValueError, words + "invalid literal for int", demo.make, 3, out=failing)
    out = ExchangeArray(np.zeros((4, 3), "float32"))
    several = demo.several(ExchangeArray(np.ones((3, 4), "float32")), out=out)
    assert several[0] is out
    low = ExchangeArray(np.zeros(4, "float32"))
    got = demo.halves(x, out=(None, low))
    assert got[1] is low
    assert got[0] is not low
    refused(ValueError, "shares memory with another", demo.halves, x, out=(low, low))
    words = r"got an int32 array of shape \(4,\): the result is an int32 array of shape \(3,\)"
    refused(ValueError, words, demo.make, 3, out=ExchangeArray(np.zeros(4), "int32"))
    made = demo.make(3, out=(target := ExchangeArray(np.zeros(3), "int32")))
    assert made is target
    assert target.numpy().tolist() == [0, 1, 2]


def case_out_that_overlaps_an_argument() -> None:
    x = ExchangeArray(F32_8)
    assert demo.twice(x, out=x) is x
    assert (x.numpy() == 2 * F32_8).all()
    x = ExchangeArray(F32_8)
    kit.log()
    low, high = ExchangeArray.like(x, offset=4, shape=(4,)), ExchangeArray.like(x, shape=(4,))
    demo.halves(x, out=(low, high))
    assert x.numpy().tolist() == [4, 5, 6, 7, 0, 1, 2, 3], "computed from the values before the call"
    assert sum(line.startswith("cuMemcpyAsync") for line in kit.log()) == 2
    assert kit.cuda.fake_live(1) == 0


def case_destination_that_overlaps_a_value() -> None:
    square = np.arange(16, dtype="float32").reshape(4, 4)
    x = ExchangeArray(square)
    assert demo.square(x, x) is x
    assert (x.numpy() == square.T**2).all(), "the argument is a value: read as it was"
    assert kit.cuda.fake_live(1) == 0
    kit.log()
    demo.square(ExchangeArray(square), ExchangeArray(square))
    assert not any(line.startswith("cuMemcpy") for line in kit.log())
    four = np.arange(4, dtype="float32")
    x, more = ExchangeArray(four), ExchangeArray(four)
    demo.mirror(x, x, x, more)
    assert x.numpy().tolist() == [3, 2, 1, 0], "a reference in the same memory does not hide the value behind it"
    assert more.numpy().tolist() == [0, -1, -2, -3]
    refused(ValueError, "'out'.*shares memory with another argument: both are written", demo.mirror, more, x, x, x)
    refused(ValueError, "both are written", demo.mirror, x, more, x, x)
    assert kit.cuda.fake_live(1) == 0


# ------------------------------------------------------------------ streams


def last_launch() -> str:
    return [line for line in kit.log() if line.startswith("cuLaunchKernel")][-1].split()[-1]


def case_streams() -> None:
    home, mine = kit.new_stream(), kit.new_stream()
    x = ExchangeArray(F32_8)
    kit.log()
    Framework.stream = home
    demo.twice(x)
    assert last_launch() == "s1", "the framework's current stream"
    for given in (mine, Stream(mine), TorchStream(mine), types.SimpleNamespace(ptr=mine),
                  types.SimpleNamespace(__cuda_stream__=(0, mine))):  # fmt: skip
        demo.twice(x, stream=given)
        lines = kit.log()
        order = [line for line in lines if line.startswith(("cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel"))]
        words = [(line.split()[0], *re.findall(r"\bs\d\b", line)) for line in order]
        assert words == [
            ("cuEventRecord", "s1"),
            ("cuStreamWaitEvent", "s2"),
            ("cuLaunchKernel", "s2"),
            ("cuEventRecord", "s2"),
            ("cuStreamWaitEvent", "s1"),
        ], given
    demo.twice(x, stream=home)
    assert not any("Event" in line for line in kit.log())
    demo.twice(x, stream=None)
    assert last_launch() == "s1"
    assert kit.cuda.fake_live_events() == 0
    for wrong in (object(), "s", True, 1.5):
        refused(TypeError, "stream= takes an int, an object with __cuda_stream__", demo.twice, x, stream=wrong)
    refused(TypeError, "must give", demo.twice, x, stream=types.SimpleNamespace(__cuda_stream__=lambda: 3))
    refused(OverflowError, "stream= must be a stream's address", demo.twice, x, stream=-5)


def case_streams_of_other_protocols() -> None:
    first, second = kit.new_stream(), kit.new_stream()
    kit.log()
    x = CudaArray(F32_8)
    demo.twice(x)
    assert last_launch() == "s0", "nothing says a stream: the legacy default stream"
    CudaArray.extra = {"stream": first}
    demo.twice(x)
    assert last_launch() == "s1", "the array's own"
    CudaArray.extra = {"stream": None}
    demo.twice(x, stream=first)
    lines = kit.log()
    assert not any("Event" in line for line in lines), "no framework works on the default stream here"
    chained = demo.twice(demo.twice(x, stream=first))
    assert chained.stream == first, "our own arrays remember theirs"
    cupy = types.ModuleType("cupy")
    current = types.SimpleNamespace(ptr=second)
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: current)  # type: ignore[attr-defined]
    sys.modules["cupy"] = cupy
    made = demo.twice(x)
    assert last_launch() == "s2", "CuPy's current stream"
    assert sys.getrefcount(current) > 2
    before = sys.getrefcount(current)
    del made
    assert sys.getrefcount(current) == before - 1, "the result kept its stream alive"
    demo.plain(x.address, 1, grid=1, block=1)
    assert last_launch() == "s2", "addresses may be CuPy's"
    assert demo.make(2).stream == 0, "a call without arrays is nobody's"


def case_streams_that_are_captured() -> None:
    home, mine = kit.new_stream(), kit.new_stream()
    x = ExchangeArray(F32_8)
    demo.twice(x)
    Framework.stream = home
    kit.cuda.fake_capture(ctypes.c_void_p(mine), 1)
    kit.log()
    demo.twice(x, stream=mine)
    assert not any("Event" in line for line in kit.log()), "a graph cannot depend on work outside it"
    kit.cuda.fake_capture(ctypes.c_void_p(mine), 0)
    kit.cuda.fake_capture(ctypes.c_void_p(home), 1)
    demo.twice(x, stream=mine)
    assert sum(line.startswith("cuStreamWaitEvent") for line in kit.log()) == 2, "the capture forks and joins"
    demo.twice(x)
    assert last_launch() == "s1"
    waiting = ExchangeArray([3], "int32")
    refused(RuntimeError, "captur", demo.waiting, waiting)
    kit.cuda.fake_capture(ctypes.c_void_p(home), 0)
    assert content(demo.waiting(waiting)).tolist() == [7, 7, 7]


def case_stream_of_another_device() -> None:
    kit.start(1)
    other = kit.new_stream()
    kit.start(0)
    refused(ValueError, r"demo.twice\(\): stream= is of device 1, but the call runs on device 0", demo.twice,
            ExchangeArray(F32_8), stream=other)  # fmt: skip


# ------------------------------------------------------------------ errors


def case_assertions_and_recovery() -> None:
    odd, even = ExchangeArray(F32_8[:7]), ExchangeArray(F32_8)
    for x in (odd, CudaArray(F32_8[:7])):
        text = refused(RuntimeError, "the length must be even", demo.failing, x)
        assert not isinstance(text, demopkg.CudaError)
    wrong = r"demo\.failing\(\): extent 0 of 'x' \(9\) is not -4 \(demo\.mlir:3\)$"
    refused(ValueError, wrong, demo.failing, ExchangeArray(np.zeros(9, "f4")))
    text = refused(RuntimeError, "^five: é", demo.failing, ExchangeArray(F32_8[:5]))
    assert text.endswith("é\N{REPLACEMENT CHARACTER}"), "the text is cut within a character"
    assert content(demo.failing(even)).shape == (8,)
    gc.collect()
    assert kit.cuda.fake_live(1) == 0, "what failing calls allocated is freed"


def case_driver_errors() -> None:
    x, y = ExchangeArray(F32_8), CudaArray(F32_8)
    demo.twice(x)
    kit.cuda.fake_fail(b"cuLaunchKernel", 1, 719)
    try:
        demo.twice(x)
    except demopkg.CudaError as error:
        assert (error.code, error.name) == (719, "CUDA_ERROR_LAUNCH_FAILED")
        assert "twice_kernel" in str(error)
    else:
        raise AssertionError("no error")
    kit.cuda.fake_fail(b"cuMemAllocFromPoolAsync", 1, 2)
    refused(demopkg.CudaError, "OUT_OF_MEMORY", demo.twice, y)
    for call in ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"):
        kit.cuda.fake_fail(call.encode(), 1, 400)
        refused(demopkg.CudaError, call, demo.twice, x, stream=kit.new_stream())
    kit.cuda.fake_fail(b"cuMemcpyAsync", 1, 1)
    refused(demopkg.CudaError, "cuMemcpyAsync", demo.twice, x, out=x)
    assert (content(demo.twice(y)) == 2 * F32_8).all()
    gc.collect()
    assert (kit.cuda.fake_live(1), kit.cuda.fake_bad_frees()) == (0, 0)


def case_each_driver_call_fails_in_turn() -> None:
    """The error names the function that failed, the current context stays, and the next call works."""
    y, numbers = CudaArray(F32_8), CudaArray(np.array([3, 1, 1], "int32"), "int32")
    matrix, stream = CudaArray(np.zeros((4, 4), "float32")), kit.new_stream()
    calls: list[Callable[[], Any]] = [
        lambda: demo.twice(y),
        lambda: demo.twice(y, out=y),
        lambda: demo.twice(y, stream=stream),
        lambda: demo.square(matrix, matrix),
        lambda: demo.waiting(numbers),
        lambda: demo.make(3),
        lambda: demo.plain(0, 1, grid=1, block=1),
        lambda: demo.fixed(None),
        lambda: demopkg.preload(),
        lambda: demopkg.preload(1),
        lambda: demopkg._trim(),
    ]
    current, before = ctypes.c_void_p(), ctypes.c_void_p()
    kit.check(kit.cuda.cuCtxGetCurrent(ctypes.byref(before)))
    for call in calls:
        call()
        kit.log()
        call()
        made = Counter(line.split()[0] for line in kit.cuda.fake_log().decode().splitlines())
        for function, nth in ((function, i + 1) for function, count in made.items() for i in range(count)):
            kit.cuda.fake_fail(function.encode(), nth, 304)
            try:
                call()
            except demopkg.CudaError as error:
                assert (error.code, function.removesuffix("_v2") in str(error)) == (304, True), (
                    function,
                    nth,
                    str(error),
                )
            kit.cuda.fake_fail_nothing()
            kit.check(kit.cuda.cuCtxGetCurrent(ctypes.byref(current)))
            assert current.value == before.value or function == "cuCtxSetCurrent", (function, nth)
            kit.check(kit.cuda.cuCtxSetCurrent(before))
            call()
            kit.cuda.fake_clear_log()
    for function in (
        "cuDeviceGetCount",
        "cuDriverGetVersion",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuCtxGetDevice",
    ):
        kit.cuda.fake_fail(function.encode(), 1, 304)
        assert demopkg.check().problems == (f"{function} failed: CUDA_ERROR_UNKNOWN (304), text of the driver",)
        assert demopkg.check()


def case_first_load_fails() -> None:
    kit.cuda.fake_fail(b"cuModuleLoadDataEx", 1, 209)
    refused(demopkg.CudaError, "sm_80", demo.twice, ExchangeArray(F32_8))
    assert (content(demo.twice(ExchangeArray(F32_8))) == 2 * F32_8).all()


# ------------------------------------------------------------------ kernels


def launched(call: Callable[..., Any], *args: Any, **words: Any) -> str:
    kit.log()
    assert call(*args, **words) is None
    lines = [line for line in kit.log() if line.startswith("cuLaunchKernel")]
    assert len(lines) <= 1
    return lines[0].partition(" ")[2] if lines else ""


def case_kernel_sizes() -> None:
    x, y = ExchangeArray(np.zeros((300, 8), "float32")), ExchangeArray(np.zeros(8, "float32"))
    assert launched(demo.scale, x, 5, 0.5, y) == "kernels__scale grid 3x5x1 block 128x1x1 shared 32 s0"
    words = {"grid": (2, 3), "block": [4, 5, 6], "shared": 16}
    assert launched(demo.scale, x, 5, 0.5, y, **words) == "kernels__scale grid 2x3x1 block 4x5x6 shared 16 s0"
    line = launched(demo.scale, x, 5, 0.5, y, grid=np.int64(7))
    assert line == "kernels__scale grid 7x1x1 block 128x1x1 shared 32 s0"
    assert launched(demo.scale, x, 5, 0.5, y, grid=0) == "", "nothing to do"
    refused(ValueError, "kernel's own grid cannot be computed.*: pass grid=", demo.scale, x, -1, 0.5, y)
    refused(TypeError, r"demo.plain\(\): grid= is needed: the number of blocks", demo.plain, 0, 1)
    refused(TypeError, r"demo.plain\(\): block= is needed", demo.plain, 0, 1, grid=1)
    for wrong in ((), (1, 2, 3, 4), "3", 1.5, (1, None)):
        refused(TypeError, r"demo.plain\(\): grid= takes an int or a tuple", demo.plain, 0, 1, grid=wrong, block=1)
    refused(ValueError, r"demo.plain\(\): block= is negative: -2", demo.plain, 0, 1, grid=1, block=(1, -2))
    refused(ValueError, "1024|1025", demo.plain, 0, 1, grid=1, block=1025)
    line = launched(demo.plain, 0, 1, grid=2, block=32, cluster=2)
    assert line == "kernels__plain grid 2x1x1 block 32x1x1 cluster 2x1x1 shared 0 s0"
    assert launched(demo.fixed, None) == "kernels__fixed grid 4x1x1 block 64x2x1 cluster 2x1x1 shared 0 s0"
    head = "kernels__special grid 4x1x1 block 32x1x1 cluster 0x0x0 shared 0 s0"
    assert launched(demo.special, None) == f"{head} cooperative 1 priority -2"
    assert launched(demo.special, None, cooperative=False, programmatic=True) == f"{head} programmatic 1 priority -2"
    assert launched(demo.special, None, priority=3, cluster=1) == f"{head} cooperative 1 priority 3"
    refused(TypeError, "priority= takes an int", demo.special, None, priority="high")
    refused(ValueError, r"demo.special\(\): priority= is outside the limits", demo.special, None, priority=2**40)
    refused(ValueError, r"demo.plain\(\): grid= is outside the limits", demo.plain, 0, 1, grid=2**70, block=1)
    refused(
        TypeError, r"demo.plain\(\): shared= takes an int: the bytes", demo.plain, 0, 1, grid=1, block=1, shared=(1, 2)
    )
    refused(ValueError, "64", demo.fixed, None, block=32)
    stream = kit.new_stream()
    assert launched(demo.plain, 0, 1, grid=1, block=1, stream=Stream(stream)).endswith("s1")
    refused(TypeError, "has no argument or option 'out'", demo.plain, 0, 1, grid=1, block=1, out=x)


HOOK = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_uint), ctypes.c_uint,
    ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip


def parameters(count: int, call: Callable[..., Any], *args: Any, **words: Any) -> list[int]:
    """The 8-byte values that the kernel's parameters point to."""
    seen: list[int] = []

    @HOOK
    def hook(name: bytes, grid: Any, block: Any, shared: int, params: Any) -> None:
        seen.extend(ctypes.c_int64.from_address(params[i]).value for i in range(count))

    kit.cuda.fake_on_launch(hook)
    try:
        call(*args, **words)
    finally:
        kit.cuda.fake_on_launch(None)
    return seen


def case_kernel_parameters() -> None:
    x, y = ExchangeArray(np.zeros((300, 8), "float32")), ExchangeArray(np.zeros(8, "float32"))
    got = parameters(14, demo.scale, x, 5, 0.5, y)
    assert got[:7] == [x.address, x.address, 0, 300, 8, 8, 1]
    assert (got[7] & 0xFFFFFFFF, got[8] & 0xFFFF) == (5, 0x3800)
    assert got[9:] == [y.address, y.address, 0, 8, 1]
    got = parameters(14, demo.scale, x, 5, 0.5, y.address)
    assert got[9:] == [y.address, y.address, 0, 8, 1], "an address where the shape is fixed"
    refused(TypeError, r"'x': expected memref<\?x8xf32>, got an address: only an array tells its shape", demo.scale,
            x.address, 5, 0.5, y)  # fmt: skip
    assert parameters(1, demo.bare, x) == [x.address]
    sizes = {"grid": 1, "block": 1}
    for pointer in (x, x.address, ctypes.c_void_p(x.address), CudaArray.like(x), DlpackArray.like(x)):
        assert parameters(2, demo.plain, pointer, 7, **sizes) == [x.address, 7]
    for pointer in (None, 0, ctypes.c_void_p()):
        assert parameters(1, demo.plain, pointer, 7, **sizes) == [0]
    part = CudaArray.like(x, offset=8, shape=(4, 2), strides=(8, 2))
    assert parameters(1, demo.plain, part, 7, **sizes) == [x.address + 32]
    refused(OverflowError, "address out of range", demo.plain, -1, 7, **sizes)
    refused(TypeError, "got list", demo.plain, [], 7, **sizes)
    refused(TypeError, "host memory", demo.plain, F32_8, 7, **sizes)
    fixed = DlpackArray(F32_8)
    fixed.readonly = True
    refused(ValueError, "read-only array: the kernel may write it", demo.plain, fixed, 7, **sizes)
    assert demo.reads(fixed) is None
    refused(ValueError, "negated only when read", demo.plain, ExchangeArray.like(x, negated=True), 7, **sizes)


# ------------------------------------------------------------------ the process


def case_many_arguments() -> None:
    arrays = [ExchangeArray(np.full((2, 2), i, "float32")) for i in range(64)]
    assert demo.many(*arrays) == sum(range(64))
    assert demo.many(**{f"a{i}": array for i, array in enumerate(arrays)}) == sum(range(64))


def case_no_leaks() -> None:
    import tracemalloc

    x, y, old = ExchangeArray(F32_8), CudaArray(F32_8), OldDlpackArray(F32_8)
    matrix, out = ExchangeArray(np.zeros((4, 4), "float32")), ExchangeArray(np.zeros((4, 4), "float32"))
    stream = kit.new_stream()

    def everything() -> None:
        demo.twice(x)
        demo.twice(y)
        demo.twice(old, stream=stream)
        demo.twice(x, out=x)
        demo.square(matrix, out)
        demo.square(matrix, matrix)
        demo.make(9).__dlpack__()
        demo.several(matrix)
        demo.numbers(*[1] * 14)
        demo.plain(x, 3, grid=1, block=(1, 1))
        wrong = (RuntimeError, TypeError, ValueError)
        refused(wrong, "even", demo.failing, ExchangeArray.like(x, shape=(7,)))
        refused(wrong, "got int", demo.twice, 3)
        refused(wrong, "host memory", demo.twice, F32_8)
        refused(wrong, "another extent", demo.scale, matrix, 1, 1, 1)
        refused(wrong, "negative", demo.make, -1)
        refused(wrong, "takes 1", demo.twice, x, x)
        kit.cuda.fake_fail(b"cuMemAllocFromPoolAsync", 1, 2)
        refused(wrong, "CUDA_ERROR_OUT_OF_MEMORY", demo.square, matrix, matrix)
        Framework.allocated.clear()
        DlpackArray.seen.clear()
        kit.released.clear()

    for _ in range(20):
        everything()
    gc.collect()
    kit.log()
    objects = [x, y, old, matrix, out, demo.twice, type(x), type(old)]
    counts = [sys.getrefcount(each) for each in objects]
    live = kit.cuda.fake_live(0)
    tracemalloc.start()
    for _ in range(50):
        everything()
    kit.cuda.fake_clear_log()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        everything()
        kit.cuda.fake_clear_log()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    assert grown < 20_000, f"{grown} bytes in 1000 rounds: the smallest object of Python has 28"
    after = [sys.getrefcount(each) for each in objects]
    assert all(abs(a - b) < 900 for a, b in zip(after, counts, strict=True)), (counts, after)
    assert (kit.cuda.fake_live(0), kit.cuda.fake_bad_frees()) == (live, 0)
    nones = sys.getrefcount(None)
    for _ in range(1000):  # without the allocator: ctypes drops None's references in callbacks that take pointers
        demo.plain(x, 3, grid=1, block=(1, 1))
        demo.square(matrix, out, stream=None)
        demo.make(9)
        kit.cuda.fake_clear_log()
    gc.collect()
    assert abs(sys.getrefcount(None) - nones) < 900


def case_threads() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        kit.start()
        try:
            for i in range(200):
                n = (seed * 31 + i) % 50
                x = np.full(n + 2, n, "int32")
                assert content(demo.waiting(ExchangeArray(x, "int32"))).tolist() == [7] * n
                assert (content(demo.twice(CudaArray(F32_8 + seed))) == 2 * (F32_8 + seed)).all()
                assert demo.make(n=n).shape == (n,)
                demo.plain(0, n=1, grid=1, block=32)
                refused(TypeError, "has no argument or option 'm'", demo.plain, 0, m=1, grid=1, block=32)
                if i % 10 == 0:  # types that nobody has met, more than are remembered
                    kind = type("Own", (ExchangeArray,), {})
                    assert (content(demo.twice(x=kind(F32_8 + seed))) == 2 * (F32_8 + seed)).all()
        except BaseException as error:
            failures.append(repr(error))
            raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def case_reentry_from_an_allocator() -> None:
    inner: list[Any] = []
    kind = type("ndarray", (DlpackArray,), {"__module__": "nested.core"})
    module = types.ModuleType("nested")
    module.from_dlpack = lambda array: inner.append(demo.make(2)) or array  # type: ignore[attr-defined,func-returns-value]
    sys.modules["nested"] = module
    assert (content(demo.twice(kind(F32_8))) == 2 * F32_8).all()
    original = kit.Framework.allocated

    class Calling(list):  # type: ignore[type-arg]
        def append(self, array: Any) -> None:
            super().append(array)
            inner.append(demo.make(3))

    kit.Framework.allocated = Calling(original)
    assert (content(demo.twice(ExchangeArray(F32_8))) == 2 * F32_8).all()
    assert [each.shape for each in inner] == [(2,), (3,)]


def case_fork_after_import() -> None:
    import os

    child = os.fork()
    if not child:
        kit.start()
        os._exit(0 if (content(demo.twice(ExchangeArray(F32_8))) == 2 * F32_8).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    kit.start()
    demo.twice(ExchangeArray(F32_8))
    child = os.fork()
    if not child:
        try:
            demo.make(2)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(3)
    assert os.waitpid(child, 0)[1] == 0


def case_subinterpreters_are_refused() -> None:
    code = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
name = interpreters.create()
interpreters.run_string(name, '''
try:
    import demopkg
except ImportError as error:
    assert "subinterpreter" in str(error), error
else:
    raise SystemExit("imported")
''')
print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr


def case_imported_again() -> None:
    first = demo.twice
    for name in [name for name in sys.modules if name.startswith("demopkg")]:
        del sys.modules[name]
    import demopkg as again

    assert again.demo is not demo
    assert again.CudaError is demopkg.CudaError
    assert (content(first(ExchangeArray(F32_8))) == content(again.twice(ExchangeArray(F32_8)))).all()


def case_import_time() -> None:
    code = (
        "import time; s = time.process_time(); import demopkg; e = time.process_time()\n"
        "import sys; print(e - s, 'numpy' in sys.modules)"
    )
    times = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, numpy = done.stdout.split()
        times.append(float(seconds))
        assert numpy == "False"
    assert min(times) < 0.005, times


def case_fast_path_is_short() -> None:
    x, out = ExchangeArray(np.zeros((4, 4), "float32")), ExchangeArray(np.zeros((4, 4), "float32"))
    demo.square(x, out)
    kit.cuda.fake_clear_log()
    demo.square(x, out)
    lines = kit.cuda.fake_log().decode().splitlines()
    assert len(lines) <= 1, f"one question to the driver, no more: {lines}"
    start = time.perf_counter()
    for _ in range(100):
        demo.square(x, out)
    print(f"{(time.perf_counter() - start) * 1e4:.2f} us a call with arrays written in Python")


if __name__ == "__main__":
    name = sys.argv[1]
    if name not in ("import_touches_no_driver", "fork_after_import", "check_reports"):
        kit.start()
    globals()[f"case_{name}"]()
