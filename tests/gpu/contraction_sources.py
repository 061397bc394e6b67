"""Products of matrices of every element type: ``python contraction_sources.py FOLDER`` writes the sources.

A source per element type and layout of the right factor: ``f16_kn``, ``f16_nk``, … Its function ``any`` takes any
extents, ``rows`` any number of rows and weights of one size.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

N, K = 520, 4104
"""Of the functions whose weights have one size."""


@dataclass(frozen=True)
class Kind:
    """What is multiplied, and in what it is summed up."""

    factor: str
    result: str
    torch: str
    """What torch calls the factors' type."""
    most: int = 8
    """Up to it the type has every integer."""
    attributes: str = ""
    """Of the product."""
    other: tuple[str, str] = ("", "")
    """The right factor's type and torch's name for it, where it is another one."""

    @property
    def right(self) -> str:
        """The right factor's type."""
        return self.other[0] or self.factor


KINDS = {
    "f16": Kind("f16", "f32", "float16"),
    "bf16": Kind("bf16", "f32", "bfloat16"),
    "f32": Kind("f32", "f32", "float32"),
    "tf32": Kind("f32", "f32", "float32", attributes='{aot.precision = "tf32"} '),
    "f64": Kind("f64", "f64", "float64"),
    "i8": Kind("i8", "i32", "int8", 127),
    "e4m3": Kind("f8E4M3FN", "f32", "float8_e4m3fn"),
    "e5m2": Kind("f8E5M2", "f32", "float8_e5m2"),
    "e4m3_e5m2": Kind("f8E4M3FN", "f32", "float8_e4m3fn", other=("f8E5M2", "float8_e5m2")),
}
LAYOUTS = {"kn": ("(m, n, k) -> (k, n)", (1, 0)), "nk": ("(m, n, k) -> (n, k)", (0, 1))}
FUNCTION = """\
func.func @{name}(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
  %zero = arith.constant {zero} : {element}
  %clean = linalg.fill ins(%zero : {element}) outs(%c : {c}) -> {c}
  %product = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<{map}>,
      affine_map<(m, n, k) -> (m, n)>] {attributes}ins(%a, %b : {a}, {b}) outs(%clean : {c}) -> {c}
  return %product : {c}
}}
"""


def functions(kind: Kind, layout: str) -> str:
    """The text of a source."""
    text = ""
    map_, order = LAYOUTS[layout]
    for name, sizes in (("any", ("?", "?")), ("rows", (str(N), str(K)))):
        n, k = sizes
        right = [sizes[place] for place in order]
        text += FUNCTION.format(
            name=name,
            a=f"tensor<?x{k}x{kind.factor}>",
            b=f"tensor<{right[0]}x{right[1]}x{kind.right}>",
            c=f"tensor<?x{n}x{kind.result}>",
            element=kind.result,
            zero="0.0" if kind.result.startswith("f") else "0",
            map=map_,
            attributes=kind.attributes,
        )
    return text


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    settings = f'edition = 1\n\n[package]\nname = "{Path(folder).name}"\n'
    (Path(folder) / "aot.toml").write_text(settings)
    for (name, kind), layout in product(KINDS.items(), LAYOUTS):
        (Path(folder) / f"{name}_{layout}.mlir").write_text(functions(kind, layout))


if __name__ == "__main__":
    main(sys.argv[1])
