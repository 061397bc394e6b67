"""One call of a generated package's function, and what NumPy says its results are.

In: a Call (which function, how to make its arguments, the reference). Out: nothing, or an
AssertionError that says which result or argument differs. Arguments are made with NumPy and
moved to the GPU as torch tensors; every array argument that the call must not write is
compared with its old value afterwards.

>>> small = Call("small", "softmax", "softmax", lambda rng: (rng.random((2, 3), "f4"),), softmax)
>>> check(package, small)  # doctest: +SKIP
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

Make = Callable[[np.random.Generator], tuple[Any, ...]]
Reference = Callable[..., Any]


@dataclass(frozen=True)
class Argument:
    """A result that is an argument's own object: ``Argument(1)``."""

    index: int


@dataclass(frozen=True)
class Call:
    """A function, its arguments and its reference."""

    id: str
    source: str
    function: str
    make: Make
    """Arguments in order: NumPy arrays, which become device arrays, and numbers."""
    results: Reference | None = None
    """(arguments) -> one expected result, or a tuple of them; Argument(i) where argument i's object comes back."""
    written: Reference | None = None
    """(arguments) -> {index of argument: its expected contents afterwards}."""
    rtol: float = 1e-5
    atol: float = 1e-6
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """stream=, grid= and so on."""
    capability: tuple[int, int] = (0, 0)
    """Least compute capability of the GPU."""


def arguments(call: Call) -> tuple[Any, ...]:
    """The call's arguments on the host; the same each time."""
    return call.make(np.random.default_rng(zlib.crc32(f"{call.source}.{call.function}.{call.id}".encode())))


def function(package: ModuleType, call: Call) -> Callable[..., Any]:
    """The function itself, ``package.<source>.<function>``."""
    return getattr(getattr(package, call.source), call.function)  # type: ignore[no-any-return]


def check(package: ModuleType, call: Call) -> None:
    """Calls the function on torch tensors and compares everything it may and may not have written."""
    host = arguments(call)
    device = tuple(to_torch(a) for a in host)
    got = function(package, call)(*device, **call.keywords)
    expected = call.results(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in host)) if call.results else None
    compare_results(call, got, expected, device)
    written: Mapping[int, Any] = call.written(*host) if call.written else {}
    for index, (before, after) in enumerate(zip(host, device, strict=True)):
        if isinstance(before, np.ndarray) and index in written:
            compare(f"argument {index}", to_numpy(after), written[index], call.rtol, call.atol)
        elif isinstance(before, np.ndarray):
            np.testing.assert_array_equal(to_numpy(after), before, err_msg=f"argument {index} was changed")


def compare_results(call: Call, got: Any, expected: Any, device: tuple[Any, ...]) -> None:
    """One object for one result, a tuple for several, None for none."""
    if expected is None:
        assert got is None, f"returned {type(got).__name__}, expected None"
        return
    if isinstance(expected, tuple):
        assert isinstance(got, tuple), f"returned {type(got).__name__}, expected a tuple"
        assert len(got) == len(expected), f"returned {len(got)} results, expected {len(expected)}"
    else:
        got, expected = (got,), (expected,)
    for index, (one, wanted) in enumerate(zip(got, expected, strict=True)):
        if isinstance(wanted, Argument):
            assert one is device[wanted.index], f"result {index} is not argument {wanted.index}'s object"
        elif isinstance(wanted, (bool, int, float)):
            assert type(one) is type(wanted), f"result {index} is a {type(one).__name__}"
            np.testing.assert_allclose(one, wanted, call.rtol, call.atol, err_msg=f"result {index}")
        else:
            compare(f"result {index}", to_numpy(one), wanted, call.rtol, call.atol)


def compare(what: str, got: Any, wanted: Any, rtol: float, atol: float) -> None:
    """Shape, element type and values; integers and booleans exactly."""
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what} has shape {got.shape}, expected {wanted.shape}"
    assert got.dtype == wanted.dtype, f"{what} is {got.dtype}, expected {wanted.dtype}"
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted, err_msg=what)
    elif wanted.dtype.kind == "c":
        np.testing.assert_allclose(got, wanted, rtol, atol, err_msg=what)
    else:
        np.testing.assert_allclose(got.astype("f8"), wanted.astype("f8"), rtol, atol, err_msg=what)


def to_torch(value: Any) -> Any:
    """A NumPy array as a CUDA tensor; anything else unchanged. ml_dtypes' types travel as bits."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    name = value.dtype.name
    if name in EXTENDED:
        bits = torch.from_numpy(np.ascontiguousarray(value).view(EXTENDED[name])).cuda()
        return bits.view(getattr(torch, name))
    return torch.from_numpy(value).cuda()


def to_numpy(tensor: Any) -> Any:
    """A CUDA tensor (or anything torch reads by DLPack) as a NumPy array, after the work on it is done.

    NumPy arrays are returned as they are: the same tables run on the CPU too.
    """
    if isinstance(tensor, np.ndarray):
        return tensor
    import torch

    tensor = tensor if isinstance(tensor, torch.Tensor) else torch.from_dlpack(tensor)
    name = str(tensor.dtype).removeprefix("torch.")
    if name in EXTENDED:
        import ml_dtypes

        # Rank 0 cannot be viewed with another item size, but these sizes agree.
        return tensor.view(getattr(torch, EXTENDED[name])).cpu().numpy().view(getattr(ml_dtypes, name))
    return tensor.cpu().numpy()


EXTENDED = {
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2fnuz": "uint8",
}
"""Element types NumPy lacks, under the name that torch and ml_dtypes share, and the integers they travel as."""
