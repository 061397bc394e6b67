"""Write the MLIR sources of ``benchmarks/kernels.py``.

    python benchmarks/kernels_write.py FOLDER                         all
    python benchmarks/kernels_write.py FOLDER softmax_ sums_f16       those whose names begin so
    aot build FOLDER --name bench_kernels --archs sm_80,sm_90

Every function takes a destination last.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import attention_sources
import contractions_sources
import kernels_sources

GROUPS = (kernels_sources.sources, contractions_sources.sources, attention_sources.sources)


def write(folder: Path, beginnings: tuple[str, ...] = ("",)) -> list[Path]:
    """Write the sources whose names begin so; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in (source for group in GROUPS for source in group() if source[0].startswith(beginnings)):
        paths.append(folder / f"{name}.mlir")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


if __name__ == "__main__":
    for path in write(Path(sys.argv[1]), tuple(sys.argv[2:]) or ("",)):
        print(path)
