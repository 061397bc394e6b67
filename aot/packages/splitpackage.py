"""The small package in front of packages that are split by architecture: path -> bytes. Nothing is written here.

In: SplitSpec, files of the first part's tree, the files of ``templates/``. Out: the tree of a package without compiled
code, which takes the part that fits the device, and whose extras (``pip install 'kernels[sm9]'``) install parts.

>>> render(spec, read_templates())["src/kernels/__init__.py"]                 # doctest: +SKIP
b'# Made by aot ...'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from aot import naming
from aot.fileset import FileSet
from aot.packages.package import OWN_NAMES, environment

_STATIC = {"split/_part.py": "_part.py", "package/_check.py": "_check.py"}
_RENDERED = {
    "split/pyproject.toml.in": "pyproject.toml",
    "split/README.md.in": "README.md",
    "split/contents.py.in": "src/{name}/_contents.py",
    "split/init.py.in": "src/{name}/__init__.py",
    "__init__.pyi.in": "src/{name}/__init__.pyi",
}


@dataclass(frozen=True)
class Part:
    """One package with code."""

    extra: str
    """``sm9``."""
    module: str
    """Import name."""
    distribution: str
    archs: tuple[str, ...]
    """What it has code for."""


@dataclass(frozen=True)
class SplitSpec:
    """What the package in front is made of."""

    name: str
    distribution: str
    version: str
    generator: str
    """Version of aot."""
    description: str
    license: str
    parts: tuple[Part, ...]
    """Newest architectures first."""
    namespaces: Mapping[str, Sequence[str]]
    """Namespace -> its functions, of all parts."""
    stubs: Mapping[str, bytes]
    """Namespace -> its stub."""
    frameworks: tuple[str, ...]
    """Modules of the parts that are imported on demand: ``torch``."""
    cpu: bool


def render(spec: SplitSpec, templates: FileSet) -> dict[str, bytes]:
    """Every file of the tree."""
    made, folder = environment(templates), f"src/{spec.name}"
    context = _context(spec)
    files = {f"{folder}/{path}": templates[name] for name, path in _STATIC.items()}
    for name, path in _RENDERED.items():
        files[path.format(name=spec.name)] = made.get_template(name).render(context).encode("utf-8")
    for name in spec.namespaces:
        module = made.get_template("split/namespace.py.in").render(context, namespace=name)
        files |= {f"{folder}/{name}.py": module.encode("utf-8"), f"{folder}/{name}.pyi": spec.stubs[name]}
    for name in spec.frameworks:
        module = made.get_template("split/framework.py.in").render(context, module=name)
        files[f"{folder}/{name}.py"] = module.encode("utf-8")
    files[f"{folder}/py.typed"] = b""
    return files


def _context(spec: SplitSpec) -> dict[str, object]:
    names = sorted(spec.namespaces)
    top_level = naming.top_level(spec.namespaces)
    functions = [name for name, _ in top_level]
    forwarded = {*OWN_NAMES, "__aot__", *functions} - {"check"}
    return {
        **vars(spec),
        # As templates/package has it.
        "spec": SimpleNamespace(top_level=top_level),
        "sources": [SimpleNamespace(name=name) for name in names],
        "gpu": True,
        "description": spec.description or naming.description(names, gpu_only=not spec.cpu),
        "namespaces": names,
        "forwarded": sorted(forwarded),
        "public": sorted({*OWN_NAMES, "for_device", *names, *functions}),
    }
