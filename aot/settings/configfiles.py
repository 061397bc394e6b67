"""The settings of a folder of sources: ``aot.toml``, and ``aot.tuned.toml``, which `aot tune` writes.

In: a folder. Out: one Config. What the user says of a function wins over what was measured.

>>> load(Path("kernels")).source("softmax").wishes                               # doctest: +SKIP
(Wish(function='softmax', region=1, schedule='row', …),)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aot.errors import ConfigError
from aot.settings import config
from aot.settings.config import Config, SourceSettings
from aot.settings.wishes import Wish

TUNED_NAME = "aot.tuned.toml"
"""Schedules of functions, nothing else."""
_ONLY = "only `edition` and schedules belong here: tables [source.<name>.function.<function>]"
_INSTEAD = f"other settings belong in {config.FILE_NAME}"
FILES = (config.FILE_NAME, TUNED_NAME)


def place(folders: Sequence[Path]) -> Path | None:
    """The one folder of these that holds settings; None where none does."""
    found = [folder for folder in folders if any((folder / name).exists() for name in FILES)]
    if len(found) > 1:
        names = " and ".join(f"'{folder}'" for folder in found)
        raise ConfigError(f"two folders with settings for one build: {names}", hint="build two packages, or keep one")
    return found[0] if found else None


def load(folder: Path, *, with_tuned: bool = True) -> Config:
    """The config of a folder; the default one when it has neither file."""
    own = config.load(folder / config.FILE_NAME)
    tuned = config.load(folder / TUNED_NAME) if with_tuned else Config()
    nothing = SourceSettings()
    for section, settings in (("package", tuned.package), ("build", tuned.build)):
        if settings != type(settings)():
            raise ConfigError(f"{tuned.place(section)}: [{section}]: {_ONLY}", hint=_INSTEAD)
    for name, found in tuned.sources.items():
        if replace(found, wishes=()) != nothing:
            raise ConfigError(f"{tuned.place(f'source.{name}')}: [source.{name}]: {_ONLY}", hint=_INSTEAD)
    more = {name: _with_tuned(own.sources.get(name, nothing), found.wishes) for name, found in tuned.sources.items()}
    return replace(own, path=own.path or tuned.path, tuned=tuned.path, sources={**own.sources, **more})


def _with_tuned(own: SourceSettings, tuned: Sequence[Wish]) -> SourceSettings:
    """Settings with wishes for the functions of which the user says nothing."""
    said = {wish.function for wish in own.wishes}
    return replace(own, tuned=tuple(each for each in tuned if each.function not in said))
