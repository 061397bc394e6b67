"""Every operation of tests/tensor_ops gives NumPy's results."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gpu_calls import Call, check, to_numpy, to_torch
from ops_table import OPS

CALLS = [Call(op.name, op.family, op.name, op.make, op.results, None, op.rtol, op.atol) for op in OPS]
X = np.random.default_rng(5).standard_normal((8, 8)).astype("f4")


@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c.source}-{c.id}")
def test_operation(tensor_ops: ModuleType, call: Call) -> None:
    check(tensor_ops, call)


def test_affine_loop_on_memrefs(tensor_ops: ModuleType) -> None:
    x, y = X[0], X[1]
    out = to_torch(y)
    tensor_ops.memrefs.saxpy(2.0, to_torch(x), out)
    np.testing.assert_allclose(to_numpy(out), 2 * x + y, 1e-6, 1e-6)


@pytest.mark.parametrize(
    "view", [lambda t: t, lambda t: t.t(), lambda t: t[1:, ::2]], ids=["plain", "transposed", "steps"]
)
def test_strided_memref(tensor_ops: ModuleType, torch: Any, view: Any) -> None:
    x, out = view(to_torch(X)), torch.zeros(4, device="cuda")
    tensor_ops.memrefs.diagonal(x, out)
    assert torch.equal(out, torch.diagonal(x)[:4])


def test_subview_of_a_memref(tensor_ops: ModuleType) -> None:
    x = to_torch(X)
    tensor_ops.memrefs.column_scaled(x, 3.0)
    expected = X.copy()
    expected[:, 3] *= 3
    np.testing.assert_allclose(to_numpy(x), expected, 1e-6)
