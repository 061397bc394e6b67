"""The package's functions under jax.jit: ``python jax_cases.py cpu|cuda`` in a process of its own.

In: the package ``traced_kernels`` on the path, made from traced.mlir. Out: exit code 0, or what differs.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import traced_kernels.jax as kernels  # noqa: E402


def equal(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-6)


def refused(kind: type[Exception], text: str, call: Any, *arguments: Any, **named: Any) -> None:
    said = ""
    try:
        jax.block_until_ready(call(*arguments, **named))
    except kind as error:
        said = str(error)
    assert text in said, said


def random(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(1).standard_normal(shape).astype("float32"))


def case_names() -> None:
    assert kernels.twice.__name__ == "twice"
    assert {"traced", "twice", "iota"} <= set(dir(kernels))


def case_new_arrays() -> None:
    x = random(5, 4)
    equal(kernels.twice(x), 2 * x)
    program = jax.jit(lambda a: kernels.twice(a + 1).sum(0))
    for rows in (5, 3):
        equal(program(x[:rows]), (2 * (x[:rows] + 1)).sum(0))
    equal(kernels.framed(random(3, 5), 2), np.ones((7, 3)))
    equal(jax.jit(lambda: kernels.iota(5) * 2)(), [0, 2, 4, 6, 8])


def case_destinations() -> None:
    x, out = random(7), jnp.zeros(7, "float32")
    equal(kernels.scaled_into(x, 3.0, out), 3 * x)
    equal(out, np.zeros(7))
    equal(jax.jit(lambda a, b: kernels.scaled_into(a, out=b, s=2.0) + 1)(x, out), 2 * x + 1)
    equal(jax.jit(lambda a: kernels.scaled_into(a, 2.0, a))(x), 2 * x)
    donating = jax.jit(lambda a, b: kernels.scaled_into(a, 2.0, b), donate_argnums=1)
    equal(donating(x, jnp.zeros(7, "float32")), 2 * x)


def case_references() -> None:
    x = random(9)
    before = np.array(x)
    equal(jax.jit(lambda a: kernels.incremented(a) * 2)(x), 2 * (before + 1))
    equal(x, before)


def case_numbers() -> None:
    y, n = jax.jit(kernels.two)(random(6))
    equal(y, 2 * random(6))
    assert n.shape == ()
    assert int(n) == 6
    moved, by = jax.jit(lambda a: kernels.typed.shifted(a, -3))(jnp.arange(4, dtype="int32"))
    equal(moved, np.arange(4) - 3)
    assert int(by) == -3
    refused(TypeError, "must be a number when the program is traced", jax.jit(kernels.iota), 5)
    equal(jax.jit(kernels.iota, static_argnums=0)(4), range(4))


def case_extents_that_depend_on_data() -> None:
    x = jnp.asarray([4])
    refused(TypeError, "pass shapes=", kernels.counted, x)
    equal(jax.jit(lambda a: kernels.counted(a, shapes=[(4,)]) + 1)(x), [1, 2, 3, 4])
    refused(Exception, "4 long in dimension 0, its memory is for 5", kernels.counted, x, shapes=[(5,)])


def case_wrong_arguments() -> None:
    refused(Exception, "another extent", kernels.twice, random(5, 3))
    refused(ValueError, "another rank", kernels.twice, random(5))
    refused(TypeError, "another element type", kernels.twice, jnp.ones((5, 4), "int32"))
    refused(TypeError, "missing 'x'", kernels.twice)
    refused(TypeError, r"twice(x): no argument 'y'", kernels.twice, y=1)
    refused(
        TypeError,
        "twice() argument 'x': expected tensor<?x4xf32>, got NoneType: an array is needed",
        kernels.twice,
        None,
    )
    x = random(4)
    for wrong in (None, "2", 1j, []):
        refused(TypeError, "argument 's': expected f32, got", kernels.scaled_into, x, wrong, x)
    for wrong in (None, "2", 2.5, np.float32(2)):
        refused(TypeError, "argument 'n': expected index, got", kernels.iota, wrong)
    refused(OverflowError, "argument 'n': expected index, got a number out of its range", kernels.iota, 2**63)
    refused(
        OverflowError, "argument 's': expected f32, got a number out of its range", kernels.scaled_into, x, 10**400, x
    )
    refused(Exception, "argument 2 's', f32: got a number out of its range", kernels.scaled_into, x, 1e39, x)
    equal(kernels.scaled_into(x, float("inf"), x), np.array(x) * np.float32("inf"))


def case_vmap() -> None:
    x = random(2, 5, 4)
    equal(jax.vmap(kernels.twice)(x), 2 * x)


if __name__ == "__main__":
    jax.config.update("jax_platforms", sys.argv[1])
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            print(name, flush=True)
            case()
