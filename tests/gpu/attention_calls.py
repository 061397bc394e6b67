"""Attention on a GPU: its sources, and what they compute.

    python tests/gpu/attention_calls.py FOLDER NAME        writes the sources of a package of that name

The functions are those of ``benchmarks/attention_sources.py``, with dynamic extents.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attention_source import Attention

SOURCES = {
    "full": Attention(depth=128, width=128),
    "causal": Attention("bf16", depth=64, width=64, mask="causal"),
    "half": Attention(depth=64, width=64, mask="causal-half"),
    "masked": Attention(depth=64, width=64, mask="array"),
    "both": Attention(depth=128, width=128, mask="causal-array"),
    "odd": Attention(depth=80, width=48),
    "near": Attention(depth=120, width=72, mask="window", window=200),
    "below": Attention("bf16", depth=80, width=64, turned=True),
}
SHAPES = ((1, 1, 4, 1, 1), (2, 3, 4, 1, 8192), (1, 2, 4, 3, 1111), (1, 2, 1, 77, 77), (2, 2, 4, 129, 129))
SHAPES += ((1, 1, 2, 1000, 1000), (1, 2, 1, 2050, 2050), (1, 2, 2, 300, 555), (1, 2, 3, 200, 328))
"""Batch, heads of keys, heads of queries for each, queries, keys."""


def write(folder: Path, name: str) -> None:
    """Write the sources of a package."""
    folder.mkdir(parents=True, exist_ok=True)
    for source, attention in SOURCES.items():
        (folder / f"{source}.mlir").write_text(attention.text())
    (folder / "aot.toml").write_text(f'edition = 1\n\n[package]\nname = "{name}"\n')


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
