"""Fixtures that more than one test file uses."""

from __future__ import annotations

from fakecuda import core, core_library, fake_cuda

__all__ = ["core", "core_library", "fake_cuda"]
