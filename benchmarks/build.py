"""The build engine beside a shell loop and nvcc, and by itself: nothing to do, a change, a warm cache, many sources.

    python benchmarks/build.py [--sources 64] [--many 500] [--shell 6] [--archs LIST] [--only cold,shell,nvcc,warm,many]

Everything is printed as ratios of runs of this one call. Each run has its wall time and the processor time of all its
processes: on a machine that does other work, too, only the second says much. The shell loop runs the steps one after
the other for each source and architecture, for ``--shell`` of the sources, and is scaled up. mlir-opt and
mlir-translate are not on PyPI: a Python process stands for each (``build_step.py``), less what Python and the import
take.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import build_sources

HERE = Path(__file__).parent
PARTS = ("cold", "shell", "nvcc", "warm", "many")


@dataclass(frozen=True)
class Run:
    """One run of some commands."""

    wall: float
    cpu: float
    peak: float = 0.0
    """Largest memory of the first process, in MB."""
    said: str = ""

    def times(self, factor: float) -> Run:
        return Run(self.wall * factor, self.cpu * factor)

    def less(self, other: Run) -> Run:
        return Run(self.wall - other.wall, self.cpu - other.cpu)


def run(*commands: Sequence[str], cwd: Path, env: dict[str, str] | None = None) -> Run:
    """Runs commands one after the other."""
    before, start, peak, said = os.times(), time.monotonic(), 0.0, ""
    for command in commands:
        child = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        marks: list[float] = []
        watch = threading.Thread(target=_watch, args=(child.pid, marks))
        watch.start()
        said, words = child.communicate()
        watch.join()
        if child.returncode:
            raise SystemExit(f"{' '.join(command)}\n{words}")
        peak = max([peak, *marks])
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Run(time.monotonic() - start, cpu, peak, said)


def _watch(pid: int, marks: list[float]) -> None:
    """Reads a process's high-water mark until it has ended."""
    try:
        while True:
            text = Path(f"/proc/{pid}/status").read_text()
            marks.append(int(text.partition("VmHWM:")[2].split()[0]) / 1024)
            time.sleep(0.1)
    except (OSError, IndexError):
        return


def tools(package: str, folder: str) -> Path:
    """The programs of an installed package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(place, folder) for place in spec.submodule_search_locations if Path(place, folder).is_dir())


@dataclass
class Bench:
    """A scratch folder and what is built in it."""

    folder: Path
    archs: str
    jobs: int

    def build(self, sources: Path, name: str, *options: str, archs: str | None = None) -> Run:
        """``aot build`` into a folder of its own."""
        places = [
            "--work",
            str(self.folder / name),
            "--out",
            str(self.folder / f"{name}-dist"),
            "--name",
            "bench_build",
        ]
        command = [sys.executable, "-m", "aot", "build", str(sources), "--archs", archs or self.archs, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "AOT_CACHE": str(self.folder / "cache")}
        return run([*command, "-j", str(self.jobs), *places, *options], cwd=self.folder, env=environment)

    def shell(self, sources: Path, names: Sequence[str]) -> Run:
        """The steps of each source and architecture as programs, one after the other."""
        step = [sys.executable, str(HERE / "build_step.py")]
        nothing = run([*step, "nothing"], cwd=self.folder)
        total = Run(0.0, 0.0)
        for name in names:
            images = []
            for arch in self.archs.split(","):
                total = _plus(total, self._one(step, sources, name, arch, nothing, images))
            merge = [str(tools("nvidia", "cu13/bin") / "fatbinary"), "--create", f"{name}.fatbin", "-64", *images]
            total = _plus(total, run(merge, cwd=self.folder))
        return total

    def _one(self, step: list[str], sources: Path, name: str, arch: str, nothing: Run, images: list[str]) -> Run:
        low, out = f"{name}-{arch}.mlir", f"{name}-{arch}"
        llc, ptxas = str(tools("llvm", "bin") / "llc"), str(tools("nvidia", "cu13/bin") / "ptxas")
        text = str(sources / f"{name}.mlir")
        total = run([*step, "opt", arch, text, low], [*step, "translate", arch, low, out], cwd=self.folder)
        total = total.less(nothing.times(2))
        for bitcode in sorted(self.folder.glob(f"{out}.*.bc")):
            ptx, cubin = f"{bitcode.stem}.ptx", f"{bitcode.stem}.cubin"
            isa = "+ptx86" if arch == "sm_100" else "+ptx80"
            translate = [llc, "-O3", f"-mcpu={arch}", f"-mattr={isa}", "-mtriple=nvptx64-nvidia-cuda", bitcode.name]
            total = _plus(
                total, run([*translate, "-o", ptx], [ptxas, "-arch", arch, ptx, "-o", cubin], cwd=self.folder)
            )
            images.append(f"--image3=kind=elf,sm={arch.removeprefix('sm_')},file={cubin}")
        return total

    def nvcc(self, sources: Path, names: Sequence[str]) -> Run:
        """nvcc on the same programs in CUDA, as many at a time as we run jobs."""
        codes = [word for arch in self.archs.split(",") for word in ("-gencode", _gencode(arch))]
        base = [str(tools("nvidia", "cu13/bin") / "nvcc"), "-O3", "-fatbin", *codes]
        script = f"printf '%s\\n' {' '.join(names)} | xargs -P {self.jobs} -I @ {' '.join(base)} {sources}/@.cu -o @.fb"
        return run(["sh", "-c", script], cwd=self.folder)


def _gencode(arch: str) -> str:
    return f"arch={arch.replace('sm', 'compute')},code={arch}"


def _plus(one: Run, other: Run) -> Run:
    return Run(one.wall + other.wall, one.cpu + other.cpu)


def row(name: str, value: str, bar: str) -> None:
    print(f"{name:<58} {value:>24}   {bar}", flush=True)


def both(above: Run, below: Run) -> str:
    """A ratio by wall time, and by processor time."""
    return f"{above.wall / below.wall:.2f}x ({above.cpu / below.cpu:.2f}x cpu)"


def few(bench: Bench, options: argparse.Namespace) -> None:
    """The sources of the first bar: cold, and the peers."""
    sources = bench.folder / "few"
    names = build_sources.write(sources, options.sources)
    cold = bench.build(sources, "cold")
    use = cold.cpu / cold.wall / bench.jobs
    row(f"{len(names)} sources, cold, -j{bench.jobs}", f"{cold.wall:.1f} s, {cold.cpu:.1f} s cpu", "")
    row("  processors in use", f"{use:.0%}", "> 85 %, on an idle machine")
    if "shell" in options.only:
        sample = names[: options.shell]
        loop = bench.shell(sources, sample).times(len(names) / len(sample))
        row(f"  shell loop / aot ({len(sample)} sources, scaled)", both(loop, cold), ">= 4x")
    if "nvcc" in options.only:
        row("  nvcc / aot", both(bench.nvcc(sources, names), cold), "> 1x")
    if "warm" in options.only:
        warm = bench.build(sources, "warm")
        row("  cold / warm cache in a new folder", both(cold, warm), ">= 10x")


def many(bench: Bench, options: argparse.Namespace) -> None:
    """A large package for one architecture: nothing to do, one change, memory, cost per source."""
    counts = (10, options.many)
    cost = {}
    for count in counts:
        sources = bench.folder / f"many{count}"
        build_sources.write(sources, count)
        cold = bench.build(sources, f"w{count}", "--cache", "off", "--no-ptx", archs="sm_80")
        spent = [each["seconds"] for each in json.loads(cold.said)["sources"]]
        cost[count] = sum(spent) / count
        row(f"{count} sources for sm_80, cold", f"{cold.wall:.1f} s, {cold.cpu:.1f} s cpu", "")
        row("  peak memory of the driver", f"{cold.peak:.0f} MB", "< 500 MB")
    row(
        f"  wall time of a job, {counts[1]} / {counts[0]} sources",
        f"{cost[counts[1]] / cost[counts[0]]:.2f}",
        "0.90 ... 1.10",
    )
    again = bench.build(sources, f"w{options.many}", "--cache", "off", "--no-ptx", archs="sm_80")
    row("  nothing to do", f"{again.wall:.2f} s, {again.cpu:.2f} s cpu", "<= 1.0 s")
    name, text, _ = build_sources.source(0, factor=3.0)
    (sources / f"{name}.mlir").write_text(text)
    touched = bench.build(sources, f"w{options.many}", "--cache", "off", "--no-ptx", archs="sm_80")
    own = max(each["seconds"] for each in json.loads(touched.said)["sources"])
    row("  one changed, beyond its own compilation", f"{touched.wall - own:.2f} s, {touched.cpu:.2f} s cpu", "<= 2.0 s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=64)
    parser.add_argument("--many", type=int, default=500)
    parser.add_argument("--shell", type=int, default=6)
    parser.add_argument("--archs", default="sm_80,sm_86,sm_90,sm_100")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS), type=lambda text: text.split(","), help=", ".join(PARTS))
    options = parser.parse_args()
    parts: dict[str, Callable[[Bench, argparse.Namespace], None]] = {"cold": few, "many": many}
    with tempfile.TemporaryDirectory(prefix="aot-bench-") as folder:
        for name, part in parts.items():
            if name in options.only:
                part(Bench(Path(folder), options.archs, options.jobs), options)


if __name__ == "__main__":
    main()
