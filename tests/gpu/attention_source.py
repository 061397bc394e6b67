"""Sources of attention, which are the benchmark's, and what they compute.

>>> Attention(group=4, queries=1).text().count("func.func @f")                # doctest: +SKIP
1
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

_FILE = Path(__file__).parents[2] / "benchmarks" / "attention_sources.py"
_SPEC = importlib.util.spec_from_file_location("attention_sources", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
_sources = importlib.util.module_from_spec(_SPEC)
sys.modules["attention_sources"] = _sources
_SPEC.loader.exec_module(_sources)
Attention = _sources.Attention


def expected(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None) -> Any:
    """In float64."""
    q, k, v = (each.astype("f8") for each in (q, k, v))
    scores = np.einsum("bhgmd,bhnd->bhgmn", q, k) * _sources.SCALE
    if causal:
        queries, keys = scores.shape[-2:]
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None], scores, -np.inf)
    if mask is not None:
        scores = scores + mask[:, None, None, None]
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), v)
