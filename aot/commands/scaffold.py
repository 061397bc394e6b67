"""``aot new NAME``: a folder of kernels to start from.

In: a name. Out: the files of a folder with one working source and an ``aot.toml``.

>>> sorted(files("demo"))
['aot.toml', 'scale.mlir']
"""

from __future__ import annotations

from pathlib import Path

from aot import fileset, naming
from aot.errors import UsageError

SOURCE = """\
// Multiplies every element by a factor: y[i, j] = x[i, j] * factor.
// Call it as {module}.scale.scale(x, 2.0), with x on the GPU; or with a NumPy array, if it was built for `host`, too.
func.func @scale(%x: tensor<?x?xf32>, %factor: f32) -> tensor<?x?xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %y = linalg.generic {{
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    }} ins(%x : tensor<?x?xf32>) outs(%empty : tensor<?x?xf32>) {{
  ^bb0(%in: f32, %out: f32):
    %product = arith.mulf %in, %factor : f32
    linalg.yield %product : f32
  }} -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}}
"""
SETTINGS = """\
edition = 1

[package]
name = "{name}"
version = "0.1.0"

[build]
archs = ["sm_80", "sm_90"]
"""


def files(name: str) -> dict[str, bytes]:
    """The content of a new folder for a package of this name."""
    module = naming.import_name(naming.distribution(name))
    texts = {"scale.mlir": SOURCE.format(module=module), "aot.toml": SETTINGS.format(name=name)}
    return {path: text.encode() for path, text in texts.items()}


def create(path: str) -> Path:
    """Writes a new folder at ``path``, whose last part names the package; an existing one is left alone."""
    folder = Path(path)
    if not path:
        raise UsageError("NAME is empty", hint="name the folder that is to be made")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"'{path}' already exists and is not an empty folder", hint="choose another name")
    try:
        content = files(naming.from_folder(folder.resolve().name))
    except UsageError as error:
        raise UsageError(error.message, hint="choose another name") from None
    fileset.write_tree(content, folder)
    return folder
