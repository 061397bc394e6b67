"""The bar chart of ``aot bench --plot``.

In: Benched. Out: bytes of a PNG or SVG file: for each function its bytes per second and its operations per second.

>>> draw(benched, "svg")[:5]                                                     # doctest: +SKIP
b'<?xml'
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from aot.commands.bench import Benched, charted
from aot.errors import UsageError

FORMATS = ("png", "svg")
COLORS = {"cpu": "#4c78a8", "gpu": "#54a24b"}
INCHES_PER_BAR, LEAST_HEIGHT = 0.32, 2.0


def form_of(path: str) -> str:
    """Format by the file's ending; UsageError for another one, and without matplotlib."""
    form = Path(path).suffix.lstrip(".").lower()
    if form not in FORMATS:
        raise UsageError(f"--plot: '{path}' ends in neither .png nor .svg")
    _figures()
    return form


def draw(found: Benched, form: str) -> bytes:
    """The chart."""
    rows = charted(found.rows)
    if not rows:
        raise UsageError("--plot: no function has an estimate of its bytes: there is nothing to draw")
    height = max(LEAST_HEIGHT, INCHES_PER_BAR * len(rows) + 1)
    figure: Any = _figures().Figure(figsize=(10, height), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = [f"{row.function} ({row.place})" for row in rows]
    colors = [COLORS[row.place] for row in rows]
    left.barh(names, [row.gigabytes_s for row in rows], color=colors)
    right.barh(names, [row.gigaflops_s or 0 for row in rows], color=colors)
    for place, speed in (("cpu", found.copy_cpu), ("gpu", found.copy_gpu)):
        if speed is not None and any(row.place == place for row in rows):
            left.axvline(speed / 1e9, color=COLORS[place], linestyle="--", label=f"copy ({place})")
    left.legend()
    left.invert_yaxis()
    left.set_xlabel("GB/s")
    right.set_xlabel("GFLOP/s")
    figure.suptitle(f"{found.package} {found.version}")
    data = io.BytesIO()
    figure.savefig(data, format=form, metadata={"Date": None} if form == "svg" else None)
    return data.getvalue()


def _figures() -> Any:
    """matplotlib without a window system."""
    try:
        from matplotlib import figure
    except ImportError:
        raise UsageError(
            "--plot needs matplotlib, which is not installed", hint="install it with: python -m pip install 'aot[plot]'"
        ) from None
    return figure
