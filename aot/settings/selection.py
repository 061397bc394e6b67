"""Which images each source gets: the request, narrowed by what ``aot.toml`` says about the source.

In: requested Targets, the source's ``archs`` and ``min-arch``. Out: (request, image) pairs and
what was left out.

A request is kept when the source lists an architecture of its capability. It is built with the
listed feature letter when it has none itself: a source with ``archs = ["sm_90a"]`` serves the
request ``sm_90`` by an sm_90a image. PTX is kept only where the plain architecture is listed.

>>> from aot.targets.arch import target
>>> select([target("sm_80"), target("sm_90")], [target("sm_90a")]).names()
(('sm_90', 'sm_90a'),)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.errors import ConfigError, UnknownArch
from aot.settings.config import SourceSettings
from aot.targets import arch, archlist, archneed
from aot.targets.arch import CUBIN, Capability, Target


@dataclass(frozen=True)
class Pick:
    """One image to build."""

    requested: Target
    image: Target


@dataclass(frozen=True)
class Selection:
    """The images of one source."""

    picks: tuple[Pick, ...]
    """Sorted by image; no image twice."""
    skipped: tuple[str, ...]
    """Requests that the source's settings leave out."""

    def names(self) -> tuple[tuple[str, str], ...]:
        """(requested, image) in canonical spelling."""
        return tuple((pick.requested.name, pick.image.name) for pick in self.picks)


def select(
    requested: Sequence[Target],
    allowed: Sequence[Target] | None = None,
    least: Capability | None = None,
    *,
    automatic_ptx: bool = False,
) -> Selection:
    """Narrows ``requested`` for one source; ``automatic_ptx`` adds the PTX of the highest plain architecture left."""
    picks: dict[Target, Pick] = {}
    skipped = []
    for request in requested:
        image = _image(request, allowed, least)
        if image is None:
            skipped.append(request.name)
        elif image not in picks or request == image:
            picks[image] = Pick(request, image)
    ptx = arch.default_ptx([image for image in picks if image.kind == CUBIN]) if automatic_ptx else None
    if ptx is not None:
        picks[ptx] = Pick(ptx, ptx)
    ordered = sorted(picks.values(), key=lambda pick: pick.image.sort_key())
    return Selection(tuple(ordered), tuple(skipped))


def for_source(requested: Sequence[Target], settings: SourceSettings, place: str, *, automatic_ptx: bool) -> Selection:
    """``select`` with the settings of ``aot.toml``; ``place`` is where they stand, for messages."""
    try:
        allowed = archlist.parse(settings.archs).targets if settings.archs else None
        least = archlist.plain(settings.min_arch).capability if settings.min_arch else None
    except UnknownArch as error:
        raise ConfigError(f"{place}: {error.message}", hint=error.hint) from error
    return select(requested, allowed, least, automatic_ptx=automatic_ptx)


def specialised(selection: Selection, needs: Sequence[Target]) -> Selection:
    """The same requests, with an image by its letter where kernels of the source need that and nobody loses by it.

    9.0 is the only capability of its major version: what an sm_90 image runs on, an sm_90a image runs on, too.
    """
    lettered = {each.capability: each for each in needs if each.letter and archneed.stands_alone(each.capability)}
    picks: dict[Target, Pick] = {}
    for pick in selection.picks:
        plain = pick.image.kind == CUBIN and not pick.image.letter
        image = lettered.get(pick.image.capability, pick.image) if plain else pick.image
        if image not in picks or pick.requested == image:
            picks[image] = Pick(pick.requested, image)
    ordered = sorted(picks.values(), key=lambda pick: pick.image.sort_key())
    return Selection(tuple(ordered), selection.skipped)


def _image(request: Target, allowed: Sequence[Target] | None, least: Capability | None) -> Target | None:
    """The image that serves a request; None when the source leaves it out."""
    if least is not None and request.capability < least:
        return None
    if allowed is None or request in allowed:
        return request
    same = [each for each in allowed if each.capability == request.capability]
    if any(not each.letter for each in same):
        return request
    lettered = [each for each in same if each.letter]
    return lettered[0] if lettered and request.kind == CUBIN and not request.letter else None
