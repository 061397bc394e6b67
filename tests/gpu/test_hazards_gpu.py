"""What compiled host code gets wrong when it is naive: shapes, aliases, control flow, names, grids (tests/hazards)."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gpu_calls import Call, check, to_numpy, to_torch
from hazard_calls import HAZARDS

GIB = 2**30


@pytest.mark.parametrize("call", HAZARDS, ids=lambda c: f"{c.source}.{c.function}-{c.id}")
def test_hazard(hazards: ModuleType, needs: Any, call: Call) -> None:
    needs(call.capability)
    check(hazards, call)


def test_two_results_of_one_value_have_their_own_memory(hazards: ModuleType, torch: Any) -> None:
    first, second = hazards.results.negated_twice(torch.ones(5, device="cuda"))
    first.zero_()
    assert second.tolist() == [-1.0] * 5


def test_result_survives_its_input(hazards: ModuleType, torch: Any) -> None:
    x = torch.arange(64.0, device="cuda").reshape(8, 8)
    columns = hazards.values.columns(x)
    x.zero_()
    assert columns[0].tolist() == [4.0, 5.0, 6.0]


def test_softmax_of_infinite_rows(hazards: ModuleType, torch: Any) -> None:
    x = torch.randn(50, 8, device="cuda")
    x[:, 3] = -torch.inf
    x[:20, 4] = -torch.inf
    got = hazards.softmaxes.columns(x)
    assert got[:, 3].isnan().all()
    assert torch.allclose(got, torch.softmax(x, 0), equal_nan=True, atol=1e-6)


def test_printing_arrives_in_order(hazards: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    hazards.printing.table(3)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 9
    for row in range(3):
        assert sorted(lines[3 * row : 3 * row + 3]) == [f"row {row} thread {t} value {t}.000000" for t in range(3)]


def test_registered_host_memory_prints(hazards: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    hazards.host_memory.print_registered()
    assert "[0,  1,  2]" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        ("increment_1d", (2**31 + 5,)),
        ("increment_1d", (2**32 + 5,)),
        ("increment_2d", (3, GIB)),
        ("increment_2d", (600_000, 2)),
        ("increment_2d", (2, 600_000)),
        ("increment_2d", (70_000 * 8 + 1, 3)),
        ("increment_3d", (600_000, 2, 2)),
        ("increment_3d", (2, 600_000, 2)),
        ("increment_3d", (2, 2, 600_000)),
        ("increment_3d", (100, 100, 100)),
    ],
    ids=lambda v: "x".join(map(str, v)) if isinstance(v, tuple) else v,
)
def test_large_shapes_and_grids(hazards: ModuleType, torch: Any, function: str, shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, dtype=torch.int8, device="cuda")
    getattr(hazards.large, function)(x)
    assert int(x.min()) == 1
    assert int(x.max()) == 1
    del x
    torch.cuda.empty_cache()


FLOAT8 = [
    ("float8", "e4m3fn"),
    ("float8", "e5m2"),
    ("float8_fnuz", "e4m3fnuz"),
    ("float8_fnuz", "e5m2fnuz"),
]


@pytest.mark.parametrize(("source", "name"), FLOAT8)
def test_every_code_of_an_8_bit_float(hazards: ModuleType, torch: Any, source: str, name: str) -> None:
    codes = torch.arange(256, dtype=torch.uint8, device="cuda").view(getattr(torch, f"float8_{name}"))
    got = getattr(getattr(hazards, source), f"from_{name}")(codes)
    assert_same_floats(got.cpu().numpy(), codes.float().cpu().numpy())


@pytest.mark.parametrize(("source", "name"), FLOAT8)
def test_rounding_into_an_8_bit_float(hazards: ModuleType, torch: Any, source: str, name: str) -> None:
    dtype = getattr(torch, f"float8_{name}")
    x = torch.from_numpy(rounding_probes(torch.arange(256, dtype=torch.uint8).view(dtype).float().numpy())).cuda()
    got = getattr(getattr(hazards, source), f"to_{name}")(x)
    assert got.dtype == dtype
    assert_same_floats(got.float().cpu().numpy(), x.to(dtype).float().cpu().numpy())


def rounding_probes(codes: Any) -> Any:
    """Every finite code, the midpoints between neighbours and what lies beside them, a wide spread, special values."""
    finite = np.unique(codes[np.isfinite(codes)])
    middle = ((finite[1:].astype("f8") + finite[:-1]) / 2).astype("f4")
    rng = np.random.default_rng(8)
    spread = rng.standard_normal(100_000) * 10.0 ** rng.uniform(-12, 8, 100_000)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38]
    beside = [np.nextafter(middle, np.float32(side), dtype="f4") for side in (np.inf, -np.inf)]
    return np.concatenate([finite, middle, *beside, spread, special]).astype("f4")


def assert_same_floats(got: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(got, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers])


def test_bf16_sum_is_wide(hazards: ModuleType, torch: Any) -> None:
    x = torch.full((4096,), 0.001, device="cuda", dtype=torch.bfloat16)
    assert float(hazards.halves.sum_bf16(x)) == pytest.approx(float(x.double().sum()), rel=4e-3)


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
def test_tensor_arguments_are_row_major(hazards: ModuleType, torch: Any, strided: bool) -> None:
    x = torch.randn(6, 12, device="cuda")
    if strided:
        with pytest.raises((TypeError, ValueError), match=r"stride|contiguous"):
            hazards.softmaxes.columns(x[:, ::2])
    else:
        assert torch.allclose(hazards.softmaxes.columns(x[2:]), torch.softmax(x[2:], 0), atol=1e-6)


def test_many_shapes_of_one_function(hazards: ModuleType) -> None:
    """The same code at every small shape: bounds checks and empty launches."""
    for m, n in itertools.product(range(5), range(5)):
        x = np.arange(m * n, dtype="f4").reshape(m, n)
        got = to_numpy(hazards.results.frame(to_torch(x), 1))
        np.testing.assert_array_equal(got, np.pad(x, 1, constant_values=-1))
