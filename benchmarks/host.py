"""CPU code of a generated package against NumPy, side by side.

    python benchmarks/host.py [--threads 1 --threads 2] [--seconds 1.0] [--processor v3] [--package FOLDER]

Builds a package of examples and of ``host_kernels`` for the CPU, and runs each function in turn with NumPy's way of
computing the same: ours, NumPy, ours, NumPy, ... Both sides get the same number of threads. The table has the shortest
times and their ratio (below 1: ours is faster); a function whose results differ ends the run. ``--processor`` holds
both sides back to what an older processor can do.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples" / "kernels"
NAME = "host_bench"
SOURCES = [
    *(EXAMPLES / f"{name}.mlir" for name in ("attention", "layernorm", "matmul", "softmax", "vector_add")),
    *sorted((HERE / "host_kernels").glob("*.mlir")),
]
THREADS = ("AOT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
OVERRIDES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES")
"""They would hold NumPy or its BLAS back to an older processor, or to smaller blocks."""
BLAS_CORES = {"v2": "Nehalem", "v3": "Haswell", "v4": "SkylakeX"}
"""OpenBLAS's code for our kinds of processors."""


@dataclass(frozen=True)
class Case:
    """One function at one size."""

    function: str
    """``source.function``."""
    shapes: tuple[tuple[int, ...], ...]
    reference: Callable[..., Any]
    tolerance: float = 1e-4


def cases(np: Any) -> list[Case]:
    """Ten functions at two sizes each."""

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layernorm(x: Any, gamma: Any, beta: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + np.float32(1e-5)) * gamma + beta

    def rmsnorm(x: Any, weight: Any) -> Any:
        return x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-5)) * weight

    def gelu(x: Any) -> Any:
        return x * np.float32(0.5) * (1 + np.tanh(np.float32(0.797884583) * (x + np.float32(0.044715) * x * x * x)))

    def attention(q: Any, k: Any, v: Any) -> Any:
        return softmax(q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(q.shape[2]))) @ v

    table: list[tuple[str, list[tuple[tuple[int, ...], ...]], Callable[..., Any]]] = [
        ("vector_add.vector_add", [((1 << 16,),) * 2, ((1 << 22,),) * 2], np.add),
        ("rows.gelu", [((1 << 16,),), ((1 << 22,),)], gelu),
        ("softmax.softmax", [((128, 512),), ((2048, 2048),)], softmax),
        ("layernorm.layernorm", [((128, 512), (512,), (512,)), ((2048, 2048), (2048,), (2048,))], layernorm),
        ("rows.rmsnorm", [((128, 512), (512,)), ((2048, 2048), (2048,))], rmsnorm),
        ("sums.row_sums", [((128, 512),), ((2048, 2048),)], lambda x: x.sum(1)),
        ("sums.column_sums", [((128, 512),), ((2048, 2048),)], lambda x: x.sum(0)),
        ("sums.total", [((128, 512),), ((2048, 2048),)], lambda x: x.sum()),
        ("matmul.matmul", [((256, 256),) * 2, ((1024, 1024),) * 2], np.matmul),
        ("attention.attention", [((8, 128, 64),) * 3, ((16, 512, 64),) * 3], attention),
    ]
    return [Case(name, shapes, reference) for name, sizes, reference in table for shapes in sizes]


def build(folder: Path, processor: str | None) -> Path:
    """A folder with the package in it."""
    command = [sys.executable, "-m", "aot", "build", *map(str, SOURCES), "--archs", "host", "--name", NAME]
    flags = {"CFLAGS": f"-DAOT_CPU_NEWEST=AOT_CPU_{processor.upper()}"} if processor else {}
    places = ["--out", str(folder / "dist"), "--work", str(folder / "work")]
    subprocess.run([*command, *places], check=True, env={**os.environ, **flags})
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "package")
    return folder / "package"


def held_back(processor: str | None) -> dict[str, str]:
    """Environment in which NumPy uses no newer code than ours."""
    if processor is None:
        return {}
    import numpy as np

    levels = [each for each in np._core._multiarray_umath.__cpu_dispatch__ if not _within(each, processor)]
    return {"OPENBLAS_CORETYPE": BLAS_CORES[processor], "NPY_DISABLE_CPU_FEATURES": " ".join(levels)}


def _within(feature: str, processor: str) -> bool:
    """Whether NumPy's name of a group of instructions belongs to the processor: ``X86_V3``, ``AVX512_ICL``."""
    return processor == "v4" or (processor == "v3" and feature == "X86_V3")


def compare(package: Path, seconds: float) -> None:
    """The table of one number of threads, which the environment says."""
    import numpy as np

    sys.path.insert(0, str(package))
    module = importlib.import_module(NAME)
    rng = np.random.default_rng(0)
    print(f"{os.environ[THREADS[0]]} thread(s), NumPy {np.__version__}, CPU code for {module.check().cpu}")
    print(f"{'function':22}{'shape':>24}{'ours, us':>12}{'NumPy, us':>12}{'ratio':>8}{'median':>8}")
    for case in cases(np):
        source, name = case.function.split(".")
        ours = getattr(getattr(module, source), name)
        arrays = [rng.standard_normal(shape).astype("f4") for shape in case.shapes]
        arguments = [*arrays, 1e-5] if name == "layernorm" else arrays
        np.testing.assert_allclose(ours(*arguments), case.reference(*arrays), case.tolerance, 1e-2)
        times = measure(lambda: ours(*arguments), lambda: case.reference(*arrays), seconds)  # noqa: B023
        best, middle = [min(each) for each in times], [sorted(each)[len(each) // 2] for each in times]
        shape = "x".join(map(str, case.shapes[0]))
        print(
            f"{name:22}{shape:>24}{best[0] * 1e6:12.1f}{best[1] * 1e6:12.1f}"
            f"{best[0] / best[1]:8.2f}{middle[0] / middle[1]:8.2f}",
            flush=True,
        )


def measure(ours: Callable[[], Any], theirs: Callable[[], Any], seconds: float) -> tuple[list[float], list[float]]:
    """Times of single calls, in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, found in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            function()
            found.append(time.perf_counter() - start)
    return times


def main() -> int:
    """Builds, and runs itself once for each number of threads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each function at each size")
    parser.add_argument("--processor", choices=sorted(BLAS_CORES), help="default: what this machine has")
    parser.add_argument("--package", type=Path, help="folder that holds the package already")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        compare(options.package, options.seconds)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        package = options.package or build(Path(folder), options.processor)
        kept = {name: value for name, value in os.environ.items() if name not in OVERRIDES}
        environment = {**kept, **held_back(options.processor)}
        for threads in options.threads or [1, 2]:
            command = [
                sys.executable,
                __file__,
                "--inside",
                "--package",
                str(package),
                "--seconds",
                str(options.seconds),
            ]
            subprocess.run(command, check=True, env={**environment, **dict.fromkeys(THREADS, str(threads))})
    return 0


if __name__ == "__main__":
    sys.exit(main())
