"""Architectures: what is compiled for, and what runs where.

``arch`` has the one table of GPUs and the value type Target, ``archlist`` reads lists of them, ``archneed`` what single
kernels need, and ``cpuvariant`` is the table of processors.
"""

from __future__ import annotations
