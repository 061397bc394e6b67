"""Kernels across rows.

Columns            ``columns``, ``columnshape``, ``columnkernel``
Everything to one  ``totals``
Both               ``running`` (values)
Transposes         ``transposes``, ``transposecode``
"""

from __future__ import annotations
