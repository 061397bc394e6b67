"""Which image the driver takes: PTX compiled at the first call, compressed cubins, none that fits."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

WORKING = {"ptx_kernels": "compute_75", "compressed_kernels": "sm_90"}


@pytest.mark.parametrize(("name", "target"), WORKING.items())
def test_package_runs(variant: Any, torch: Any, needs: Any, name: str, target: str) -> None:
    needs((9, 0))
    package = variant(name)
    report = package.check()
    assert report
    assert report.images == {"softmax": target, "vector_add": target}
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
