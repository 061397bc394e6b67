"""Kernels across rows.

Columns            ``columns``, ``columnshape``, ``columnkernel``
Everything to one  ``totals``
Transposes         ``transposes``, ``transposecode``
"""

from __future__ import annotations
