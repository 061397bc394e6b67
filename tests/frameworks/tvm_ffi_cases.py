"""The package's functions by way of tvm-ffi: ``python tvm_ffi_cases.py cpu`` (or ``cuda``) in a process of its own.

In: the package ``traced_kernels`` on the path, built with ``--tvm-ffi``. Out: exit code 0, or what differs.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

spec = importlib.util.find_spec("traced_kernels")
assert spec is not None
assert spec.origin is not None
(LIBRARY,) = Path(spec.origin).parent.glob("*.so")
module = tvm_ffi.load_module(str(LIBRARY))


def array(values: Any) -> tuple[Any, Any]:
    """NumPy's view of the memory (torch's tensor, on a GPU), and tvm-ffi's."""
    made = np.ascontiguousarray(values)
    if sys.argv[1] == "cuda":
        import torch

        made = torch.from_numpy(made).cuda()
    return made, tvm_ffi.from_dlpack(made)


def content(made: Any) -> Any:
    return made if isinstance(made, np.ndarray) else made.cpu().numpy()


def refused(kind: type[Exception], text: str, call: Any, *arguments: Any) -> None:
    said = ""
    try:
        call(*arguments)
    except kind as error:
        said = str(error)
    assert text in said, said


x, x_in = array(np.arange(6, dtype="float32"))
y, y_out = array(np.zeros(6, "float32"))
module.scaled_into(x_in, 2.5, y_out)
np.testing.assert_array_equal(content(y), 2.5 * content(x))
assert module.two(x_in, y_out) == 6
np.testing.assert_array_equal(content(y), 2 * content(x))
module.incremented(y_out)
np.testing.assert_array_equal(content(y), 2 * content(x) + 1)
whole, whole_in = array(np.arange(4, dtype="int32"))
moved, moved_out = array(np.zeros(4, "int32"))
assert module.shifted(whole_in, -3, moved_out) == -3
np.testing.assert_array_equal(content(moved), content(whole) - 3)
refused(TypeError, "traced.two() takes 2 arguments, arrays for its results among them, got 1", module.two, x_in)
refused(TypeError, "traced.scaled_into() argument 2: a float is needed", module.scaled_into, x_in, "2", y_out)
refused(ValueError, "argument 2 's', f32: got a number out of its range", module.scaled_into, x_in, -1e39, y_out)
refused(TypeError, "traced.two() argument 1: an array is needed", module.two, 3, y_out)
refused(ValueError, "got another element type", module.two, array(np.zeros(6))[1], y_out)
refused(ValueError, "result 1 is 6 long in dimension 0", module.two, x_in, array(np.zeros(5, "float32"))[1])
