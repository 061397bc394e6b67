"""What a call moves and computes, from the estimates in the manifest.

In: a signature with its ``cost`` and extents. Out: numbers; None where the manifest does not say.

A polynomial is a list of terms ``{"factor": 2, "dims": [[0, 0], [0, 1], [1, 1]]}``: a factor times extents, each as
(argument, axis).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aot.verifying.signature import Dim, Signature


def evaluate(terms: Sequence[Mapping[str, Any]], signature: Signature, extents: Mapping[Dim, int]) -> int:
    """The polynomial's value."""
    return sum(
        int(term["factor"]) * math.prod(_extent(signature, (dim[0], dim[1]), extents) for dim in term["dims"])
        for term in terms
    )


def estimate(signature: Signature, extents: Mapping[Dim, int], what: str) -> int | None:
    """``read``, ``written`` (bytes) or ``operations`` of one call."""
    if signature.cost is None or signature.cost.get(what) is None:
        return None
    return evaluate(signature.cost[what], signature, extents)


def reduction(signature: Signature, extents: Mapping[Dim, int], arguments: Sequence[Any]) -> int:
    """Length of the longest sum behind an element: from the manifest, else the most that the arguments allow."""
    told = estimate(signature, extents, "reduction")
    if told is not None:
        return max(1, told)
    return max([1, *(each.size for each in arguments if isinstance(each, np.ndarray))])


def _extent(signature: Signature, dim: Dim, extents: Mapping[Dim, int]) -> int:
    extent = (signature.parameters[dim[0]].shape or ())[dim[1]]
    return extents[dim] if extent is None else extent
