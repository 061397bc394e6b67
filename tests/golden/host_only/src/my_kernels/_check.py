"""The answer of ``check()``: what a GPU and its driver would run of this package.

In: the manifest, and what the driver said about one device. Out: Report. Nothing is launched, no context is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FAMILIES = {(10, 0): ((10, 0), (10, 3)), (10, 3): ((10, 3),), (12, 0): ((12, 0), (12, 1)), (12, 1): ((12, 1),)}
"""Capabilities that an ``f`` image of a capability runs on, where that is more than its own."""


@dataclass(frozen=True)
class Report:
    """True when everything in the package can run on the device."""

    device: int | None
    """Index of the GPU; None when there is none."""
    name: str
    """Of the GPU."""
    capability: tuple[int, int] | None
    """Compute capability of the GPU."""
    driver: int | None
    """CUDA version that the driver supports, 13000 for 13.0; None without a driver."""
    images: dict[str, str | None]
    """Namespace -> target of the image that the driver will take, None where none fits."""
    problems: tuple[str, ...]
    """What is in the way; empty when nothing is."""

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        where = f"device {self.device}, {self.name}" if self.name else "no usable GPU"
        lines = [f"{where}: {'ok' if self else 'cannot run everything'}"]
        lines += [f"  {name}: {image or 'no image'}" for name, image in self.images.items()]
        return "\n".join([*lines, *(f"  problem: {problem}" for problem in self.problems)])


def report(manifest: dict[str, Any], facts: dict[str, Any]) -> Report:
    """Judges the facts that the driver gave about a device."""
    capability, driver = facts.get("capability"), facts.get("driver")
    modules = [module for module in manifest["modules"] if module["images"]]
    images = {module["name"]: _choose(module["images"], capability) for module in modules} if capability else {}
    problems = [*_driver_problems(manifest, facts), *_image_problems(modules, images, capability)]
    return Report(facts.get("device"), facts.get("name", ""), capability, driver, images, tuple(problems))


def _driver_problems(manifest: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    if "error" in facts:
        return [facts["error"]]
    if "capability" not in facts:
        return [f"there is no CUDA device {facts['device']}: this machine has {facts['devices']}"]
    needed = manifest["toolchain"]["min_driver_cuda"]
    if facts["driver"] < needed:
        has, wants = _version(facts["driver"]), _version(needed)
        return [f"the driver supports CUDA {has}, the package needs {wants}: update the driver"]
    return []


def _image_problems(modules: list[dict[str, Any]], images: dict[str, str | None], capability: tuple[int, int] | None) -> list[str]:
    if capability is None:
        return []
    return [
        f"{module['name']}: no image for compute capability {capability[0]}.{capability[1]}; the package has "
        + ", ".join(image["target"] for image in module["images"])
        for module in modules
        if images[module["name"]] is None
    ]


def _choose(images: list[dict[str, Any]], capability: tuple[int, int]) -> str | None:
    """As the driver does: the closest cubin, features of the exact capability first; PTX only when no cubin fits."""
    fits = [image for image in images if _runs(image, capability)]
    ranked = sorted(fits, key=lambda image: (image["kind"] == "cubin", *_split(image["target"])))
    return ranked[-1]["target"] if ranked else None


def _runs(image: dict[str, Any], capability: tuple[int, int]) -> bool:
    major, minor, letter = _split(image["target"])
    if letter == "a":
        return (major, minor) == capability
    if letter == "f":
        return capability in FAMILIES.get((major, minor), ((major, minor),))
    if image["kind"] == "ptx":
        return (major, minor) <= capability
    return major == capability[0] and minor <= capability[1]


def _split(target: str) -> tuple[int, int, str]:
    """``sm_90a`` -> (9, 0, 'a')."""
    digits = target.partition("_")[2]
    letter = digits[-1] if digits[-1].isalpha() else ""
    number = int(digits.rstrip("af"))
    return number // 10, number % 10, letter


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
