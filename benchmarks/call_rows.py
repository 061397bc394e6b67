"""The contenders of call.py: each makes one call of a kernel with so many arrays and scalars.

In: a Case, our package. Out: rows by name, and why the others are missing. A contender that raises while it is made is
missing; nothing else is caught.
"""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import timeit
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
KERNEL = b"contender"
NAMES = "abcdemno"
WARM = 3
"""Calls of a row before any counts."""


@dataclass(frozen=True)
class Case:
    """What is called."""

    title: str
    arrays: int
    scalars: int = 0
    made: bool = False
    """The last array is a result that the call makes."""


CASES = (
    Case("0 arrays", 0),
    Case("1 array", 1),
    Case("2 arrays", 2),
    Case("4 arrays", 4),
    Case("8 arrays", 8),
    Case("4 arrays, 2 scalars", 4, 2),
    Case("1 array, result made", 2, made=True),
)
Row = Callable[[int], float]
"""Number of calls -> seconds."""


def python_row(text: str, names: dict[str, Any]) -> Row:
    """A row that is one Python expression; called a few times before it counts."""
    timer = timeit.Timer(text, globals=names)
    timer.timeit(WARM)
    return timer.timeit


Maker = Callable[["Setting"], Row]


class Library:
    """The C part, and the driver."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "libbare.so"
        if not self.path.exists():
            source = str(HERE / "call_bare.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", str(self.path)], check=True)
        self.c = ctypes.CDLL(str(self.path))
        self.c.bare_launch.restype = ctypes.c_double
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.launch = ctypes.cast(self.cuda.cuLaunchKernel, ctypes.c_void_p)
        torch.zeros(1, device="cuda")  # makes the context that everybody uses

    def load(self, text: str) -> ctypes.c_void_p:
        """The kernel of a PTX module, in the current context."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        for code in (
            self.cuda.cuModuleLoadData(ctypes.byref(module), text.encode() + b"\0"),
            self.cuda.cuModuleGetFunction(ctypes.byref(function), module, KERNEL),
        ):
            if code:
                raise RuntimeError(f"the driver says {code}")
        return function


class Setting:
    """One case: its arrays, our function, and a kernel of the same parameters for those that take handles."""

    def __init__(self, case: Case, package: Any, library: Library) -> None:
        self.case, self.library, self.package = case, library, package
        self.arrays = [torch.ones(256, device="cuda") for _ in range(case.arrays)]
        self.scalars = [1.5, 2.5][: case.scalars]
        self.ptx = ptx(case.arrays, case.scalars)
        self.handle = library.load(self.ptx)
        self.stream = torch.cuda.current_stream()

    @property
    def function(self) -> str:
        suffix = f"_scalars{self.case.scalars}" if self.case.scalars else ""
        return "made" if self.case.made else f"arrays{self.case.arrays}{suffix}"

    @property
    def source(self) -> str:
        return "tensors" if self.case.arrays else "launches"

    def names(self, arrays: list[Any], **more: Any) -> dict[str, Any]:
        """Globals of a timed expression: arrays a, b, ..., scalars s, t."""
        return {**dict(zip(NAMES, arrays, strict=False)), "s": 1.5, "t": 2.5, **more}

    def words(self, *, made: bool = False) -> str:
        """``a, b, s, t``."""
        arrays = NAMES[: self.case.arrays - made]
        return ", ".join([*arrays, *"st"[: self.case.scalars]])


def ptx(arrays: int, scalars: int, words: int = 0) -> str:
    """A kernel that adds up 256 elements of ``arrays`` pointers; ``words`` more parameters of 8 bytes are not read."""
    pointers = [f"p{i}" for i in range(arrays)]
    parameters = [f".param .u64 {name}" for name in pointers]
    parameters += [f".param .f32 s{i}" for i in range(scalars)] + [f".param .u64 w{i}" for i in range(words)]
    body = [".reg .u32 %thread;", ".reg .u64 %at, %offset;", ".reg .f32 %sum, %value;"]
    body += ["mov.u32 %thread, %tid.x;", "mul.wide.u32 %offset, %thread, 4;", "mov.f32 %sum, 0f3F800000;"]
    for name in pointers:
        body += [f"ld.param.u64 %at, [{name}];", "cvta.to.global.u64 %at, %at;", "add.u64 %at, %at, %offset;"]
        body += ["ld.global.f32 %value, [%at];", "add.f32 %sum, %sum, %value;"] if name != pointers[-1] else []
    for i in range(scalars):
        body += [f"ld.param.f32 %value, [s{i}];", "mul.f32 %sum, %sum, %value;"]
    body += ["st.global.f32 [%at], %sum;"] if arrays else []
    head = ".version 7.0\n.target sm_70\n.address_size 64\n"
    entry = f".visible .entry {KERNEL.decode()}({', '.join(parameters)})"
    return f"{head}{entry} {{\n  " + "\n  ".join([*body, "ret;"]) + "\n}\n"


# ------------------------------------------------------------------ rows


def _loop(setting: Setting, handle: ctypes.c_void_p, more: int) -> Row:
    values = [ctypes.c_void_p(array.data_ptr()) for array in setting.arrays]
    values += [ctypes.c_float(number) for number in setting.scalars] + [ctypes.c_uint64(0) for _ in range(more)]
    params = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
    loop, stream = setting.library.c.bare_launch, ctypes.c_void_p(setting.stream.cuda_stream)
    setting.library.c.bare_setup(setting.library.launch, handle, None)

    def row(count: int, kept: Any = values) -> float:
        setting.library.c.bare_setup(setting.library.launch, handle, None)
        return float(loop(handle, stream, params, count))

    return row


def bare(setting: Setting) -> Row:
    return _loop(setting, setting.handle, 0)


def bare_our_parameters(setting: Setting) -> Row:
    """As many parameters as the kernel behind our function has, most of any."""
    module = next(m for m in setting.package.__aot__["modules"] if m["name"] == setting.source)
    stem = f"{setting.function}_kernel"
    count = max((len(k["params"]) for k in module["kernels"] if k["name"].startswith(stem)), default=0)
    more = max(0, count - setting.case.arrays - setting.case.scalars)
    return _loop(setting, setting.library.load(ptx(setting.case.arrays, setting.case.scalars, more)), more)


def us(setting: Setting) -> Row:
    call = getattr(getattr(setting.package, setting.source), setting.function)
    return python_row(f"f({setting.words(made=setting.case.made)})", setting.names(setting.arrays, f=call))


def us_kernel(setting: Setting) -> Row:
    call = vars(setting.package.kernels)[f"kernel{setting.case.arrays}"]
    return python_row(f"f({setting.words()}, grid=1, block=256)", setting.names(setting.arrays, f=call))


def torch_op(setting: Setting) -> Row:
    texts = {
        (1, 0): "a.fill_(1.0)",
        (2, 0): "square(a, out=b)",
        (4, 0): "addcmul(a, b, c, out=d)",
        (4, 2): "addcmul(a, b, c, value=s, out=d)",
    }
    text = "square(a)" if setting.case.made else texts[setting.case.arrays, setting.case.scalars]
    return python_row(text, setting.names(setting.arrays, square=torch.square, addcmul=torch.addcmul))


def tvm_ffi(setting: Setting) -> Row:
    module = importlib.import_module("tvm_ffi").load_module(str(setting.library.path))
    getter = ctypes.CDLL(importlib.import_module("tvm_ffi").libinfo.find_libtvm_ffi()).TVMFFIEnvGetStream
    address = ctypes.cast(getter, ctypes.c_void_p)
    run = python_row(f"f({setting.words()})", setting.names(setting.arrays, f=_ready(setting, module.launch, address)))

    def row(count: int) -> float:
        setting.library.c.bare_setup(setting.library.launch, setting.handle, address)
        return run(count)

    return row


def _ready(setting: Setting, function: Any, getter: ctypes.c_void_p) -> Any:
    setting.library.c.bare_setup(setting.library.launch, setting.handle, getter)
    return function


def cuda_core(setting: Setting) -> Row:
    core = importlib.import_module("cuda.core")
    device = core.Device()
    device.set_current()
    kernel = core.ObjectCode.from_ptx(setting.ptx.encode()).get_kernel(KERNEL.decode())
    names = setting.names(
        setting.arrays,
        launch=core.launch,
        kernel=kernel,
        stream=device.create_stream(setting.stream),
        config=core.LaunchConfig(grid=1, block=256),
        f32=ctypes.c_float,
    )
    values = [
        *(f"{n}.data_ptr()" for n in NAMES[: setting.case.arrays]),
        *(f"f32({n})" for n in "st"[: setting.case.scalars]),
    ]
    return python_row(f"launch({', '.join(['stream', 'config', 'kernel', *values])})", names)


def cuda_bindings(setting: Setting) -> Row:
    driver = importlib.import_module("cuda.bindings.driver")
    function = driver.CUfunction(setting.handle.value)
    values = ", ".join([*(f"{n}.data_ptr()" for n in NAMES[: setting.case.arrays]), *"st"[: setting.case.scalars]])
    types = (*[ctypes.c_void_p] * setting.case.arrays, *[ctypes.c_float] * setting.case.scalars)
    names = setting.names(setting.arrays, launch=driver.cuLaunchKernel, k=function, types=types)
    names["stream"] = driver.CUstream(setting.stream.cuda_stream)
    return python_row(f"launch(k, 1, 1, 1, 256, 1, 1, 0, stream, (({values}{',' if values else ''}), types), 0)", names)


def cupy(setting: Setting) -> Row:
    module = importlib.import_module("cupy")
    path = setting.library.path.with_name("contender.ptx")
    path.write_text(setting.ptx, encoding="ascii")
    kernel = module.RawModule(path=str(path)).get_function(KERNEL.decode())
    arrays = [module.from_dlpack(array) for array in setting.arrays]
    names = setting.names(arrays, k=kernel, grid=(1,), block=(256,))
    names |= {"s": module.float32(1.5), "t": module.float32(2.5)}
    return python_row(f"k(grid, block, ({setting.words()}{',' if setting.words() else ''}))", names)


def triton(setting: Setting) -> Row:
    kernel = importlib.import_module("call_triton").KERNELS[setting.case.arrays, setting.case.scalars]
    return python_row(f"k[grid]({setting.words()})", setting.names(setting.arrays, k=kernel, grid=(1,)))


def numba(setting: Setting) -> Row:
    warnings.simplefilter("ignore")  # about grids of one block
    module = importlib.import_module("call_numba")
    kernel = module.KERNELS[setting.case.arrays, setting.case.scalars]
    arrays = [module.cuda.as_cuda_array(array) for array in setting.arrays]
    return python_row(f"k({setting.words()})", setting.names(arrays, k=kernel[1, 256]))


ROWS: dict[str, Maker] = {
    "bare": bare,
    "bare, our parameters": bare_our_parameters,
    "us": us,
    "us, grid=": us_kernel,
    "torch op": torch_op,
    "tvm-ffi": tvm_ffi,
    "cuda.core": cuda_core,
    "cuda.bindings": cuda_bindings,
    "CuPy": cupy,
    "Triton": triton,
    "Numba": numba,
}
MADE = ("bare", "bare, our parameters", "us", "torch op")
"""Rows of a case whose result is made."""


def rows(
    case: Case, package: Any, library: Library, only: Collection[str] | None = None
) -> tuple[dict[str, Row], dict[str, str]]:
    """The rows that run, in order, and the reasons of those that do not; ``only`` these, and ``bare``."""
    found: dict[str, Row] = {}
    missing: dict[str, str] = {}
    for name, make in ROWS.items():
        if (case.made and name not in MADE) or (only and name not in (*only, "bare")):
            continue
        setting = Setting(case, package, library)
        try:
            found[name] = make(setting)
        except ImportError as error:
            missing[name] = f"not installed: {error}"
        except KeyError:
            missing[name] = "has nothing with these arguments"
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found, missing
