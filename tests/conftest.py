"""Fixtures that more than one test file uses."""

from __future__ import annotations

import os

import pytest
from builtpackage import built
from fakecuda import core, core_library, fake_cuda
from onceperrun import shared

# Until the run has a folder: what earlier builds of this user have left is not for tests.
os.environ["AOT_CACHE"] = "off"

__all__ = ["built", "core", "core_library", "fake_cuda"]


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests must not meet what earlier builds of this user have left; what one test compiled serves the others."""
    os.environ["AOT_CACHE"] = str(shared(tmp_path_factory) / "cache")


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of building itself: everything is compiled."""
    monkeypatch.setenv("AOT_CACHE", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the trees in tests/golden")
