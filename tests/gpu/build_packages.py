"""Builds every package that the GPU tests import: `python build_packages.py OUT [--archs LIST] [--upstream FOLDER]`.

In: the sources of this repository (and, with --upstream, a copy of LLVM's mlir/test/Integration).
Out: wheels in OUT, and JSON files that say what upstream's programs must print. A source that
does not build is reported and left out, so that the others can still be tested: exit code 1.

>>> main(["dist/gpu"])   # doctest: +SKIP
0
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
EXAMPLES = ROOT / "examples" / "kernels"
ARCHS = "sm_80,sm_90"
VARIANTS = {
    "ptx_kernels": 'archs = "compute_75"',
    "compressed_kernels": 'archs = "sm_90"\ncompress = "size"',
    "foreign_kernels": 'archs = "sm_80"\nptx = false',
}
"""Packages of two examples whose images differ: PTX only, compressed, none that an H200 runs."""
FOR_OTHERS = ("--c", "--tvm-ffi")
"""What tests/frameworks is built with: C programs and tvm-ffi call it, too."""
ATTENTIONS = {"attention_kernels": "sm_80,sm_90", "attention_ptx_kernels": "compute_80"}
"""Packages of attention: with Hopper's own kernels, and without them on any GPU."""


@dataclass
class Built:
    """What became of one folder."""

    folder: Path
    failures: dict[str, str] = field(default_factory=dict)
    """Source -> error text."""
    message: str = ""
    """Error of the build as a whole, when there is no wheel."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--archs", default=ARCHS)
    parser.add_argument("--upstream", type=Path, help="a copy of mlir/test/Integration")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    generated = work_folder(options.out) / "tensor_ops"
    _python(str(TESTS / "tensor_ops" / "ops_table.py"), str(generated))
    archs = ("--archs", options.archs)
    results = [
        build_folder(folder, options.out, *archs)
        for folder in (EXAMPLES, TESTS / "cases", TESTS / "hazards", generated)
    ]
    results.append(build_folder(TESTS / "frameworks", options.out, *archs, *FOR_OTHERS))
    for name, asked in ATTENTIONS.items():
        folder = work_folder(options.out) / name
        _python(str(TESTS / "gpu" / "attention_calls.py"), str(folder), name)
        results.append(build_folder(folder, options.out, "--archs", asked))
    ready = work_folder(options.out) / "ready_kernels"
    _python(str(TESTS / "gpu" / "ready_sources.py"), str(ready))
    with_settings = [*(variant(name, options.out) for name in VARIANTS), ready, TESTS / "gpu" / "launch_kernels"]
    results += [build_folder(folder, options.out) for folder in with_settings]
    for name, target in {"contraction_kernels": options.archs, "contraction_kernels_80": "compute_80"}.items():
        products = work_folder(options.out) / name
        _python(str(TESTS / "gpu" / "contraction_sources.py"), str(products))
        results.append(build_folder(products, options.out, "--archs", target))
    for built in results:
        print(f"{built.folder.name}: {len(built.failures)} sources failed")
        for source, text in built.failures.items():
            print(f"--- {source}\n{text}")
        if built.message:
            print(f"no wheel: {built.message}")
    failed = any(built.failures or built.message for built in results)
    for name, part in {"upstream_gpu": "GPU/CUDA", "upstream_cpu": "Dialect/Linalg/CPU"}.items():
        if options.upstream:
            done = _python(str(TESTS / "upstream" / "build.py"), str(options.upstream / part), str(options.out),
                           "--name", name, check=False)  # fmt: skip
            print((done.stdout + done.stderr).strip())
            failed = failed or done.returncode != 0
    return 1 if failed else 0


def variant(name: str, out: Path) -> Path:
    """A folder with two examples and the variant's settings."""
    folder = work_folder(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    for example in ("softmax.mlir", "vector_add.mlir"):
        shutil.copy(EXAMPLES / example, folder)
    settings = f'edition = 1\n\n[package]\nname = "{name}"\n\n[build]\n{VARIANTS[name]}\n'
    (folder / "aot.toml").write_text(settings)
    return folder


def build_folder(folder: Path, out: Path, *asked: str) -> Built:
    """One wheel of a folder; sources that fail are taken out and the rest is built again."""
    built = Built(folder)
    kept = _staged(folder, out)
    for _ in range(2):
        work = kept / "work"
        done = _python("-m", "aot", "build", str(kept / "src"), *asked, "--out", str(out),
                       "--work", str(work), "-q", check=False)  # fmt: skip
        if done.returncode == 0:
            break
        failures = _failures(work)
        built.failures.update(failures)
        built.message = "" if failures else done.stderr.strip()
        for source in failures:
            _take_out(kept / "src", source)
        if not failures:
            break
    else:
        built.message = done.stderr.strip()
    return built


def work_folder(out: Path) -> Path:
    """Beside OUT, so that OUT holds only what the GPU machine needs."""
    return out.with_name(f"{out.name}-work")


def _staged(folder: Path, out: Path) -> Path:
    """A copy of the folder that sources can be taken out of."""
    kept = work_folder(out) / "staged" / folder.parent.name / folder.name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept / "src")
    return kept


def _take_out(folder: Path, source: str) -> None:
    """Removes a source, and its settings: those of an unknown source are an error."""
    for file in folder.glob(f"{source}.mlir*"):
        file.unlink()
    settings = folder / "aot.toml"
    if settings.exists():
        section = rf"^\[source\.{re.escape(source)}\]\n(?:(?!\[).*\n)*"
        settings.write_text(re.sub(section, "", settings.read_text(), flags=re.MULTILINE))


def _failures(work: Path) -> dict[str, str]:
    """Source -> its error, from the error files that the build's workers leave."""
    sys.path.insert(0, str(ROOT))
    from aot.engine import job

    folders = sorted(file.parent for file in work.rglob(job.FAILURE))
    found = {folder.name: job.read_failure(folder) for folder in folders}
    return {
        name: failure.message if failure.kind == job.BUG else job.as_error(failure).text()
        for name, failure in found.items()
        if failure is not None
    }


def _python(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=check, env={**os.environ, "PYTHONPATH": path}
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
