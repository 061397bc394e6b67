# Made by aot 0.1.0.
from typing import Any

from . import softmax as softmax
from .softmax import forward as forward
from .softmax import inplace as inplace
from ._check import Report as _Report

_Array = Any
"""An array in host memory: of numpy, torch, JAX, or any with DLPack."""
_Stream = Any
"""A CUDA stream: an int, an object with __cuda_stream__, or torch's."""
_Extents = int | tuple[int, ...]
"""A number of blocks or threads, or up to three of them: (x, y, z)."""

__version__: str
__aot__: dict[str, Any]

class CudaError(RuntimeError):
    """An error of the CUDA driver."""

    code: int
    name: str

class DeviceArray:
    """A result in GPU memory that no framework asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ..., dl_device: Any = ..., copy: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class HostArray:
    """A result in host memory that no framework asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ..., dl_device: Any = ..., copy: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def check(device: int | None = ...) -> _Report:
    """Says how this machine runs the package, and why not; true when it can."""

def preload(device: int | None = ...) -> None:
    """Loads all kernels on a device now, so that no first call has to."""
