"""Products on tensor cores by ``mma.sync``: ``tensorcores`` picks tiles of ``mmasync``, and ``dmmachoice`` those of
``dmma``, which is for f64."""

from __future__ import annotations
