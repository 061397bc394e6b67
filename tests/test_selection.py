"""Which images a source gets."""

from __future__ import annotations

import pytest

from aot.errors import ConfigError
from aot.settings import selection
from aot.settings.config import SourceSettings
from aot.targets.arch import Target, target


def targets(text: str) -> list[Target]:
    return [target(name) for name in text.split()]


TABLE = [
    ("all", "sm_80 sm_90", None, None, False, "sm_80 sm_90", ""),
    ("automatic PTX", "sm_80 sm_90", None, None, True, "sm_80 sm_90 compute_90", ""),
    ("no PTX of letters", "sm_80 sm_90a", None, None, True, "sm_80 sm_90a compute_80", ""),
    ("letters only", "sm_90a", None, None, True, "sm_90a", ""),
    ("listed with a letter", "sm_80 sm_90", "sm_90a", None, True, "sm_90:sm_90a", "sm_80"),
    ("asked and listed", "sm_90 sm_90a", "sm_90a", None, False, "sm_90a", ""),
    ("both listed", "sm_90 sm_90a", "sm_90 sm_90a", None, False, "sm_90 sm_90a", ""),
    ("letter asked, plain listed", "sm_90a", "sm_90", None, False, "sm_90a", ""),
    ("nothing left", "sm_80", "sm_90a", None, True, "", "sm_80"),
    ("PTX of a letter", "sm_90a compute_90", "sm_90a", None, False, "sm_90a", "compute_90"),
    ("PTX of a plain one", "compute_90", "sm_90", None, False, "compute_90", ""),
    ("least", "sm_75 sm_80 sm_90", None, (8, 0), True, "sm_80 sm_90 compute_90", "sm_75"),
    ("least and PTX", "sm_80 compute_75", None, (8, 0), False, "sm_80", "compute_75"),
]


@pytest.mark.parametrize(
    ("asked", "listed", "least", "ptx", "expected", "skipped"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_select(
    asked: str, listed: str | None, least: tuple[int, int] | None, ptx: bool, expected: str, skipped: str
) -> None:
    allowed = targets(listed) if listed else None
    found = selection.select(targets(asked), allowed, least, automatic_ptx=ptx)
    words = [image if requested == image else f"{requested}:{image}" for requested, image in found.names()]
    assert " ".join(words) == expected
    assert " ".join(found.skipped) == skipped


SPECIALISED = [
    ("nothing needed", "sm_80 sm_90", "sm_80", "sm_80 sm_90"),
    ("by its letter", "sm_80 sm_90 compute_90", "sm_90a", "sm_80 sm_90:sm_90a compute_90"),
    ("asked for both", "sm_90 sm_90a", "sm_90a", "sm_90a"),
    ("not asked for", "sm_80", "sm_90a", "sm_80"),
    ("others would lose", "sm_100", "sm_100a", "sm_100"),
]


@pytest.mark.parametrize(
    ("asked", "needs", "expected"), [row[1:] for row in SPECIALISED], ids=[row[0] for row in SPECIALISED]
)
def test_images_by_the_needs_of_kernels(asked: str, needs: str, expected: str) -> None:
    found = selection.specialised(selection.select(targets(asked)), targets(needs))
    words = [image if requested == image else f"{requested}:{image}" for requested, image in found.names()]
    assert " ".join(words) == expected


@pytest.mark.parametrize("least", ["sm_90a", "sm_80,sm_90", "compute_80"])
def test_min_arch_is_one_plain_architecture(least: str) -> None:
    with pytest.raises(ConfigError, match="one plain architecture is needed"):
        selection.for_source(targets("sm_90"), SourceSettings(min_arch=least), "aot.toml:3", automatic_ptx=True)


def test_a_wrong_spelling_names_its_place() -> None:
    with pytest.raises(ConfigError, match=r"aot\.toml:3: unknown architecture 'sm_9'.*'sm_90'"):
        selection.for_source(targets("sm_90"), SourceSettings(archs=("sm_9",)), "aot.toml:3", automatic_ptx=True)
