"""Kernels from tensor level against PyTorch, its compiler and Triton, side by side on a GPU.

    python benchmarks/kernels.py all --site FOLDER                  everything
    python benchmarks/kernels.py softmax sums --types f16           two families, one type
    python benchmarks/kernels.py rmsnorm --site OLD --site NEW      two builds of the package in one run

The package ``bench_kernels`` is built from ``benchmarks/kernels_write.py``; ``--site`` is a folder that holds it, or
as much of it as the families need. ``contractions_sm80`` and ``attention_sm80`` want packages that were built for
``compute_80`` alone.
First several processes compile the peers, then one times all contenders in turn (``kernels_timing.py``). Results of
ours are compared with float64 before they are timed; ``--check`` does only that, at awkward sizes, too. The lists of
cases are fixed (``GROUPS``). The last lines are means and what lies under its bar (``kernels_table.py``).
"""

from __future__ import annotations

import argparse
import importlib
import operator
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import attention_cases
import contractions_cases
import kernels_cases
import kernels_timing as timing
from kernels_case import Call, Case, Group
from kernels_table import Table, column

GROUPS = (
    kernels_cases.GROUP,
    *(contractions_cases.GROUP, contractions_cases.ON_SM_80),
    *(attention_cases.GROUP, attention_cases.ON_SM_80),
)
FAMILIES = {family: group for group in GROUPS for family in group.families}
KINDS = list(dict.fromkeys(kind for group in GROUPS for kind in group.kinds))
PEERS = list(dict.fromkeys(peer for group in GROUPS for peer in group.peers))
LARGE, SMALL = "large", "small"
PACKAGE = "bench_kernels"
DEVICE = "cuda"


def load(site: Path | None) -> Any:
    """The package of a folder; another one of the same name may be loaded already."""
    for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    if site is None:
        return importlib.import_module(PACKAGE)
    sys.path.insert(0, str(site.resolve()))
    try:
        package = importlib.import_module(PACKAGE)
    finally:
        sys.path.pop(0)
    if not Path(str(package.__file__)).is_relative_to(site.resolve()):
        raise SystemExit(f"{site}: holds no package {PACKAGE}")
    return package


def chosen(options: argparse.Namespace) -> list[tuple[bool, Case]]:
    """The cases of this run, large ones first, and whether they are large."""
    found = []
    for size in (LARGE, SMALL):
        for family in options.families if size in options.sizes else ():
            group = FAMILIES[family]
            listed = group.large if size == LARGE else group.small
            found += [(size == LARGE, case) for kind in kinds(options, group) for case in listed(family, kind)]
    return [(is_large, case) for is_large, case in found if is_wanted(options, case)]


def is_wanted(options: argparse.Namespace, case: Case) -> bool:
    """Whether the case was asked for, as far as its name says."""
    return not options.only or case.name in options.only


def kinds(options: argparse.Namespace, group: Group) -> list[str]:
    """The element types of a group that were asked for."""
    return [kind for kind in options.types if kind in group.kinds]


def ours(packages: dict[str, Any], case: Case) -> dict[str, Call]:
    """Our functions for a case, by column of the table."""
    return {
        column(site, variant): operator.attrgetter(name)(package)
        for site, package in packages.items()
        for variant, name in case.functions.items()
    }


def check(calls: dict[str, Call], case: Case) -> Iterator[str]:
    """Faults of our functions."""
    arrays = case.arrays(DEVICE)
    for name, call in calls.items():
        got = call(*arrays, case.destination(DEVICE))
        torch.cuda.synchronize()
        reason = case.wrong(arrays, got)
        if reason:
            yield f"{case.label} {name}: {reason}"


def reason(error: Exception) -> str:
    """In one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


def warm_up(options: argparse.Namespace, arguments: list[str]) -> None:
    """Compile the peers in processes of their own, which fill the compilers' caches."""
    count = max(1, min(len(chosen(options)), len(os.sched_getaffinity(0)) - 2))
    command = [sys.executable, __file__, *arguments, "--warm"]
    running = [
        subprocess.Popen([*command, f"{n}/{count}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for n in range(count)
    ]
    for each in running:
        words = each.communicate()[1].decode("utf-8", "replace").strip()
        if each.returncode:
            print(f"  a process that compiles peers failed: {words.splitlines()[-1] if words else each.returncode}")


def warm(options: argparse.Namespace) -> None:
    """What one such process does: call its share of the peers once."""
    number, count = map(int, options.warm.split("/"))
    for _, case in chosen(options)[number::count]:
        arrays = case.for_peers(case.arrays(DEVICE))
        for call in timing.peers(case, options.peers).values():
            call(*arrays)
        torch.cuda.synchronize()
        del arrays
        torch.cuda.empty_cache()


def run(options: argparse.Namespace, packages: dict[str, Any], begun: float) -> list[str]:
    """Check and time all cases; what went wrong."""
    table = Table(tuple(packages))
    faults: list[str] = []
    left: list[Case] = []
    title = ""
    for is_large, case in chosen(options):
        if options.budget and time.monotonic() - begun > options.budget:
            left.append(case)
            continue
        if title != (title := f"{case.family} {case.kind} {LARGE if is_large else SMALL}: us"):
            group = FAMILIES[case.family]
            print(table.head(title, group.name, [peer for peer in group.peers if peer in options.peers]))
        try:
            calls = ours(packages, case)
            faults += check(calls, case)
            print(table.row(case, timing.measure(case, calls, options.peers, DEVICE), is_large=is_large), flush=True)
        except Exception as error:
            faults.append(f"{case.label}: {reason(error)}")
        torch.cuda.empty_cache()
    print(*table.summary(), sep="\n")
    if left:
        print(f"NOT RUN, the time was over: {len(left)} cases, from {left[0].label} on")
    return faults if chosen(options) else ["nothing to time: no case of these families, types and names"]


def run_checks(options: argparse.Namespace, packages: dict[str, Any]) -> list[str]:
    """Only check, at awkward sizes, too."""
    asked = [(family, kind) for family in options.families for kind in kinds(options, FAMILIES[family])]
    listed = [case for family, kind in asked for case in FAMILIES[family].awkward(family, kind)]
    listed = [case for case in listed if is_wanted(options, case)]
    faults: list[str] = []
    count = 0
    for case in [*(case for _, case in chosen(options)), *listed]:
        try:
            calls = ours(packages, case)
            count += len(calls)
            faults += check(calls, case)
        except Exception as error:
            faults.append(f"{case.label}: {reason(error)}")
        torch.cuda.empty_cache()
    print(f"{count} functions called and compared")
    return faults if count else [*faults, "nothing to check: no case of these families, types and names"]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="+", choices=["all", *FAMILIES], metavar="FAMILY")
    parser.add_argument("--site", action="append", type=Path, help="a folder with the package; several are compared")
    parser.add_argument("--types", action="append", choices=KINDS)
    parser.add_argument("--only", action="append", metavar="NAME", help="only cases of this name")
    parser.add_argument("--sizes", action="append", choices=[LARGE, SMALL])
    parser.add_argument("--peers", action="append", choices=["none", *PEERS], help="only these")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="start no case after that time")
    parser.add_argument("--warm", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    everything = [family for family, group in FAMILIES.items() if not group.needs_own_package]
    options.families = everything if "all" in options.families else options.families
    options.types = options.types or KINDS
    options.sizes = options.sizes or [LARGE, SMALL]
    options.peers = tuple(name for name in options.peers or PEERS if name != "none")
    return options


def main(arguments: list[str]) -> int:
    begun = time.monotonic()
    options = parse(arguments)
    torch.manual_seed(1)
    timing.set_up_compiler()
    with torch.no_grad():
        if options.warm:
            warm(options)
            return 0
        sites = options.site or [None]
        labels = [chr(ord("a") + n) for n in range(len(sites))] if len(sites) > 1 else [""]
        packages = {label: load(site) for label, site in zip(labels, sites, strict=True)}
        compared = {peer for family in options.families for peer in FAMILIES[family].peers if peer in options.peers}
        if {"compile", "triton"} & compared and not options.check:
            warm_up(options, arguments)
            print(f"peers compiled after {time.monotonic() - begun:.0f} s")
        faults = run_checks(options, packages) if options.check else run(options, packages, begun)
    for fault in faults:
        print("WRONG", fault)
    print(f"{len(faults)} wrong; {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
