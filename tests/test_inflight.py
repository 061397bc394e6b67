"""The remark about accumulators that are stored with their wgmma still in flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot import mlir
from aot.lower.gpumodule import inflight

WGMMA = Path(__file__).parent.parent / "examples" / "kernels" / "wgmma.mlir"
ZERO = "{transposeB, waitGroup = 0 : i64}"
STORE = "    nvgpu.warpgroup.mma.store"
WAIT = "    nvvm.wgmma.wait.group.sync.aligned {}\n"


def notes(text: str) -> tuple[str, ...]:
    with mlir.context() as ctx:
        return inflight.notes(mlir.parse(text.encode(), "wgmma.mlir", ctx))


@pytest.mark.parametrize(
    ("attributes", "before_store", "said"),
    [
        pytest.param(ZERO, "", "", id="nothing in flight"),
        pytest.param("{transposeB}", "", "(waitGroup = 1)", id="default"),
        pytest.param("{transposeB, waitGroup = 2 : i64}", "", "(waitGroup = 2)", id="two groups"),
        pytest.param("{transposeB}", WAIT.format(1), "(waitGroup = 1)", id="waits for too few"),
        pytest.param("{transposeB}", WAIT.format(0), "", id="waits by itself"),
    ],
)
def test_remark(attributes: str, before_store: str, said: str) -> None:
    text = WGMMA.read_text().replace(ZERO, attributes).replace(STORE, before_store + STORE)
    line = next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(STORE))
    found = notes(text)
    assert len(found) == bool(said)
    assert all(note.startswith(f"line {line}: ") and said in note for note in found)
