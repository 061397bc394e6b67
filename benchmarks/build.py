"""The build engine beside a shell loop and nvcc, and by itself: nothing to do, a change, a warm cache, many sources.

    python benchmarks/build.py [--sources 64] [--many 10,100,500] [--shell 6] [--archs LIST] [--only LIST]

Everything is printed as ratios of runs of this one call. Each run has its wall time and the processor time of all its
processes: on a machine that does other work, too, only the second says much; ``taskset -c 0,1`` makes two processors of
any machine. What is made is told beside each ratio, for the ways do not make the same (``build_peers.py``): with
``--schedules general`` (``general``) we make about what the shell loop makes from tensor level. The shell loop takes
``--shell`` of the sources, and is scaled up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import build_sources
from build_peers import KERNELS, Made, Nvcc, Shell
from build_run import Run, run, tool

HERE = Path(__file__).parent
PARTS = ("cold", "general", "shell", "kernels", "nvcc", "warm", "many")


@dataclass(frozen=True)
class Bench:
    """A scratch folder and what is built in it."""

    folder: Path
    archs: tuple[str, ...]
    jobs: int

    def build(self, sources: Path, name: str, *options: str) -> Run:
        """``aot build`` into a folder of its own."""
        places = [
            "--work",
            str(self.folder / name),
            "--out",
            str(self.folder / f"{name}-dist"),
            "--name",
            "bench_build",
        ]
        command = [sys.executable, "-m", "aot", "build", str(sources), "--archs", ",".join(self.archs), "--json"]
        environment = {**os.environ, "PYTHONPATH": _path(), "AOT_CACHE": str(self.folder / "cache")}
        # An installed aot is compiled to bytecode: without it each process takes a third of a second longer to start.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return run([*command, "-j", str(self.jobs), *places, *options], cwd=self.folder, env=environment)

    def made(self, name: str) -> Made:
        """What a build made for the first architecture, which not all kernels are for."""
        manifest = self.folder / name / "tree" / "src" / "bench_build" / "aot.json"
        modules = json.loads(manifest.read_text())["modules"]
        images = [kernel["usage"] for each in modules for kernel in each["kernels"]]
        usage = [each[self.archs[0]] for each in images if self.archs[0] in each]
        return Made(len(usage), sum(each["code_bytes"] for each in usage))

    def kernels(self, sources: Path, names: Sequence[str]) -> list[Path]:
        """Our kernels of some sources, as IR."""
        for name in names:
            self.build(sources / f"{name}.mlir", "dumped", "--dump", str(self.folder / "dump"), "--cache", "off")
        return [self._kernels_of(name) for name in names]

    def _kernels_of(self, name: str) -> Path:
        dumped = max((self.folder / "dump" / name).glob(f"*-{KERNELS}.mlir"))
        return dumped.rename(self.folder / f"{name}.mlir")


def _path() -> str:
    """Our aot, and where this Python finds what it needs."""
    return os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH", ""))))


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
    row(f"  made of a source for {bench.archs[0]}", bench.made("cold").text(len(names)), "and host code, PTX, a wheel")
    general = _general(bench, sources, len(names)) if "general" in options.only else None
    sample = names[: options.shell]
    scale = len(names) / max(1, len(sample))
    if "shell" in options.only:
        loop, made = Shell(bench.folder / "shell", bench.archs, "opt").run(
            [sources / f"{name}.mlir" for name in sample]
        )
        row(f"  shell loop / aot ({len(sample)} sources, scaled)", both(loop.times(scale), cold), ">= 4x")
        if general is not None:
            row("  shell loop / aot with general schedules", both(loop.times(scale), general), ">= 4x")
        row("    made", made.text(len(sample)), "")
    if "kernels" in options.only:
        loop, made = Shell(bench.folder / "kernels", bench.archs, "kernels").run(bench.kernels(sources, sample))
        row("  shell loop over our kernels / aot", both(loop.times(scale), cold), "")
        row("    made", made.text(len(sample)), "")
    if "nvcc" in options.only:
        nvcc = Nvcc(options.nvcc or tool("nvidia", "cu13/bin/nvcc"), bench.folder / "nvcc", bench.archs, bench.jobs)
        kinds = len(build_sources.KINDS)
        peer, made = nvcc.run([sources / f"{name}.cu" for name in names], kinds)
        row("  nvcc / aot", both(peer, cold), "> 1x")
        row("    made", made.text(kinds), "")
    if "warm" in options.only:
        warm = bench.build(sources, "warm")
        row("  cold / warm cache in a new folder", both(cold, warm), ">= 10x")


def _general(bench: Bench, sources: Path, count: int) -> Run:
    """All sources without fast schedules; nothing is in its cache, either."""
    run = bench.build(sources, "general", "--schedules", "general", "--cache", str(bench.folder / "general-cache"))
    row("  general schedules, cold", f"{run.wall:.1f} s, {run.cpu:.1f} s cpu", "")
    row("    made", bench.made("general").text(count), "and host code, PTX, a wheel")
    return run


def many(bench: Bench, options: argparse.Namespace) -> None:
    """A large package for one architecture: cost per source, memory, nothing to do, one change."""
    told, spent = [], []
    bench = Bench(bench.folder, ("sm_80",), options.many_jobs or bench.jobs)
    for count in options.many:
        sources = bench.folder / f"many{count}"
        build_sources.write(sources, count)
        cold = bench.build(sources, f"w{count}", "--cache", "off", "--no-ptx")
        told.append(_by_kind(cold))
        spent.append(cold.cpu)
        row(f"{count} sources for sm_80, cold, -j{bench.jobs}", f"{cold.wall:.1f} s, {cold.cpu:.1f} s cpu", "")
        row("  peak memory of the driver", f"{cold.peak:.0f} MB", "< 500 MB")
    row(
        f"  wall time of a job, {options.many[-1]} / {options.many[0]} sources (mean of kinds)",
        f"{told[-1] / told[0]:.2f}",
        "0.90 ... 1.10",
    )
    steps = zip(options.many, options.many[1:], spent, spent[1:], strict=False)
    marginal = ", ".join(f"{(after - before) / (more - count):.3f}" for count, more, before, after in steps)
    row(f"  cpu of one source more, {'-'.join(map(str, options.many))}", f"{marginal} s", "flat")
    again = bench.build(sources, f"w{count}", "--cache", "off", "--no-ptx")
    row("  nothing to do", f"{again.wall:.2f} s, {again.cpu:.2f} s cpu", "<= 1.0 s")
    row("  peak memory of the driver", f"{again.peak:.0f} MB", "< 500 MB")
    name, text, _ = build_sources.source(0, factor=3.0)
    (sources / f"{name}.mlir").write_text(text)
    touched = bench.build(sources, f"w{count}", "--cache", "off", "--no-ptx")
    own = max(each["seconds"] for each in json.loads(touched.said)["sources"])
    row("  one changed, beyond its own compilation", f"{touched.wall - own:.2f} s, {touched.cpu:.2f} s cpu", "<= 2.0 s")


def _by_kind(built: Run) -> float:
    """Wall time of a job in seconds: the mean of its kinds' means, for few sources are mixed otherwise than many."""
    kinds: dict[str, list[float]] = {}
    for each in json.loads(built.said)["sources"]:
        kinds.setdefault(each["name"].rpartition("_")[0], []).append(each["seconds"])
    return sum(sum(all_) / len(all_) for all_ in kinds.values()) / len(kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731 - two options are lists
    parser.add_argument("--sources", type=int, default=64, help="of the first bars")
    parser.add_argument("--many", type=lambda text: [int(each) for each in words(text)], default=[10, 100, 500])
    parser.add_argument("--shell", type=int, default=6, help="sources that the shell loop takes")
    parser.add_argument("--archs", type=words, default=["sm_80", "sm_86", "sm_90", "sm_100"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--many-jobs", type=int, help="jobs of --many, when there are more processors")
    parser.add_argument("--nvcc", help="path of another nvcc than the package's")
    parser.add_argument("--only", type=words, default=PARTS, help=", ".join(PARTS))
    options = parser.parse_args()
    parts: dict[str, Callable[[Bench, argparse.Namespace], None]] = {"cold": few, "many": many}
    with tempfile.TemporaryDirectory(prefix="aot-bench-") as folder:
        for name, part in parts.items():
            if name in options.only:
                part(Bench(Path(folder), tuple(options.archs), options.jobs), options)


if __name__ == "__main__":
    main()
