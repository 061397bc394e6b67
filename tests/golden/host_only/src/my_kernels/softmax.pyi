# Made by aot 0.1.0.
from . import _Array, _Extents, _Stream

def forward(x: _Array, axis: int, *, out: _Array | tuple[_Array | None, ...] | None = ...) -> _Array:
    """Softmax of each row, "numerically stable".
    Rows may be empty: 0 x 128 \\ any.

    x: tensor<?x128xf32>
    axis: i32
    Returns tensor<?x128xf32>.
    Runs on the CPU.
    """

def inplace(out: _Array) -> _Array:
    """out: tensor<?x128xf32>, written and returned
    Returns out.
    Runs on the CPU.
    """
