"""Fixtures that more than one test file uses."""

from __future__ import annotations

from builtpackage import built
from fakecuda import core, core_library, fake_cuda

__all__ = ["built", "core", "core_library", "fake_cuda"]
