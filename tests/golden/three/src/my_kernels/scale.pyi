# Made by aot 0.1.0.
from . import _Array, _Extents, _Stream

def scale(x: _Array | int | None, n: int, *, grid: _Extents = ..., block: _Extents = ..., shared: int = ..., cluster: _Extents | None = ..., cooperative: bool | None = ..., programmatic: bool | None = ..., priority: int | None = ..., stream: _Stream | None = ...) -> None:
    """x: memref<?x8xbf16, strided<[?, 1], offset: ?>>, may be written
    n: index
    Blocks are of (32, 1, 1) threads.
    """
