"""Where a function runs: on the CPU with numpy arrays, or on the GPU with arrays in its memory.

In: a function and arguments as numpy arrays. Out: Outcome: results and arguments afterwards, as numpy arrays again.

>>> Cpu().call(package.softmax.softmax, signature, (x,)).results                 # doctest: +SKIP
(array([[0.5, 0.5]], dtype=float32),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from aot.verifying.cudamemory import Gpu
from aot.verifying.signature import Signature
from aot.verifying.values import numpy_dtype

CPU, GPU = "cpu", "gpu"


@dataclass(frozen=True)
class Outcome:
    """What one call gave."""

    results: tuple[Any, ...]
    arguments: tuple[Any, ...]
    """Afterwards; numbers as they were."""
    problem: str = ""
    """A result that is no argument though it should be."""


class Place(Protocol):
    """Somewhere to call."""

    name: str

    def runs(self, signature: Signature) -> bool:
        """Whether the function has code for here."""

    def load(self, signature: Signature, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments as the function takes them here."""

    def out(self, signature: Signature) -> tuple[Any, ...] | None:
        """Arrays for the results, where nothing else says that the call is to run here."""

    def read(self, value: Any, mlir: str) -> Any:
        """A result or an argument as a numpy array or a number."""

    def wait(self) -> None:
        """Until all work is done."""


class Cpu:
    """numpy arrays."""

    name = CPU

    def runs(self, signature: Signature) -> bool:
        return signature.chooses_cpu

    def load(self, signature: Signature, arguments: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(each.copy() if isinstance(each, np.ndarray) else each for each in arguments)

    def out(self, signature: Signature) -> tuple[Any, ...] | None:
        if signature.takes_arrays or not signature.gpu:
            return None
        return tuple(np.empty([each or 0 for each in made.shape], numpy_dtype(made.dtype)) for made in signature.made)

    def read(self, value: Any, mlir: str) -> Any:
        return np.asarray(value) if hasattr(value, "__array_interface__") else value

    def wait(self) -> None: ...


class Device:
    """Arrays in the memory of one GPU."""

    name = GPU

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def runs(self, signature: Signature) -> bool:
        return signature.gpu

    def load(self, signature: Signature, arguments: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            self.gpu.to_device(argument, parameter.dtype) if isinstance(argument, np.ndarray) else argument
            for argument, parameter in zip(arguments, signature.parameters, strict=True)
        )

    def out(self, signature: Signature) -> tuple[Any, ...] | None:
        return None

    def read(self, value: Any, mlir: str) -> Any:
        return self.gpu.to_host(value, numpy_dtype(mlir)) if hasattr(value, "__dlpack__") else value

    def wait(self) -> None:
        self.gpu.synchronize()


def bound(place: Place, function: Callable[..., Any], signature: Signature, loaded: Sequence[Any]) -> Callable[[], Any]:
    """The call with these arguments, of the code for this place."""
    out = place.out(signature)
    return partial(function, *loaded) if out is None else partial(function, *loaded, out=out)


def call(place: Place, function: Callable[..., Any], signature: Signature, arguments: Sequence[Any]) -> Outcome:
    """Calls once, and reads everything back."""
    loaded = place.load(signature, arguments)
    got = bound(place, function, signature, loaded)()
    place.wait()
    returned = () if not signature.results else got if isinstance(got, tuple) else (got,)
    problem = next(
        (
            f"result {number} is not the object of argument '{signature.parameters[index].name}'"
            for number, (value, index) in enumerate(zip(returned, signature.results, strict=True))
            if index is not None and value is not loaded[index]
        ),
        "",
    )
    results = tuple(place.read(value, mlir) for value, mlir in zip(returned, signature.result_dtypes, strict=True))
    after = tuple(
        place.read(value, parameter.dtype) if parameter.shape is not None else value
        for value, parameter in zip(loaded, signature.parameters, strict=True)
    )
    return Outcome(results, after, problem)
