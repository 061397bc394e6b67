# Made by aot 0.1.0.
from . import _Array, _Extents, _Stream

def alloc(*, stream: _Stream | None = ...) -> None:
    """Returns nothing.
    Waits for the GPU.
    """
