"""Arrays of each framework go in, and results come back in the caller's own type."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from references import softmax

X = np.random.default_rng(3).standard_normal((33, 65)).astype("f4")


def framework(name: str) -> ModuleType:
    return pytest.importorskip(name, reason=f"{name} is not installed")


def numba_cuda() -> ModuleType:
    """numba.cuda; numba-cuda 0.30 asks NumPy for a name of vstack that 2.5 has no more."""
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack
    return framework("numba.cuda")


def test_torch(demo: ModuleType, torch: Any) -> None:
    got = demo.softmax.softmax(torch.from_numpy(X).cuda())
    assert type(got) is torch.Tensor
    np.testing.assert_allclose(got.cpu().numpy(), softmax(X), 1e-5, 1e-6)


def test_torch_parameter_and_grad(demo: ModuleType, torch: Any) -> None:
    parameter = torch.nn.Parameter(torch.from_numpy(X).cuda())
    got = demo.softmax.softmax(parameter)
    np.testing.assert_allclose(got.detach().cpu().numpy(), softmax(X), 1e-5, 1e-6)


def test_cupy(demo: ModuleType) -> None:
    cupy = framework("cupy")
    got = demo.softmax.softmax(cupy.asarray(X))
    assert type(got) is cupy.ndarray
    np.testing.assert_allclose(cupy.asnumpy(got), softmax(X), 1e-5, 1e-6)


def test_cupy_current_stream(demo: ModuleType) -> None:
    cupy = framework("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.asarray(X)
        for _ in range(20):
            x = demo.softmax.softmax(x)
        expected = X
        for _ in range(20):
            expected = softmax(expected)
        np.testing.assert_allclose(cupy.asnumpy(x), expected, 1e-5, 1e-6)


def test_jax(demo: ModuleType) -> None:
    jax = framework("jax")
    got = demo.softmax.softmax(jax.device_put(X))
    assert isinstance(got, jax.Array)
    np.testing.assert_allclose(np.asarray(got), softmax(X), 1e-5, 1e-6)


def test_numba(demo: ModuleType) -> None:
    cuda = numba_cuda()
    got = demo.softmax.softmax(cuda.to_device(X))
    np.testing.assert_allclose(cuda.as_cuda_array(got).copy_to_host(), softmax(X), 1e-5, 1e-6)


def test_result_without_array_arguments(hazards: ModuleType, torch: Any) -> None:
    got = hazards.values.primes()
    assert hasattr(got, "__dlpack__")
    assert hasattr(got, "__cuda_array_interface__")
    assert torch.from_dlpack(got).tolist() == [2, 3, 5, 7, 11]


def test_kernel_takes_addresses(demo: ModuleType, torch: Any) -> None:
    """Kernels also take what says where its memory is: CuPy arrays beside torch tensors."""
    cupy = framework("cupy")
    x, partial = cupy.ones(1000, "f4"), torch.zeros(4, device="cuda")
    cupy.cuda.get_current_stream().synchronize()
    demo.block_sum.block_sum(x, partial)
    assert float(partial.sum()) == 1000


def test_out_argument(demo: ModuleType, torch: Any) -> None:
    x, out = torch.from_numpy(X).cuda(), torch.empty(X.shape, device="cuda")
    assert demo.softmax.softmax(x, out=out) is out
    np.testing.assert_allclose(out.cpu().numpy(), softmax(X), 1e-5, 1e-6)


def test_out_may_be_the_input(demo: ModuleType, torch: Any) -> None:
    x = torch.from_numpy(X.copy()).cuda()
    assert demo.softmax.softmax(x, out=x) is x
    np.testing.assert_allclose(x.cpu().numpy(), softmax(X), 1e-5, 1e-6)


def test_out_of_another_shape(demo: ModuleType, torch: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="softmax"):
        demo.softmax.softmax(torch.from_numpy(X).cuda(), out=torch.empty(3, 3, device="cuda"))


def test_contiguous_view_with_an_offset(demo: ModuleType, torch: Any) -> None:
    whole = torch.from_numpy(X).cuda()
    got = demo.softmax.softmax(whole[5:])
    np.testing.assert_allclose(got.cpu().numpy(), softmax(X[5:]), 1e-5, 1e-6)


def test_negated_view(demo: ModuleType, torch: Any) -> None:
    """A lazily negated tensor is refused, never read as it lies in memory."""
    lazy = torch._neg_view(torch.randn(64, device="cuda"))
    assert lazy.is_neg()
    with pytest.raises(ValueError, match=r"pass x\.resolve_conj\(\)\.resolve_neg\(\)"):
        demo.gelu.gelu(lazy)
    assert torch.equal(demo.gelu.gelu(lazy.resolve_neg()), demo.gelu.gelu(lazy + 0))


def test_check_and_preload(demo: ModuleType) -> None:
    assert demo.check()
    demo.preload()
    report = demo.check()
    assert {name: image.removesuffix(" (JIT)") for name, image in report.loaded.items()} == report.images, str(report)
    assert demo.__aot__["package"] == "demo_kernels"


# ------------------------------------------------------------------ other programs


@pytest.mark.parametrize("name", ["torch", "jax", "tvm_ffi"])
def test_programs_of_frameworks(traced: ModuleType, name: str) -> None:
    """The cases of tests/frameworks, on the GPU."""
    framework(name)
    script = Path(__file__).parents[1] / "frameworks" / f"{name}_cases.py"
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(script), "cuda"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_c(traced: ModuleType, tmp_path: Path) -> None:
    """A C program, linked here."""
    folder, compiler = os.environ.get("AOT_TEST_FOLDER"), shutil.which("cc")
    if not folder or not compiler:
        pytest.skip("no C compiler" if folder else "AOT_TEST_FOLDER does not say where traced_kernels.h is")
    source, program = Path(__file__).parents[1] / "frameworks" / "program_cuda.c", tmp_path / "program"
    words = [f"-I{folder}", str(source), f"{folder}/libtraced_kernels.a", "-ldl", "-lm", "-lpthread", "-o", program]
    subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", *words], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stdout + done.stderr


# ------------------------------------------------------------------ element types


BYTES = np.arange(0, 126, dtype="u1")
"""Codes of f8E4M3FN that are numbers."""


def test_types_of_torch(traced: ModuleType, torch: Any) -> None:
    x = torch.arange(8, device="cuda", dtype=torch.bfloat16)
    assert torch.equal(traced.typed.twice_bf16(x), 2 * x)
    small = torch.from_numpy(BYTES).cuda().view(torch.float8_e4m3fn)
    assert torch.equal(traced.typed.widened(small), small.float())
    wide = torch.linspace(-3, 3, 50, device="cuda")
    got = traced.typed.narrowed(wide)
    assert got.dtype == torch.float8_e5m2
    assert torch.equal(got.float(), wide.to(torch.float8_e5m2).float())
    a, b = torch.rand(30, device="cuda") > 0.5, torch.rand(30, device="cuda") > 0.5
    assert torch.equal(traced.typed.differs(a, b), a ^ b)


def test_types_of_jax(traced: ModuleType) -> None:
    jax = framework("jax")
    x = jax.numpy.arange(8, dtype="bfloat16")
    got = traced.typed.twice_bf16(x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(got).astype("f4"), 2 * np.arange(8))
    a, b = (jax.numpy.asarray(np.random.default_rng(i).random(30) > 0.5) for i in (1, 2))
    np.testing.assert_array_equal(np.asarray(traced.typed.differs(a, b)), np.asarray(a) ^ np.asarray(b))
    small = jax.numpy.asarray(BYTES).view("float8_e4m3fn")
    np.testing.assert_array_equal(np.asarray(traced.typed.widened(small)), np.asarray(small).astype("f4"))


def test_types_of_cupy(traced: ModuleType) -> None:
    cupy = framework("cupy")
    a, b = (cupy.asarray(np.random.default_rng(i).random(30) > 0.5) for i in (1, 2))
    got = traced.typed.differs(a, b)
    assert got.dtype == bool
    np.testing.assert_array_equal(cupy.asnumpy(got), cupy.asnumpy(a) ^ cupy.asnumpy(b))


# ------------------------------------------------------------------ in place


def test_memory_of_cupy_is_written(traced: ModuleType) -> None:
    cupy = framework("cupy")
    x = cupy.arange(9, dtype="f4")
    assert traced.traced.incremented(x) is x
    np.testing.assert_array_equal(cupy.asnumpy(x), np.arange(9) + 1)


def test_memory_of_numba_is_written(traced: ModuleType) -> None:
    cuda = numba_cuda()
    x = cuda.to_device(np.arange(9, dtype="f4"))
    assert traced.traced.incremented(x) is x
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(9) + 1)


def test_memory_of_jax_is_not_written(traced: ModuleType) -> None:
    jax = framework("jax")
    x = jax.numpy.zeros(9, dtype="float32")
    with pytest.raises(ValueError, match="it is read-only, and the call may write it"):
        traced.traced.incremented(x)
    with pytest.raises(ValueError, match="it is read-only, and the call writes it"):
        traced.traced.scaled_into(x, 2.0, x)


# ------------------------------------------------------------------ protocols


class CudaInterface:
    """A torch tensor's memory by version 3 of __cuda_array_interface__ and nothing else."""

    def __init__(self, tensor: Any, stream: int | None = None) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}


class Dlpack:
    """A torch tensor's memory by __dlpack__, as before DLPack 1.0 or after."""

    def __init__(self, tensor: Any, *, versioned: bool) -> None:
        self.tensor, self.versioned = tensor, versioned

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, **more: Any) -> Any:
        if more and not self.versioned:
            raise TypeError(f"unexpected {sorted(more)}")
        return self.tensor.__dlpack__(stream=stream, **more)


def test_protocols(traced: ModuleType, torch: Any) -> None:
    x = torch.arange(12, device="cuda", dtype=torch.float32).reshape(3, 4)
    for wrapped in (CudaInterface(x), CudaInterface(x, 1), Dlpack(x, versioned=False), Dlpack(x, versioned=True)):
        assert torch.equal(torch.from_dlpack(traced.traced.twice(wrapped)), 2 * x)


def test_streams_of_cuda_core(traced: ModuleType, torch: Any) -> None:
    core = framework("cuda.core")
    device = core.Device(torch.cuda.current_device())
    device.set_current()
    stream = device.create_stream()
    x = torch.ones(3, 4, device="cuda")
    got = traced.traced.twice(x, stream=stream)
    stream.sync()
    assert torch.equal(got, 2 * x)


def test_views_of_cuda_core(demo: ModuleType, torch: Any) -> None:
    """They have the exchange API, but no allocator."""
    utils = framework("cuda.core.utils")
    x, partial = torch.ones(1000, device="cuda"), torch.zeros(4, device="cuda")
    demo.block_sum.block_sum(utils.StridedMemoryView.from_any_interface(x, stream_ptr=-1), partial)
    assert float(partial.sum()) == 1000


def test_views_with_byte_offsets(traced: ModuleType, torch: Any) -> None:
    whole = torch.arange(40, device="cuda", dtype=torch.float32).reshape(10, 4)
    assert torch.equal(traced.traced.twice(whole[3:7]), 2 * whole[3:7])
    flat = torch.arange(41, device="cuda", dtype=torch.float32)
    assert torch.equal(traced.traced.two(flat[1:])[0], 2 * flat[1:])
