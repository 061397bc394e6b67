"""The process that calls a package: it may die of what it calls, and the parent finds out where.

In: the path of ``job.json``. Out: a report per function beside it.

    python -m aot.verifying.child FOLDER
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aot import codec, driver, fileset
from aot.errors import AotError, ToolMissing, UsageError
from aot.verifying import job
from aot.verifying.job import VerifyJob

if TYPE_CHECKING:
    from aot.verifying.checks import Setup
    from aot.verifying.signature import Signature


def main(folder: Path) -> None:
    """Does the job in ``folder``."""
    try:
        _work(codec.decode(fileset.read_file(folder / job.JOB), VerifyJob), folder)
    except AotError as error:
        job.write_failure(folder, error)


def _work(todo: VerifyJob, folder: Path) -> None:
    need_numpy()
    from aot.verifying import checks, reference
    from aot.verifying.cudamemory import GpuError
    from aot.verifying.signature import signatures

    package = imported(todo.path, todo.package)
    against = None if todo.against == "host" else reference.load(todo.against)
    chosen_places = tuple(each for each in places() if todo.where in ("", each.name))
    setup = checks.Setup(todo, package, chosen_places, against)
    known = {each.full_name: each for each in signatures(manifest(package))}
    chosen = [known[name] for name in todo.functions]
    number = todo.first
    try:
        if todo.mode == job.RACE:
            _race(setup, chosen, folder)
            return
        work = _WORKS[todo.mode](setup, chosen[0], folder)
        for number, signature in list(enumerate(chosen))[todo.first :]:
            job.started(folder, number)
            job.write(folder, f"{number}.json", work(number, signature))
    except GpuError as error:
        job.lost(folder, number, error.message)


Work = Callable[[int, "Signature"], object]


def _checker(setup: Setup, first: Signature, folder: Path) -> Work:
    from aot.verifying import checks

    return lambda number, signature: checks.check(setup, signature)


def _sizer(setup: Setup, first: Signature, folder: Path) -> Work:
    from aot.verifying import timed

    return lambda number, signature: timed.find_sizes(setup, signature)


def _timer(setup: Setup, first: Signature, folder: Path) -> Work:
    from aot.verifying import timed

    measured = timed.bandwidths(setup.places)
    job.write(folder, job.BANDWIDTHS, job.Bandwidths(measured.get("cpu"), measured.get("gpu")))
    sizes = setup.job.sizes
    return lambda number, signature: timed.time_function(setup, signature, sizes[number], measured)


def _tryer(setup: Setup, first: Signature, folder: Path) -> Work:
    from aot.verifying import race

    tried = race.tryer(setup, first, setup.job.sizes[0])
    return lambda number, signature: tried(signature)


def _race(setup: Setup, chosen: Sequence[Signature], folder: Path) -> None:
    from aot.verifying import race

    found = race.rounds(setup, chosen, setup.job.sizes[0], lambda number, step: job.take_turn(folder, number, step))
    job.write(folder, job.ROUNDS, job.Rounds(found))


_WORKS = {job.CHECK: _checker, job.SIZE: _sizer, job.TIME: _timer, job.TRY: _tryer}


def need_numpy() -> None:
    """ToolMissing when numpy is not here."""
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        raise ToolMissing(
            f"numpy cannot be imported: {error}", hint="install it with: python -m pip install numpy"
        ) from error


def imported(path: str, name: str) -> ModuleType:
    """The package, from a folder or from the environment."""
    if path:
        sys.path.insert(0, path)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"the package '{name}' cannot be imported: {error}") from error


def manifest(package: ModuleType) -> Any:
    """The package's own document."""
    return json.loads(fileset.read_file(Path(package.__path__[0]) / "aot.json"))


def places() -> tuple[Any, ...]:
    """Where functions can be called on this machine, the CPU first."""
    from aot.verifying.cudamemory import Gpu
    from aot.verifying.place import Cpu, Device

    return (Cpu(), Device(Gpu(0))) if driver.ask().devices else (Cpu(),)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
