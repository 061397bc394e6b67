"""Builds a folder of upstream's programs into one package: `python build.py FOLDER OUT [--name N] [--archs LIST]`.

In: FOLDER, such as a copy of mlir/test/Integration/GPU/CUDA. Out: in OUT, the wheel and
``<package>.json``, which tells run.py what to call and what must be printed; the sources are
compiled unchanged, one namespace per file. A program that does not build is left out of the
package and stands in the JSON with the reason.

>>> main(["CUDA", "out"])   # doctest: +SKIP
0
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from programs import Found, find, settings

sys.path.insert(0, str(Path(__file__).parent.parent / "gpu"))
from build_packages import Built, build_folder, work_folder


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", default="upstream_gpu")
    parser.add_argument("--archs", default="sm_90")
    options = parser.parse_args(arguments)
    found = find(options.folder)
    if not found.programs:
        print(f"no programs in {options.folder}", file=sys.stderr)
        return 2
    sources = work_folder(options.out) / options.name
    write_sources(found, sources, options.name)
    built = build_folder(sources, options.out, options.archs)
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / f"{options.name}.json"
    record.write_text(json.dumps(describe(found, built, options.name), indent=1) + "\n")
    print(f"{options.name}: {len(found.programs) - len(built.failures)} of {len(found.programs)} programs build")
    for name, text in built.failures.items():
        print(f"--- {name}\n{text}")
    if built.message:
        print(f"no wheel: {built.message}")
    return 1 if built.failures or built.message else 0


def write_sources(found: Found, folder: Path, package: str) -> None:
    """The programs under their new names, byte for byte, and an aot.toml."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for program in found.programs:
        (folder / f"{program.name}.mlir").write_text(program.text)
    (folder / "aot.toml").write_text(settings(package, found.programs))


def describe(found: Found, built: Built, package: str) -> dict[str, object]:
    """What run.py needs, without the sources."""
    programs = []
    for program in found.programs:
        entry = asdict(program)
        del entry["text"]
        programs.append({**entry, "failure": built.failures.get(program.name)})
    return {"package": package, "programs": programs, "others": found.others}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
