"""Which image the driver takes: PTX compiled at the first call, compressed cubins, none that fits."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

WORKING = {
    "ptx_kernels": {"softmax": "compute_75", "vector_add": "compute_75"},
    # Long rows are for blocks of a cluster, which sm_90a code has.
    "compressed_kernels": {"softmax": "sm_90a", "vector_add": "sm_90"},
}


@pytest.mark.parametrize(("name", "images"), WORKING.items())
def test_package_runs(variant: Any, torch: Any, needs: Any, name: str, images: dict[str, str]) -> None:
    needs((9, 0))
    package = variant(name)
    report = package.check()
    assert report
    assert report.images == images
    x = torch.randn(33, 65, device="cuda")
    assert torch.allclose(package.softmax.softmax(x), torch.softmax(x, 1), atol=1e-6)


def test_no_image_fits(variant: Any, torch: Any) -> None:
    package = variant("foreign_kernels")
    if torch.cuda.get_device_capability()[0] == 8:
        pytest.skip("this GPU runs sm_80")
    report = package.check()
    assert not report
    assert "sm_80" in report.problems[0]
    x = torch.ones(4, device="cuda")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"sm_80"):
            package.vector_add.vector_add(x, x)
    assert x.sum().item() == 4


def test_packages_share_a_process(demo: ModuleType, cases: ModuleType, variant: Any, torch: Any) -> None:
    """Three packages hold a function called softmax; each has its own kernels, pool and tables."""
    x = torch.randn(9, 100, device="cuda")
    functions = (demo.softmax.softmax, cases.softmax_named.softmax, variant("ptx_kernels").softmax.softmax)
    results = [function(x) for function in functions]
    assert all(torch.allclose(result, torch.softmax(x, 1), atol=1e-6) for result in results)


@pytest.mark.parametrize("source", ["ready_cubin", "ready_ptx", "ready_fatbin"])
def test_ready_binaries(variant: Any, torch: Any, needs: Any, source: str) -> None:
    needs((9, 0))
    out = torch.zeros(2, dtype=torch.int32, device="cuda")
    getattr(variant("ready_kernels"), source).times4(5, out)
    assert out.tolist() == [20, 20]


def test_bytecode(variant: Any, torch: Any, needs: Any) -> None:
    needs((9, 0))
    x = torch.arange(1000.0, device="cuda")
    assert torch.equal(variant("ready_kernels").bytecode.vector_add(x, x), 2 * x)


@pytest.mark.parametrize("address", [False, True], ids=["array", "address"])
def test_kernel_of_another_compiler(variant: Any, torch: Any, needs: Any, address: bool) -> None:
    """A marked llvm.func: pointers are arrays or addresses."""
    needs((9, 0))
    x = torch.zeros(1000, device="cuda")
    variant("ready_kernels").marked.add_one(x.data_ptr() if address else x, 999, grid=8, block=128)
    assert x[:999].eq(1).all()
    assert x[999] == 0
