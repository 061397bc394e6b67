"""Fixtures that more than one test file uses."""

from __future__ import annotations

import os

import pytest
from builtpackage import built
from fakecuda import core, core_library, fake_cuda

# Tests must not meet what earlier builds of this user have left.
os.environ["AOT_CACHE"] = "off"

__all__ = ["built", "core", "core_library", "fake_cuda"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the trees in tests/golden")
