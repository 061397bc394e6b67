"""templates/runtime/driver.h against the toolkit's cuda.h: numbers, sizes, and names that exist."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fakecuda import RUNTIME, compiler

HEADER = (RUNTIME / "driver.h").read_text()

PREFIXES = {
    "CU_DEVICE_": "CU_DEVICE_ATTRIBUTE_",
    "CU_FUNC_": "CU_FUNC_ATTRIBUTE_",
    "CU_LAUNCH_": "CU_LAUNCH_ATTRIBUTE_",
    "CU_POOL_": "CU_MEMPOOL_ATTR_",
    "CU_POINTER_": "CU_POINTER_ATTRIBUTE_",
    "CU_CAPTURE_MODE_": "CU_STREAM_CAPTURE_MODE_",
    "CU_CAPTURE_": "CU_STREAM_CAPTURE_STATUS_",
    "CU_MEMORY_": "CU_MEMORYTYPE_",
}
SHORTENED = {
    "CU_DEVICE_CAPABILITY_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "CU_DEVICE_CAPABILITY_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    "CU_DEVICE_REGISTERED_HOST_POINTERS": "CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM",
    "CU_DEVICE_SHARED_PER_BLOCK_OPTIN": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "CU_DEVICE_MULTIPROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
    "CU_DEVICE_MEMORY_POOLS": "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED",
    "CU_FUNC_SHARED_BYTES": "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES",
    "CU_FUNC_MAX_DYNAMIC_SHARED_BYTES": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "CU_FUNC_NON_PORTABLE_CLUSTER": "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
    "CU_LAUNCH_CLUSTER_POLICY": "CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE",
    "CU_LAUNCH_PROGRAMMATIC": "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
    "CU_CLUSTER_POLICY_SPREAD": "CU_CLUSTER_SCHEDULING_POLICY_SPREAD",
    "CU_JIT_INFO_LOG_BYTES": "CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES",
    "CU_JIT_ERROR_LOG_BYTES": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
    "CU_POOL_ALLOCATION_PINNED": "CU_MEM_ALLOCATION_TYPE_PINNED",
    "CU_POOL_LOCATION_DEVICE": "CU_MEM_LOCATION_TYPE_DEVICE",
}


def cuda_include() -> Path | None:
    """Folder of a cuda.h: of the toolkit packages from PyPI, else of an installed toolkit."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    found = [header.parent for folder in folders for header in sorted(folder.glob("*/include/cuda.h"))]
    nvcc = shutil.which("nvcc")
    if nvcc:
        found.append(Path(nvcc).resolve().parent.parent / "include")
    return next((folder for folder in found if (folder / "cuda.h").exists()), None)


INCLUDE = cuda_include()
needs_header = pytest.mark.skipif(INCLUDE is None, reason="no cuda.h here")


def toolkit_name(ours: str) -> str:
    """The toolkit's spelling of a constant of driver.h."""
    if ours in SHORTENED:
        return SHORTENED[ours]
    for short, full in PREFIXES.items():
        if ours.startswith(short):
            return full + ours.removeprefix(short)
    return ours


def check(tmp_path: Path, lines: list[str]) -> None:
    """Compiles cuda.h with the lines behind it."""
    source = tmp_path / "check.c"
    # A toolkit hides entry points of older ones, which its driver has.
    source.write_text("#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n" + "\n".join(lines) + "\n")
    command = [*compiler().split(), "-std=gnu11", f"-I{INCLUDE}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_header
def test_constants(tmp_path: Path) -> None:
    constants = re.findall(r"\b(CU(?:DA)?_[A-Z0-9_]+) = (\d+)", HEADER)
    assert len(constants) > 60
    check(tmp_path, [f'_Static_assert({value} == (int){toolkit_name(name)}, "{name}");' for name, value in constants])


@needs_header
def test_entry_points_exist(tmp_path: Path) -> None:
    names = re.findall(r"^  X\((cu\w+),", HEADER, re.MULTILINE)
    assert len(names) > 45
    check(tmp_path, [f"void *use_{name}(void) {{ return (void *){name}; }}" for name in names])


@needs_header
def test_sizes_of_structures(tmp_path: Path) -> None:
    structures = ("CUmemPoolProps", "CUtensorMap", "CUlaunchAttribute", "CUlaunchConfig")
    ours = tmp_path / "sizes.c"
    sizes = " ".join(f"sizeof({name})," for name in structures)
    ours.write_text(
        f'#include "driver.h"\n#include <stdio.h>\nint main(void) {{ size_t s[] = {{ {sizes} }};'
        'for (int i = 0; i < 4; i++) printf("%zu ", s[i]); }\n'
    )
    program = tmp_path / "sizes"
    subprocess.run([*compiler().split(), f"-I{RUNTIME}", str(ours), "-o", str(program)], check=True)
    values = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    pairs = zip(structures, values, strict=True)
    check(tmp_path, [f'_Static_assert(sizeof({name}) == {value}, "{name}");' for name, value in pairs])
