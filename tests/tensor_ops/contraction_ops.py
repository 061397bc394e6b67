"""Products, convolutions and poolings: the named ops of linalg, static shapes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from ops import Op, static

Array = np.ndarray[Any, Any]
MAP = "affine_map<({}) -> ({})>"


def wide(x: Array) -> Array:
    return x.astype("f8" if x.dtype.kind == "f" else "i8")


def einsum(spec: str, dtype: str = "f4") -> Any:
    return lambda *xs: np.einsum(spec, *map(wide, xs)).astype(dtype)


def maps(dims: str, *operands: str) -> str:
    """``indexing_maps = [...]`` over single-letter dimensions: maps("mnk", "mk", "kn", "mn")."""
    listed = ", ".join(MAP.format(", ".join(dims), ", ".join(operand)) for operand in operands)
    return f"indexing_maps = [{listed}]"


def _products() -> list[Op]:
    one = lambda *a, **k: static("products", *a, **k)  # noqa: E731
    return [
        one("matmul", "matmul", [(17, 31), (31, 13)], (17, 13), einsum("mk,kn->mn")),
        one("matmul_f64", "matmul", [(17, 31), (31, 13)], (17, 13), einsum("mk,kn->mn", "f8"), element="f64",
            rtol=1e-12),
        one("matmul_i32", "matmul", [(17, 31), (31, 13)], (17, 13), einsum("mk,kn->mn", "i4"), element="i32"),
        one("matmul_f16_f32", "matmul", [(64, 128), (128, 32)], (64, 32), einsum("mk,kn->mn"), element="f16",
            result="f32"),
        one("matmul_f16_odd", "matmul", [(130, 67), (67, 21)], (130, 21), einsum("mk,kn->mn"), element="f16",
            result="f32"),
        one("matmul_a_transposed", "matmul", [(31, 17), (31, 13)], (17, 13), einsum("km,kn->mn"),
            attributes=maps("mnk", "km", "kn", "mn")),
        one("matmul_b_transposed", "matmul", [(17, 31), (13, 31)], (17, 13), einsum("mk,nk->mn"),
            attributes=maps("mnk", "mk", "nk", "mn")),
        one("batch_matmul", "batch_matmul", [(3, 9, 20), (3, 20, 7)], (3, 9, 7), einsum("bmk,bkn->bmn")),
        one("batch_reduce_matmul", "batch_reduce_matmul", [(3, 9, 20), (3, 20, 7)], (9, 7), einsum("bmk,bkn->mn")),
        one("matvec", "matvec", [(33, 65), (65,)], (33,), einsum("mk,k->m")),
        one("vecmat", "vecmat", [(33,), (33, 65)], (65,), einsum("k,kn->n")),
        one("batch_matvec", "batch_matvec", [(3, 33, 17), (3, 17)], (3, 33), einsum("bmk,bk->bm")),
        one("batch_vecmat", "batch_vecmat", [(3, 17), (3, 17, 33)], (3, 33), einsum("bk,bkn->bn")),
        one("dot", "dot", [(1009,), (1009,)], (), einsum("k,k->"), atol=1e-3),
        one("mmt4d", "mmt4d", [(3, 4, 8, 2), (5, 4, 6, 2)], (3, 5, 8, 6), einsum("mkab,nkcb->mnac")),
        one("contract", "contract", [(4, 5, 6), (6, 7, 4)], (5, 7), einsum("abc,cda->bd"),
            attributes=maps("abcd", "abc", "cda", "bd")),
        one("matmul_i8_i32", "matmul", [(17, 64), (64, 13)], (17, 13), einsum("mk,kn->mn", "i4"), element="i8",
            result="i32"),
    ]  # fmt: skip


def windows(x: Array, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]) -> Any:
    """(position in the output, window) over the given leading axes of x."""
    extent = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape, kernel, strides, dilations, strict=False)]
    for at in product(*map(range, extent)):
        slices = tuple(slice(i * s, i * s + d * (k - 1) + 1, d)
                       for i, k, s, d in zip(at, kernel, strides, dilations, strict=True))  # fmt: skip
        yield at, x[slices]


def convolve(
    image: str, kernel: str, out: str, strides: tuple[int, ...] = (1, 1, 1), dilations: tuple[int, ...] = (1, 1, 1)
) -> Any:
    """Reference of a convolution; letters: xyz spatial, n batch, c channels, f features, g groups."""
    spatial = "".join(a for a in image if a in "xyz")
    steps = strides[: len(spatial)], dilations[: len(spatial)]
    rest = "".join(a for a in image if a not in "xyz")
    order = [image.index(a) for a in spatial + rest]
    feature = out.translate(str.maketrans("", "", "xyz"))

    def reference(x: Array, w: Array) -> Array:
        moved = wide(x).transpose(order)
        extents = tuple(w.shape[kernel.index(a)] for a in spatial)
        parts = {
            at: np.einsum(f"{spatial}{rest},{kernel}->{feature}", window, wide(w))
            for at, window in windows(moved, extents, *steps)
        }
        size = tuple(n + 1 for n in max(parts))
        result = np.array([parts[at] for at in product(*map(range, size))])
        result = result.reshape(size + result.shape[1:])
        return result.transpose([(spatial + feature).index(a) for a in out]).astype("f4")

    return reference


def dense(name: str, *values: int) -> str:
    return f"{name} = dense<[{', '.join(map(str, values))}]> : vector<{len(values)}xi64>"


def _convolutions() -> list[Op]:
    one = lambda *a, **k: static("convolutions", *a, **k)  # noqa: E731
    stride2 = "{" + dense("strides", 2, 2) + ", " + dense("dilations", 1, 1) + "}"
    dilate2 = "{" + dense("strides", 1, 1) + ", " + dense("dilations", 2, 2) + "}"
    sparse = "{" + dense("strides", 2, 2) + ", " + dense("dilations", 2, 2) + "}"
    return [
        one("conv_1d", "conv_1d", [(20,), (3,)], (18,), convolve("x", "x", "x")),
        one("conv_1d_nwc", "conv_1d_nwc_wcf", [(2, 20, 3), (4, 3, 5)], (2, 17, 5), convolve("nxc", "xcf", "nxf")),
        one("conv_1d_ncw", "conv_1d_ncw_fcw", [(2, 3, 20), (5, 3, 4)], (2, 5, 17), convolve("ncx", "fcx", "nfx")),
        one("conv_2d", "conv_2d", [(12, 14), (3, 3)], (10, 12), convolve("xy", "xy", "xy")),
        one("conv_2d_nhwc", "conv_2d_nhwc_hwcf", [(2, 12, 12, 3), (3, 3, 3, 5)], (2, 5, 5, 5),
            convolve("nxyc", "xycf", "nxyf", (2, 2)), attributes=stride2),
        one("conv_2d_nchw", "conv_2d_nchw_fchw", [(2, 3, 12, 12), (5, 3, 3, 3)], (2, 5, 8, 8),
            convolve("ncxy", "fcxy", "nfxy", (1, 1), (2, 2)), attributes=dilate2),
        one("conv_2d_grouped", "conv_2d_ngchw_gfchw", [(1, 2, 3, 8, 8), (2, 4, 3, 3, 3)], (1, 2, 4, 6, 6),
            convolve("ngcxy", "gfcxy", "ngfxy")),
        one("conv_3d", "conv_3d_ndhwc_dhwcf", [(1, 6, 7, 8, 2), (2, 3, 2, 2, 3)], (1, 5, 5, 7, 3),
            convolve("nxyzc", "xyzcf", "nxyzf")),
        one("conv_2d_f16", "conv_2d_nhwc_hwcf", [(2, 14, 13, 64), (3, 3, 64, 24)], (2, 5, 5, 24),
            convolve("nxyc", "xycf", "nxyf", (2, 2), (2, 2)), attributes=sparse, element="f16", result="f32",
            atol=1e-2),
        one("conv_3d_f16", "conv_3d_ndhwc_dhwcf", [(1, 6, 7, 8, 64), (2, 3, 2, 64, 8)], (1, 5, 5, 7, 8),
            convolve("nxyzc", "xyzcf", "nxyzf"), element="f16", result="f32", atol=1e-2),
        one("depthwise_2d", "depthwise_conv_2d_nhwc_hwc", [(2, 9, 9, 4), (3, 3, 4)], (2, 7, 7, 4),
            convolve("nxyc", "xyc", "nxyc")),
        one("depthwise_1d", "depthwise_conv_1d_nwc_wc", [(2, 20, 4), (3, 4)], (2, 18, 4), convolve("nxc", "xc", "nxc")),
    ]  # fmt: skip


def pooled(image: str, reduce: Any) -> Any:
    """Reference of a pooling with window 3 x 3 (or 3) and stride 2; the window argument only gives its extents."""
    spatial = "".join(a for a in image if a in "xy")
    order = [image.index(a) for a in spatial + image.translate(str.maketrans("", "", "xy"))]
    back = np.argsort(order)

    def reference(x: Array, window: Array) -> Array:
        moved = x.transpose(order)
        steps = (2,) * len(spatial)
        parts = {at: reduce(w, axis=tuple(range(len(spatial))))
                 for at, w in windows(moved, window.shape, steps, (1,) * len(spatial))}  # fmt: skip
        size = tuple(n + 1 for n in max(parts))
        result = np.array([parts[at] for at in product(*map(range, size))])
        return result.reshape(size + result.shape[1:]).transpose(back).astype("f4")

    return reference


def _poolings() -> list[Op]:
    one = lambda *a, **k: static("poolings", *a, **k)  # noqa: E731
    two = "{" + dense("strides", 2, 2) + ", " + dense("dilations", 1, 1) + "}"
    single = "{" + dense("strides", 2) + ", " + dense("dilations", 1) + "}"
    nhwc, window = (2, 11, 13, 3), (3, 3)
    return [
        one("sum_nhwc", "pooling_nhwc_sum", [nhwc, window], (2, 5, 6, 3), pooled("nxyc", np.sum), attributes=two),
        one("max_nhwc", "pooling_nhwc_max", [nhwc, window], (2, 5, 6, 3), pooled("nxyc", np.max), attributes=two,
            init="0xFF800000"),
        one("min_nhwc", "pooling_nhwc_min", [nhwc, window], (2, 5, 6, 3), pooled("nxyc", np.min), attributes=two,
            init="0x7F800000"),
        one("max_nchw", "pooling_nchw_max", [(2, 3, 11, 13), window], (2, 3, 5, 6), pooled("ncxy", np.max),
            attributes=two, init="0xFF800000"),
        one("sum_ncw", "pooling_ncw_sum", [(2, 3, 11), (3,)], (2, 3, 5), pooled("ncx", np.sum), attributes=single),
    ]  # fmt: skip


CONTRACTIONS = [*_products(), *_convolutions(), *_poolings()]
