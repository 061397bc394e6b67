"""Arrays of each framework go in, and results come back in the caller's own type."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from references import softmax

X = np.random.default_rng(3).standard_normal((33, 65)).astype("f4")


def framework(name: str) -> ModuleType:
    return pytest.importorskip(name, reason=f"{name} is not installed")


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
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
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
