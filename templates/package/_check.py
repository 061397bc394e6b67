"""The answer of ``check()``: what this machine would run of this package.

In: the manifest, what the driver said about one device, and the processor's kind. Out: Report. Nothing is launched, no
context is made; a package without GPU code asks no driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FAMILIES = {(10, 0): ((10, 0), (10, 3)), (10, 1): ((10, 1), (11, 0)), (11, 0): ((10, 1), (11, 0)), (12, 0): ((12, 0), (12, 1))}
"""Capabilities that an ``f`` image of a capability runs on, where that is more than its own."""

VARIANTS = ("generic", "v2", "v3", "v4")
"""Kinds of processors, each with all that the ones before it have."""


@dataclass(frozen=True)
class Report:
    """True when everything in the package can run on the device; without GPU code: on the CPU."""

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
    loaded: dict[str, str] = field(default_factory=dict)
    """Namespace -> image that the driver took when it was loaded: ``sm_90``, ``compute_90 (JIT)``, or ``unknown``."""
    cpu: str | None = None
    """Kind of CPU code that calls with arrays in host memory run, such as ``v3``; None when the package has none for here."""
    threads: int | None = None
    """Threads that CPU code uses."""

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        where = f"device {self.device}, {self.name}" if self.name else "no usable GPU"
        if self.device is None and not self.problems:
            where = "no GPU code"
        lines = [f"{where}: {'ok' if self else 'cannot run everything'}"]
        lines += [f"  {name}: {image or 'no image'}{self._loaded(name)}" for name, image in self.images.items()]
        if self.cpu is not None:
            kind = self.cpu if self.cpu == "generic" else f"x86-64-{self.cpu}"
            lines.append(f"  CPU code: {kind}, {self.threads} thread{'' if self.threads == 1 else 's'}")
        return "\n".join([*lines, *(f"  problem: {problem}" for problem in self.problems)])

    def _loaded(self, name: str) -> str:
        return f", loaded: {self.loaded[name]}" if name in self.loaded else ""


def report(manifest: dict[str, Any], facts: dict[str, Any]) -> Report:
    """Judges the facts that the driver gave about a device."""
    capability, driver = facts.get("capability"), facts.get("driver")
    modules = [module for module in manifest["modules"] if module["images"]]
    images = {module["name"]: _choose(module["images"], capability) for module in modules} if capability else {}
    cpu = _cpu(manifest, facts)
    problems = [*_driver_problems(manifest, facts), *_image_problems(modules, images, capability), *_cpu_problems(manifest, cpu)]
    loaded = {name: _taken(manifest, name, number) for name, number in facts.get("loaded", {}).items()}
    return Report(
        facts.get("device"), facts.get("name", ""), capability, driver, images, tuple(problems), loaded, cpu, facts["threads"] if cpu else None
    )


def _cpu(manifest: dict[str, Any], facts: dict[str, Any]) -> str | None:
    """The newest variant that the package has and the processor can run."""
    built = {name for module in manifest["modules"] for names in module["cpu"].values() for name in names}
    here = facts.get("cpu", "none")
    if here not in VARIANTS:
        return None
    fits = [name for name in VARIANTS[: VARIANTS.index(here) + 1] if name in built and (name == "generic") == (here == "generic")]
    return fits[-1] if fits else None


def _cpu_problems(manifest: dict[str, Any], cpu: str | None) -> list[str]:
    if cpu is None and any(module["cpu"] for module in manifest["modules"]):
        return ["this processor is older than the package's CPU code is made for (x86-64-v2)"]
    return []


def _taken(manifest: dict[str, Any], name: str, number: int) -> str:
    """The image with this position in its source; the driver compiles PTX when it loads it."""
    images = next(module["images"] for module in manifest["modules"] if module["name"] == name)
    if not 0 <= number < len(images):
        return "unknown"
    return f"{images[number]['target']} (JIT)" if images[number]["kind"] == "ptx" else str(images[number]["target"])


def _driver_problems(manifest: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    if "error" in facts:
        return [facts["error"]]
    if "driver" not in facts:                                   # not asked: there is no GPU code
        return []
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
    return max(fits, key=_rank)["target"] if fits else None


def _rank(image: dict[str, Any]) -> tuple[bool, int, int, int]:
    major, minor, letter = _split(image["target"])
    return image["kind"] == "cubin", major, minor, ("", "f", "a").index(letter)


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
