"""Which of the packages with the code runs here.

In: the installed ones among PARTS, and what the driver says of a device. Out: one of them, chosen at the first use and
kept. A single one is taken unasked, so that calls on a CPU open no driver.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ._contents import DISTRIBUTION, PARTS, VERSION

_chosen: dict[int | None, ModuleType] = {}


def for_device(device: int | None = None) -> ModuleType:
    """The package with the code for a device; None: for the one that is current at the first use."""
    if device not in _chosen:
        found = dict(_installed())
        _chosen[device] = next(iter(found.values())) if len(found) == 1 and device is None else _fitting(found, device)
    return _chosen[device]


def check(device: int | None = None) -> Any:
    """The report of the package that would run on a device: the first without problems, else the newest."""
    reports = [module.check(device) for _, module in _installed()]
    return next((each for each in reports if each), reports[0])


def forward(namespace: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the module that stands for a namespace."""

    def found(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '{__package__}.{namespace}' has no attribute {name!r}")
        inner = getattr(for_device(), namespace, None)
        if inner is None:
            raise AttributeError(f"{for_device().__name__} has no '{namespace}': it is left out for these architectures")
        return getattr(inner, name)

    return found, lambda: [name for name in dir(getattr(for_device(), namespace, None)) if not name.startswith("_")]


def _installed() -> Iterator[tuple[str, ModuleType]]:
    """Extra and package, newest architectures first."""
    names = {extra: module for extra, (module, _) in PARTS.items() if find_spec(module) is not None}
    if not names:
        choices = "\n".join(f"  pip install '{DISTRIBUTION}[{extra}]'  has {archs}" for extra, (_, archs) in PARTS.items())
        raise ImportError(f"{__package__} has its code in packages of their own, and none is installed:\n{choices}")
    for extra, name in names.items():
        module = importlib.import_module(name)
        if module.__version__ != VERSION:
            raise ImportError(
                f"{name} is of version {module.__version__}, {__package__} of {VERSION}: "
                f"pip install --upgrade '{DISTRIBUTION}[{extra}]=={VERSION}'"
            )
        yield extra, module


def _fitting(found: dict[str, ModuleType], device: int | None) -> ModuleType:
    reports = {extra: module.check(device) for extra, module in found.items()}
    fits = next((found[extra] for extra, report in reports.items() if report), None)
    newest = next(iter(found.values()))
    capability = next(iter(reports.values())).capability
    if fits is not None or capability is None:                  # without a GPU the newest says what is missing, and runs on the CPU
        return fits or newest
    wanted = f"sm_{capability[0]}{capability[1]}"
    missing = ", ".join(f"'{DISTRIBUTION}[{extra}]' has {archs}" for extra, (_, archs) in PARTS.items() if extra not in found)
    raise RuntimeError(
        f"none of {', '.join(module.__name__ for module in found.values())} runs on this GPU ({wanted})"
        + (f"; not installed: {missing}" if missing else "")
    )
