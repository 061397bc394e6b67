"""All tensor-level operations under test, and their sources: `python ops_table.py FOLDER` writes them.

One source per family (``unary.mlir``, ``products.mlir``, …) and an ``aot.toml`` that names the
package ``tensor_op_kernels``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from contraction_ops import CONTRACTIONS
from ops import Op
from pointwise_ops import POINTWISE
from structure_ops import MEMREF, STRUCTURE

OPS: list[Op] = [*POINTWISE, *CONTRACTIONS, *STRUCTURE]
SETTINGS = 'edition = 1\n\n[package]\nname = "tensor_op_kernels"\n'


def sources() -> dict[str, str]:
    """File name -> text."""
    files: dict[str, str] = {}
    for op in OPS:
        files[f"{op.family}.mlir"] = files.get(f"{op.family}.mlir", "") + op.mlir
    return {**files, "memrefs.mlir": MEMREF, "aot.toml": SETTINGS}


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in sources().items():
        (Path(folder) / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
