"""Instructions of one call, counted without a GPU: generated package on the tests' stand-in for the driver.

    python benchmarks/callpath.py [--site FOLDER] [--record]

Builds the package ``call_bench`` from ``benchmarks/call_kernels`` (or takes it from ``--site``), calls its functions
under ``valgrind --tool=callgrind``, and prints the instructions of one call: in the extension, and in all (the
interpreter, the extension, the stand-in's few). Beside them stands what ``callpath.json`` says they were; ``--record``
writes it anew. Counts do not depend on what else the machine does, but on the compiler and on Python.

Needs valgrind with its headers, a C compiler and Python's headers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RECORD = HERE / "callpath.json"
CALLS = 200
ROWS = {
    "0 arrays": "launches.arrays0()",
    "1 array": "tensors.arrays1(a)",
    "2 arrays": "tensors.arrays2(a, b)",
    "4 arrays": "tensors.arrays4(a, b, c, d)",
    "8 arrays": "tensors.arrays8(a, b, c, d, e, f, g, h)",
    "4 arrays, 2 scalars": "tensors.arrays4_scalars2(a, b, c, d, 1.5, 2.5)",
    "1 array, result made": "tensors.made(a)",
    "2 arrays, out=": "tensors.made(a, out=b)",
    "2 arrays, grid=": "kernels.kernel2(a, b, grid=1, block=256)",
    "8 arrays, grid=": "kernels.kernel8(a, b, c, d, e, f, g, h, grid=1, block=256)",
}


def child() -> None:
    """Runs under valgrind: each row's calls between two marks."""
    import call_bench as package
    import callpath_arrays as arrays

    names = {name: arrays.Array(256) for name in "abcdefgh"}
    names |= {name: getattr(package, name) for name in ("launches", "tensors", "kernels")}
    code = "def row(count):\n for _ in count: {text}\n"
    for title, text in ROWS.items():
        exec(code.format(text=text), names)
        names["row"](itertools.repeat(None, 20))
        count = itertools.repeat(None, CALLS)
        arrays.measure_begin()
        names["row"](count)
        arrays.measure_end(title)


def counts(folder: Path, site: Path) -> dict[str, dict[str, float]]:
    """Instructions of one call by row: ``extension`` and ``all``."""
    paths = [str(HERE), str(folder), str(site)]
    environment = {**os.environ, "PYTHONPATH": ":".join(paths), "LD_LIBRARY_PATH": str(folder), "PYTHONHASHSEED": "0"}
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder / 'counts'}"]
    command += [sys.executable, "-c", "import callpath; callpath.child()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found = {}
    for path in folder.glob("counts.*"):
        text = path.read_text(encoding="utf-8")
        title = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        if title:
            found[title[1]] = by_object(text)
    return {title: found[title] for title in ROWS}


def by_object(text: str) -> dict[str, float]:
    """Sums up the lines ``<place> <instructions>`` of callgrind's format; the one behind ``calls=`` is not its own."""
    names: dict[str, str] = {}
    total = ours = 0
    own, called = False, False
    for line in text.splitlines():
        match = re.match(r"(c?)ob=(\(\d+\))(?: (.*))?$", line)
        if match:
            names.setdefault(match[2], match[3])
            own = "_call_bench" in names[match[2]] if not match[1] else own
        elif line.startswith("calls="):
            called = True
        elif re.match(r"[+*\-\d]", line):
            number = 0 if called else int(line.split()[1])
            total, ours, called = total + number, ours + number * own, False
    return {"extension": round(ours / CALLS, 1), "all": round(total / CALLS, 1)}


def prepare(folder: Path) -> None:
    """The stand-in for libcuda and the arrays."""
    include = sysconfig.get_paths()["include"]
    runtime = ROOT / "templates" / "runtime"
    shared = ["cc", "-O2", "-shared", "-fPIC", "-pthread", f"-I{runtime}", f"-I{include}"]
    fakes = sorted((ROOT / "tests" / "fake_cuda").glob("fake_*.c"))
    libraries = {"libcuda.so.1": [*fakes, "-Wl,-soname,libcuda.so.1"]}
    libraries["callpath_arrays.abi3.so"] = [HERE / "callpath_arrays.c"]
    for name, sources in libraries.items():
        subprocess.run([*shared, *map(str, sources), "-o", str(folder / name)], check=True)


def build(folder: Path) -> None:
    """The package, unpacked."""
    options = [
        "--archs",
        "sm_90",
        "--no-ptx",
        "--name",
        "call_bench",
        "--out",
        str(folder),
        "--work",
        str(folder / "work"),
    ]
    subprocess.run([sys.executable, "-m", "aot", "build", str(HERE / "call_kernels"), *options], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--record", action="store_true", help="write callpath.json anew")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        if not options.site:
            build(folder)
        table = counts(folder, options.site or folder)
    before = json.loads(RECORD.read_text(encoding="utf-8"))
    print(f"{'instructions of a call':24} {'extension':>10} {'was':>8} {'':>6} {'all':>10} {'was':>8}")
    for title, now in table.items():
        was = before.get(title, now)
        change = now["extension"] / was["extension"] - 1
        ours = f"{now['extension']:10.0f} {was['extension']:8.0f} {change:+6.1%}"
        print(f"{title:24} {ours} {now['all']:10.0f} {was['all']:8.0f}")
    if options.record:
        RECORD.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
