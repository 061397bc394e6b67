"""The calls of tests/hazards that are a function and its result; the others are tests of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from example_calls import normal
from gpu_calls import Argument, Call
from references import softmax

Array = np.ndarray[Any, Any]


def scalar(value: Any, dtype: str) -> Array:
    return np.array(value, dtype)


def _results() -> list[Call]:
    calls = []
    for n in (0, 1, 2, 31, 1009):
        calls += [
            Call(
                f"{n}-cut", "results", "third", lambda rng, n=n: (normal(rng, n), True), lambda x, c: x[: len(x) // 3]
            ),
            Call(f"{n}-whole", "results", "third", lambda rng, n=n: (normal(rng, n), False), lambda x, c: x),
            Call(str(n), "results", "negated_twice", lambda rng, n=n: (normal(rng, n),), lambda x: (-x, -x)),
            Call(
                str(n),
                "results",
                "three_kinds",
                lambda rng, n=n: (normal(rng, n),),
                lambda x: (len(x), np.asarray(x.sum(dtype="f8"), "f4"), abs(x)),
                rtol=1e-4,
                atol=1e-4,
            ),
        ]
    for count in (0, 1, 5):
        calls.append(
            Call(
                str(count),
                "results",
                "append_ones",
                lambda rng, c=count: (normal(rng, 3), c),
                lambda x, c: np.concatenate([x, np.ones(c, "f4")]),
            )
        )
    for count in (0, 4, 9):
        calls.append(
            Call(
                str(count),
                "results",
                "sqrt_first",
                lambda rng, c=count: (rng.random(9, "f4"), scalar(c, "i8")),
                lambda x, c: np.sqrt(x[: int(c)]),
            )
        )
    for edge in (0, 2):
        calls.append(
            Call(
                str(edge),
                "results",
                "frame",
                lambda rng, e=edge: (normal(rng, 3, 4), e),
                lambda x, e: np.pad(x, ((e, e), (1, 1)), constant_values=-1),
            )
        )
    return calls


def _values() -> list[Call]:
    six = [lambda rng: (normal(rng, 6), normal(rng, 6))]
    replaced = lambda x, v: np.append(x[:5], np.float32(v))  # noqa: E731 - a table entry used twice
    return [
        Call("7", "values", "identity", lambda rng: (normal(rng, 7),), lambda x: Argument(0)),
        Call("6", "values", "exchange", six[0], lambda x, y: (Argument(1), Argument(0))),
        Call("8x8", "values", "columns", lambda rng: (normal(rng, 8, 8),), lambda x: x[:, 4:7]),
        Call("3x5", "values", "flat", lambda rng: (normal(rng, 3, 5),), lambda x: x.reshape(15)),
        Call("first", "values", "choose", lambda rng: (*six[0](rng), True), lambda x, y, f: x),
        Call("second", "values", "choose", lambda rng: (*six[0](rng), False), lambda x, y, f: y),
        Call("five", "values", "primes", lambda rng: (), lambda: np.array([2, 3, 5, 7, 11], "i4")),
        Call("6", "values", "with_last", lambda rng: (normal(rng, 6), 9.5), replaced),
        Call(
            "6",
            "values",
            "before_and_after",
            lambda rng: (normal(rng, 6), 9.5),
            lambda x, v: (Argument(0), replaced(x, v)),
        ),
        Call(
            "6",
            "values",
            "with_last_in_place",
            lambda rng: (normal(rng, 6), 9.5),
            lambda x, v: Argument(0),
            lambda x, v: {0: replaced(x, v)},
        ),
        Call("100", "values", "exp_over", lambda rng: (normal(rng, 100),), np.exp),
        Call("100", "values", "plus", lambda rng: (normal(rng, 100), normal(rng, 100)), lambda x, y: x + y),
        Call(
            "9x5x7",
            "values",
            "product_into",
            lambda rng: (normal(rng, 9, 7), normal(rng, 7, 5), normal(rng, 9, 5)),
            lambda a, b, c: Argument(2),
            lambda a, b, c: {2: a @ b},
            rtol=1e-4,
            atol=1e-4,
        ),
    ]


def gcd(a: Array, b: Array) -> tuple[Array, int]:
    x, y, steps = int(a), int(b), 0
    while y:
        x, y, steps = y, x % y, steps + 1
    return scalar(x, "i8"), steps


def line(a: float, b: float, k: int) -> tuple[Array, float]:
    points = np.array([a, b, 2 * b - a, 3 * b - 2 * a], "f4")
    return points, float(points[k])


def _control() -> list[Call]:
    calls = []
    for times in (0, 1, 5):
        calls.append(
            Call(
                str(times),
                "control",
                "doubled",
                lambda rng, t=times: (normal(rng, 1000), scalar(t, "i8")),
                lambda x, t: x * np.float32(2.0 ** int(t)),
            )
        )
    for flag in (True, False):
        calls.append(
            Call(
                str(flag),
                "control",
                "log_or_abs",
                lambda rng, f=flag: (rng.random(100, "f4") + np.float32(0.1), scalar(f, "?")),
                lambda x, f: np.log(x) if f else abs(x),
            )
        )
    for a, b in ((1, 1), (1071, 462), (2**40, 3**20), (5, 0)):
        calls.append(Call(f"{a}-{b}", "control", "gcd", lambda rng, a=a, b=b: (scalar(a, "i8"), scalar(b, "i8")), gcd))
    for k in range(4):
        calls.append(Call(str(k), "control", "line", lambda rng, k=k: (1.5, 2.0, k), line))
    for month, days in ((0, 31), (1, 28), (11, 31)):
        calls.append(Call(str(month), "control", "days", lambda rng, m=month: (m,), lambda m, d=days: d))
    return calls


def low_nibble(x: Array) -> Array:
    low = x[::-1].astype("i2") & 15
    return np.where(low > 7, low - 16, low).astype("i1")


def _types() -> list[Call]:
    calls = [
        Call("five", "booleans", "pattern", lambda rng: (), lambda: np.array([1, 0, 1, 1, 0], "?")),
        Call("256", "booleans", "low_nibble", lambda rng: (np.arange(-128, 128, dtype="i1"),), low_nibble),
        Call(
            "f16",
            "halves",
            "sum_f16",
            lambda rng: (np.full(4096, 0.001, "f2"),),
            lambda x: np.asarray(x.sum(dtype="f8"), "f2"),
            rtol=1e-3,
        ),
        Call(
            "f16",
            "native_halves",
            "sum_f16",
            lambda rng: (np.full(4096, 0.001, "f2"),),
            lambda x: np.asarray(4.0, "f2"),
            rtol=0,
        ),
        Call(
            "33x65x500",
            "halves",
            "matmul_f16",
            lambda rng: (normal(rng, 33, 500, dtype="f2"), normal(rng, 500, 65, dtype="f2")),
            lambda a, b: (a.astype("f8") @ b.astype("f8")).astype("f2"),
            rtol=2e-3,
            atol=2e-3,
        ),
        Call(
            "rank0", "scalars", "product", lambda rng: (scalar(3, "f4"), scalar(4, "f4")), lambda a, b: scalar(12, "f4")
        ),
        Call(
            "all",
            "scalars",
            "echo",
            lambda rng: (-128, 2**15 - 1, -(2**31), 2**63 - 1, -(2**63), 1.5, 0.1, math.pi),
            lambda *v: (*v[:6], float(np.float32(v[6])), v[7]),
            rtol=0,
            atol=0,
        ),
        Call(
            "33x100",
            "softmaxes",
            "rows_f16",
            lambda rng: (normal(rng, 33, 100, dtype="f2"),),
            softmax,
            rtol=2e-3,
            atol=1e-4,
        ),
        Call("33x100", "softmaxes", "columns", lambda rng: (normal(rng, 33, 100),), lambda x: softmax(x, 0)),
        Call("10x20", "softmaxes", "negated_in_tiles", lambda rng: (normal(rng, 10, 20),), lambda x: -x),
    ]
    for n in (0, 1, 5, 300):
        calls += [
            Call(str(n), "booleans", "all", lambda rng, n=n: (rng.random(n) < 0.9,), lambda m: np.asarray(m.all())),
            Call(f"{n}-true", "booleans", "all", lambda rng, n=n: (np.ones(n, "?"),), lambda m: scalar(True, "?")),
            Call(
                str(n),
                "booleans",
                "differs",
                lambda rng, n=n: (rng.random(n) < 0.5, rng.random(n) < 0.5),
                lambda a, b: a ^ b,
            ),
            Call(str(n), "booleans", "alternating", lambda rng, n=n: (n,), lambda n: np.arange(n) % 2 == 0),
        ]
    for a, k in ((True, 0), (False, 1)):
        calls.append(
            Call(
                f"{a}",
                "booleans",
                "scalars",
                lambda rng, a=a, k=k: (a, np.array([True, False]), k),
                lambda a, m, k: (not a, bool(m[k])),
            )
        )
    return calls


def _launches() -> list[Call]:
    calls = [
        Call("32", "names", "scaled", lambda rng: (normal(rng, 32), 3.0), None, lambda x, f: {0: x * np.float32(f)}),
        Call("100", "more_names", "tanh", lambda rng: (normal(rng, 100),), np.tanh),
        Call("100", "more_names", "main", lambda rng: (normal(rng, 100),), np.negative),
        Call("100", "more_names", "abort", lambda rng: (normal(rng, 100),), np.abs),
        Call("100", "more_names", "puts", lambda rng: (normal(rng, 100),), lambda x: x + x),
        Call(
            "two",
            "streams",
            "two_chains",
            lambda rng: (np.arange(100, dtype="i4"), np.arange(77, dtype="i4")),
            None,
            lambda a, b: {0: 2 * a, 1: b + np.arange(77, dtype="i4")},
        ),
        Call(
            "two",
            "async_execute",
            "executed",
            lambda rng: (np.arange(100, dtype="i4"),),
            None,
            lambda x: {0: 3 * x + 1},
        ),
        Call(
            "sum",
            "host_memory",
            "weighted_sum",
            lambda rng: (np.array([1, 2, 3, 4], "f4"), 2.0),
            lambda x, s: float((x * s) @ np.array([1, 10, 100, 1000], "f4")),
        ),
        Call(
            "32",
            "internal_types",
            "sum_by_four",
            lambda rng: (np.arange(32, dtype="f4"), np.zeros(8, "f4")),
            None,
            lambda x, out: {1: x.reshape(8, 4).sum(1)},
        ),
        Call(
            "first",
            "default_device",
            "counted",
            lambda rng: (np.full(50, -1, "i4"), 0),
            None,
            lambda x, device: {0: np.arange(50, dtype="i4")},
        ),
        Call(
            "three",
            "shared_memory",
            "from_table",
            lambda rng: (np.zeros(3, "i4"),),
            None,
            lambda out: {0: np.array([7, 8, 9], "i4")},
        ),
        Call(
            "static and dynamic",
            "shared_memory",
            "block_sums",
            lambda rng: (rng.integers(-99, 99, 512, "i4"), np.zeros(512, "i4")),
            None,
            lambda x, out: {1: np.repeat(x.reshape(4, 128).sum(1, dtype="i4"), 128)},
        ),
        Call(
            "false and true",
            "predicates",
            "expect",
            lambda rng: (np.zeros(1, "i4"),),
            None,
            lambda out: {0: np.ones(1, "i4")},
            capability=(9, 0),
        ),
        Call(
            "pairs",
            "clusters",
            "rank_in_cluster",
            lambda rng: (np.full(64, -1, "i4"),),
            None,
            lambda out: {0: np.arange(64, dtype="i4") % 2},
            capability=(9, 0),
        ),
    ]
    for n in (10, 12 * 1024, 40 * 1024):  # 160 KiB needs the attribute that opts in
        calls.append(
            Call(
                f"{n}",
                "shared_memory",
                "reversed",
                lambda rng, n=n: (np.arange(n, dtype="i4"), np.zeros(n, "i4"), 4 * n),
                None,
                lambda x, out, b: {1: x[::-1]},
                capability=(9, 0) if n > 24 * 1024 else (0, 0),
            )
        )
    return calls


def _atomics() -> list[Call]:
    """Numbers whose products are exact in any order, and whose sums are small."""
    calls = [
        Call(
            "128 a block",
            "atomics",
            "products_of_blocks",
            lambda rng: (rng.choice(np.array([1, -1, 2, 0.5], "f4"), 512), np.zeros(4, "f4")),
            None,
            lambda x, out: {1: x.reshape(4, 128).prod(1, dtype="f8").astype("f4")},
        )
    ]
    for kind, dtype in (("f32", "f4"), ("f16", "f2"), ("i64", "i8")):
        calls.append(
            Call(
                "30000",
                "atomics",
                f"products_{kind}",
                lambda rng, dtype=dtype: (rng.choice(np.array([1, -1], dtype), 30000), np.array([3, 5, 7], dtype)),
                None,
                lambda x, y: {1: y * x.reshape(-1, 3).prod(0)},
            )
        )
    for kind, dtype in (("f64", "f8"), ("i8", "i1")):
        calls.append(
            Call(
                "30000",
                "atomics",
                f"sums_{kind}",
                lambda rng, dtype=dtype: (rng.integers(-3, 4, 30000).astype(dtype), np.array([3, 5, 7], dtype)),
                None,
                lambda x, y: {1: y + x.reshape(-1, 3).sum(0, dtype=y.dtype)},
            )
        )
    return calls


def _exchanges() -> list[Call]:
    """Values that every thread of a block gets, exact in any order."""

    def whole(kind: str) -> Any:
        information = np.iinfo(kind)
        return lambda rng: rng.integers(information.min, information.max, 256, kind, endpoint=True)

    made: dict[str, tuple[Any, Any]] = {
        "add_f16": (lambda rng: rng.integers(-8, 9, 256).astype("f2"), lambda x: x.astype("f8").sum()),
        "minsi_i8": (whole("i1"), lambda x: x.min()),
        "maxui_i8": (whole("u1"), lambda x: x.max()),
        "xor_i1": (lambda rng: rng.random(256) < 0.5, np.logical_xor.reduce),
        "maxsi_i16": (whole("i2"), lambda x: x.max()),
        "neighbours": (whole("i4"), lambda x: x.reshape(-1, 2)[:, ::-1].reshape(-1)),
    }
    calls = [
        Call(
            "256",
            "exchanges",
            function,
            lambda rng, make=make: (x := make(rng), np.zeros_like(x)),
            None,
            lambda x, y, result=result: {1: np.broadcast_to(result(x), x.shape).astype(x.dtype)},
        )
        for function, (make, result) in made.items()
    ]
    for n in (1, 1000, 100003):
        calls.append(
            Call(
                str(n),
                "exchanges",
                "sixteenth",
                lambda rng, n=n: (rng.integers(2**62, 2**63 - 1, n),),
                lambda x: scalar(((sum(x.tolist()) >> 4) + 2**63) % 2**64 - 2**63, "i8"),
            )
        )
    return calls


HAZARDS = [*_atomics(), *_exchanges(), *_results(), *_values(), *_control(), *_types(), *_launches()]
