"""What a package offers to call: its functions, read from its manifest.

In: the document ``aot.json``. Out: Signature for each function and each kernel that has a default launch size.

>>> signatures(manifest)[0].text({})                                             # doctest: +SKIP
'softmax.softmax(x[x.0,x.1])'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Dim = tuple[int, int]
"""A dynamic dimension: (number of the argument, axis)."""

TENSOR = "tensor"
DESTINATION, REF, SCALAR = "destination", "ref", "scalar"


@dataclass(frozen=True)
class Parameter:
    """One argument."""

    name: str
    dtype: str
    """MLIR's spelling."""
    shape: tuple[int | None, ...] | None
    """None for a number."""
    role: str

    @property
    def written(self) -> bool:
        """Whether the call may write it."""
        return self.shape is not None and self.role in (DESTINATION, REF)


@dataclass(frozen=True)
class Made:
    """A result that is a new array."""

    dtype: str
    """MLIR's spelling."""
    shape: tuple[int | None, ...]
    """None for an extent that only a call knows."""


@dataclass(frozen=True)
class Signature:
    """One function, or one kernel."""

    source: str
    name: str
    level: str
    gpu: bool
    cpu: bool
    parameters: tuple[Parameter, ...]
    results: tuple[int | None, ...]
    """For each result the number of the argument that is returned, or None."""
    result_dtypes: tuple[str, ...]
    cost: Mapping[str, Any] | None = None
    """Estimate of bytes and operations, as the manifest has it."""
    made: tuple[Made, ...] = ()
    checks_extents: bool = False
    """Whether a call with extents that do not go together is refused, so that trying them is safe."""

    @property
    def full_name(self) -> str:
        """``softmax.softmax``."""
        return f"{self.source}.{self.name}"

    @property
    def takes_arrays(self) -> bool:
        """Whether a call's arguments say where it runs."""
        return any(parameter.shape is not None for parameter in self.parameters)

    @property
    def chooses_cpu(self) -> bool:
        """Whether a call can ask for the CPU code: by arrays, by ``out=`` of known shapes, or as there is no other."""
        known = bool(self.made) and all(extent is not None for each in self.made for extent in each.shape)
        return self.cpu and (self.takes_arrays or known or not self.gpu)

    @property
    def no_cpu(self) -> str:
        """Why a call cannot ask for CPU code, where it cannot."""
        return "a call without arrays runs on a GPU" if self.cpu else "it has no CPU code"

    def dims(self) -> tuple[Dim, ...]:
        """All dynamic dimensions, in order."""
        return tuple(
            (number, axis)
            for number, parameter in enumerate(self.parameters)
            for axis, extent in enumerate(parameter.shape or ())
            if extent is None
        )

    def dim_name(self, dim: Dim) -> str:
        """``x.0``."""
        return f"{self.parameters[dim[0]].name}.{dim[1]}"

    def text(self, letters: Mapping[Dim, str]) -> str:
        """The call with a letter for each dynamic dimension: ``matmul.matmul(a[m,n], b[n,k])``."""
        words = []
        for number, parameter in enumerate(self.parameters):
            if parameter.shape is None:
                words.append(parameter.name)
                continue
            extents = [
                letters.get((number, axis), self.dim_name((number, axis))) if extent is None else str(extent)
                for axis, extent in enumerate(parameter.shape)
            ]
            words.append(f"{parameter.name}[{','.join(extents)}]")
        return f"{self.full_name}({', '.join(words)})"


def signatures(manifest: Mapping[str, Any]) -> tuple[Signature, ...]:
    """Everything that can be called without more than its arguments, in the manifest's order."""
    found = []
    for module in manifest["modules"]:
        found += [_function(module["name"], function) for function in module["functions"]]
        found += [
            _kernel(module["name"], kernel)
            for kernel in module["kernels"]
            if kernel["callable"] and kernel["grid"] is not None and kernel["block"] is not None
        ]
    return tuple(found)


def _function(source: str, function: Mapping[str, Any]) -> Signature:
    return Signature(
        source=source,
        name=function["name"],
        level=function["level"],
        gpu=function.get("gpu", True),
        cpu=function.get("cpu", False),
        parameters=_parameters(function["args"]),
        results=tuple(result["argument"] for result in function["results"]),
        result_dtypes=tuple(result["dtype"] for result in function["results"]),
        cost=function.get("cost"),
        checks_extents=function.get("checked", False),
        made=tuple(
            Made(result["dtype"], tuple(result["shape"]))
            for result in function["results"]
            if result["argument"] is None and result["kind"] != SCALAR
        ),
    )


def _kernel(source: str, kernel: Mapping[str, Any]) -> Signature:
    return Signature(source, kernel["name"], "kernel", True, False, _parameters(kernel["params"]), (), ())


def _parameters(arguments: Sequence[Mapping[str, Any]]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            name=each["name"],
            dtype=each["dtype"],
            shape=None if each["kind"] == SCALAR else tuple(each["shape"]),
            role=each["role"],
        )
        for each in arguments
    )
