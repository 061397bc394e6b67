"""Products of every element type are right at awkward sizes, exactly: of small integers, sums have no rounding."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from contraction_sources import KINDS, LAYOUTS, K, N

SIZES = ((1, 8, 8), (7, 13, 17), (33, 64, 40), (130, 136, 24), (64, 264, 1000), (300, 520, 264), (257, 520, 4104))
SIZES += ((1001, 999, 515), (1003, 1000, 1001), (1000, 1001, 72), (999, 1000, 1000), (65, 1000, 520), (100, 12808, 264))
SIZES += ((1, 12808, 1032), (16, 12680, 1024), (5, 13000, 2056), (3, 1032, 1096), (1, 4104, 1032), (9, 8440, 1048))
SIZES += ((16, 8456, 2056), (40, 4232, 1032), (120, 8584, 1032), (100, 1000, 2056))
ROWS = (1, 2, 5, 16, 17, 64, 129, 257, 1000)


SOURCES = [(kind, layout) for kind in KINDS for layout in LAYOUTS]


@pytest.fixture(params=["contraction_kernels", "contraction_kernels_80"])
def package(request: pytest.FixtureRequest, variant: Any) -> ModuleType:
    """With images for the newest GPUs, and with PTX that knows nothing later than sm_80."""
    return variant(request.param)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("kind", "layout"), SOURCES)
def test_any_extents(package: ModuleType, torch: Any, kind: str, layout: str) -> None:
    for extents in SIZES:
        _check(getattr(package, f"{kind}_{layout}").any, torch, (kind, layout), extents)


@pytest.mark.parametrize(("kind", "layout"), SOURCES)
def test_any_number_of_rows(package: ModuleType, torch: Any, kind: str, layout: str) -> None:
    for rows in ROWS:
        _check(getattr(package, f"{kind}_{layout}").rows, torch, (kind, layout), (rows, N, K))


def _check(function: Any, torch: Any, source: tuple[str, str], extents: tuple[int, int, int]) -> None:
    kind, (m, n, k) = KINDS[source[0]], extents
    generator = torch.Generator("cuda").manual_seed(m + n + k)

    def whole(*shape: int) -> Any:
        return torch.randint(-kind.most, kind.most, shape, device="cuda", generator=generator)

    a, b = whole(m, k), whole(k, n)
    right = b if source[1] == "kn" else b.t().contiguous()
    result = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32}[kind.result]
    c = torch.full((m, n), -1 if kind.result == "i32" else float("nan"), dtype=result, device="cuda")
    left_type, right_type = (getattr(torch, name) for name in (kind.torch, kind.other[1] or kind.torch))
    got = function(a.to(left_type), right.to(right_type), c)
    wanted = (a.double() @ b.double()).to(result)
    wrong = (got != wanted).sum().item()
    assert wrong == 0, f"{wrong} of {m * n} sums are wrong at {m} x {n} x {k}"
