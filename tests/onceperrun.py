"""What a run of the tests makes once, although pytest-xdist runs it with several workers.

In: a name, and how it is made in a folder. Out: the value, which the first worker makes and the others read.

>>> once(tmp_path_factory, "fake cuda", build_fake)                              # doctest: +SKIP
PosixPath('/tmp/pytest-of-me/pytest-3/fake cuda')
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from aot import fileset

Made = TypeVar("Made")


def shared(factory: pytest.TempPathFactory) -> Path:
    """The folder of the run, which all workers see."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """The value that ``make`` returns for a new folder; it is pickled, and tests must leave the folder as it is."""
    place = shared(factory)
    record = place / f"{name}.pickle"
    with fileset.lock(place / f"{name}.lock", lambda: None):
        if not record.is_file():
            folder = place / name
            folder.mkdir()
            fileset.write_file(record, pickle.dumps(make(folder)))
        return pickle.loads(record.read_bytes())  # type: ignore[no-any-return]
