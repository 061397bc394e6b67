"""The sources of the kernels' benchmark, which are no package: ``sources.softmax(shape, dtype)``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_FILE = Path(__file__).parents[1] / "benchmarks" / "kernels_sources.py"
_SPEC = importlib.util.spec_from_file_location("kernels_sources", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
sources = importlib.util.module_from_spec(_SPEC)
sys.modules["kernels_sources"] = sources
_SPEC.loader.exec_module(sources)
