"""Every example gives NumPy's results."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from example_calls import EXAMPLES
from gpu_calls import Call, check


@pytest.mark.parametrize("call", EXAMPLES, ids=lambda c: f"{c.source}.{c.function}-{c.id}")
def test_example(demo: ModuleType, needs: Any, call: Call) -> None:
    needs(call.capability)
    check(demo, call)


def test_hello_prints_before_it_returns(demo: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.hello.hello() is None
    assert sorted(capfd.readouterr().out.splitlines()) == ["Hello from 0", "Hello from 1"]


def test_vector_add_refuses_different_lengths(demo: ModuleType, torch: Any) -> None:
    x, y = torch.ones(4, device="cuda"), torch.ones(5, device="cuda")
    with pytest.raises(RuntimeError, match="x and y differ in length"):
        demo.vector_add.vector_add(x, y)
    assert demo.vector_add.vector_add(x, x).tolist() == [2.0] * 4


def test_wgmma_refuses_sizes_off_its_tiles(demo: ModuleType, torch: Any, needs: Any) -> None:
    needs((9, 0))
    a, b = torch.ones(128, 64, device="cuda").half(), torch.ones(64, 100, device="cuda").half()
    with pytest.raises(RuntimeError, match="multiples of 128"):
        demo.wgmma.matmul(a, b, torch.empty(128, 100, device="cuda"))


def test_square_by_name_returns_its_destination(demo: ModuleType, torch: Any) -> None:
    x, out = torch.full((10, 10), 3.0, device="cuda"), torch.zeros(10, 10, device="cuda")
    assert demo.square.square(out=out, x=x) is out
    assert out.eq(9).all()


def test_kernel_takes_an_explicit_launch(demo: ModuleType, torch: Any) -> None:
    x, partial = torch.ones(1000, device="cuda"), torch.zeros(4, device="cuda")
    demo.block_sum.block_sum(x, partial, grid=4, block=(256, 1, 1))
    assert partial.sum().item() == 1000


def test_kernel_refuses_another_block_size(demo: ModuleType, torch: Any) -> None:
    x, partial = torch.ones(1000, device="cuda"), torch.zeros(4, device="cuda")
    with pytest.raises((TypeError, ValueError), match="256"):
        demo.block_sum.block_sum(x, partial, grid=4, block=128)
