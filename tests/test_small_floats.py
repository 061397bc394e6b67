"""Small floats: what the compiled arithmetic computes, against ml_dtypes, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest
from cpurun import Program, build

TYPES = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
WIDE = {"f16": numpy.float16, "bf16": ml_dtypes.bfloat16, "f32": numpy.float32, "f64": numpy.float64}

CAST = """
func.func @{op}_{small}_{wide}(%x: memref<?x{source}>, %y: memref<?x{target}>) {{
  linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : memref<?x{source}>) outs(%y : memref<?x{target}>) {{
  ^bb0(%a: {source}, %o: {target}):
    %r = arith.{op} %a : {source} to {target}
    linalg.yield %r : {target}
  }}
  return
}}
"""
PAIRS = [(small, wide) for small in TYPES for wide in WIDE]


@pytest.fixture(scope="module")
def casts() -> Program:
    """All conversions, in one program."""
    text = [CAST.format(op="extf", small=small, wide=wide, source=small, target=wide) for small, wide in PAIRS]
    text += [CAST.format(op="truncf", small=small, wide=wide, source=wide, target=small) for small, wide in PAIRS]
    return build("".join(text))


def values(wide: str) -> numpy.ndarray:
    """Values of a wide type: special ones, everything near the small types' values, and random bit patterns."""
    kind = numpy.dtype(WIDE[wide])
    found = [numpy.array([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e38, -1e38, 1e-38, 5e-39]).astype(kind)]
    if kind.itemsize == 2:
        found.append(numpy.arange(65536, dtype=numpy.uint16).view(kind))
    for small in TYPES.values():
        codes = numpy.arange(256 if small is not ml_dtypes.float4_e2m1fn else 16, dtype=numpy.uint8).view(small)
        exact = numpy.sort(codes.astype(numpy.float64)[numpy.isfinite(codes.astype(numpy.float64))])
        middle = (exact[1:] + exact[:-1]) / 2
        for near in (exact, middle):
            near = near.astype(kind)
            if kind.itemsize >= 4:
                found += [
                    near,
                    numpy.nextafter(near, kind.type(numpy.inf)),
                    numpy.nextafter(near, -kind.type(numpy.inf)),
                ]
            else:
                found.append(near)
    rng = numpy.random.default_rng(1)
    if kind.itemsize == 4:
        found.append(rng.integers(0, 2**32, 200_000, dtype=numpy.uint32).view(kind))
        found.append((rng.standard_normal(100_000) * 2.0 ** rng.integers(-20, 20, 100_000)).astype(kind))
    if kind.itemsize == 8:
        found.append(rng.standard_normal(100_000) * 2.0 ** rng.integers(-20, 20, 100_000))
    return numpy.concatenate(found)


def to_f32(x: numpy.ndarray) -> numpy.ndarray:
    """As f32; of f64 the neighbour with an odd last bit, which rounds on as the f64 value itself would."""
    near = x.astype(numpy.float32)
    if x.dtype != numpy.float64:
        return near
    exact = numpy.isnan(x) | (near.astype(numpy.float64) == x)
    other = numpy.nextafter(near, numpy.where(near.astype(numpy.float64) < x, numpy.inf, -numpy.inf).astype("f4"))
    return numpy.where(exact | (near.view("u4") & 1 == 1), near, other)


def same(got: numpy.ndarray, want: numpy.ndarray) -> numpy.ndarray:
    """Elementwise equality of bits, any NaN being as good as another."""
    word = f"u{got.dtype.itemsize}"
    nan = numpy.isnan(got.astype(numpy.float64)) & numpy.isnan(want.astype(numpy.float64))
    return (got.view(word) == want.view(word)) | nan


@pytest.mark.parametrize(("small", "wide"), PAIRS, ids=lambda each: each)
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_extension_of_every_code(casts: Program, small: str, wide: str) -> None:
    codes = numpy.arange(16 if small == "f4E2M1FN" else 256, dtype=numpy.uint8).view(TYPES[small])
    out = numpy.zeros(codes.shape, WIDE[wide])
    casts.call(f"extf_{small}_{wide}", codes, out)
    assert same(out, codes.astype(numpy.float32).astype(WIDE[wide])).all()


@pytest.mark.parametrize(("small", "wide"), PAIRS, ids=lambda each: each)
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_rounding(casts: Program, small: str, wide: str) -> None:
    x = values(wide)
    out = numpy.zeros(x.shape, TYPES[small])
    casts.call(f"truncf_{small}_{wide}", x, out)
    want = to_f32(x).astype(TYPES[small])
    wrong = ~same(out, want)
    assert not wrong.any(), [(x[i], out[i], want[i]) for i in numpy.flatnonzero(wrong)[:5]]


CODES = """
func.func @decode_{small}(%x: memref<?xi8>, %y: memref<?xf32>) {{
  linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : memref<?xi8>) outs(%y : memref<?xf32>) {{
  ^bb0(%a: i8, %o: f32):
    %s = arith.bitcast %a : i8 to {small}
    %r = arith.extf %s : {small} to f32
    linalg.yield %r : f32
  }}
  return
}}
func.func @encode_{small}(%x: memref<?xf32>, %y: memref<?xi8>) {{
  linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : memref<?xf32>) outs(%y : memref<?xi8>) {{
  ^bb0(%a: f32, %o: i8):
    %s = arith.truncf %a : f32 to {small}
    %r = arith.bitcast %s : {small} to i8
    linalg.yield %r : i8
  }}
  return
}}
"""


@pytest.mark.parametrize("small", ["f8E4M3", "f8E3M4"])
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_types_that_only_occur_inside_kernels(small: str) -> None:
    kind = getattr(ml_dtypes, "float8_" + small[2:].lower())
    program = build(CODES.format(small=small))
    codes = numpy.arange(256, dtype=numpy.uint8)
    decoded = numpy.zeros(256, numpy.float32)
    program.call(f"decode_{small}", codes.view(numpy.int8), decoded)
    assert same(decoded, codes.view(kind).astype(numpy.float32)).all()
    x = values("f32")
    encoded = numpy.zeros(x.shape, numpy.int8)
    program.call(f"encode_{small}", x, encoded)
    assert same(encoded.view(kind), x.astype(kind)).all()


COLUMNS = """
func.func @{extreme}_{small}(%x: tensor<?x?x{small}>, %o: tensor<?x{small}>) -> tensor<?x{small}> {{
  %y = linalg.reduce {{ arith.{extreme} }} ins(%x : tensor<?x?x{small}>) outs(%o : tensor<?x{small}>) dimensions = [0]
  return %y : tensor<?x{small}>
}}
"""
EXTREMES = {"maximumf": numpy.maximum, "minimumf": numpy.minimum, "maxnumf": numpy.fmax, "minnumf": numpy.fmin}


@pytest.mark.parametrize("small", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN"])
def test_extremes_down_columns(small: str) -> None:
    """Several columns at once, whose vectors are in shared memory between the warps of a block."""
    program = build("".join(COLUMNS.format(extreme=extreme, small=small) for extreme in EXTREMES))
    random = numpy.random.default_rng(5)
    for shape in ((1, 1), (5, 33), (70, 64), (300, 16), (2000, 8)):
        x = random.standard_normal(shape).astype("f4").astype(TYPES[small])
        if small != "f4E2M1FN":
            x[-1, 0] = numpy.nan
        begin = numpy.zeros(shape[1], TYPES[small])
        for extreme, exact in EXTREMES.items():
            got = program.call(f"{extreme}_{small}", x, begin).results[0]
            want = exact(exact.reduce(x.astype("f4"), axis=0), begin.astype("f4"))
            numpy.testing.assert_array_equal(got.astype("f4"), want, err_msg=f"{extreme} {shape}")
