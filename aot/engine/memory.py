"""How much memory this machine, or the container around us, still has.

In: /proc and the control group's files. Out: bytes. The number is an estimate, and used as one: it delays jobs,
it never refuses them.

>>> available_bytes() > 0
True
"""

from __future__ import annotations

import re
from pathlib import Path

MEMINFO, GROUP, GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
EVER_ENOUGH = 1 << 62


def available_bytes() -> int:
    """What can be taken without swapping, and without meeting a control group's limit."""
    return min(_machine(), *_groups())


def _machine() -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(MEMINFO), re.MULTILINE)
    return int(found[1]) * 1024 if found else EVER_ENOUGH


def _groups() -> list[int]:
    """What is left in our control group (version 2) and in those around it."""
    own = re.search(r"^0::/(.*)$", _text(GROUP), re.MULTILINE)
    folder = GROUPS / own[1] if own else GROUPS
    left = [EVER_ENOUGH]
    while folder.is_relative_to(GROUPS):
        limit, used = _text(folder / "memory.max").strip(), _text(folder / "memory.current").strip()
        if limit.isdigit() and used.isdigit():
            # Files that are only cached are given up when memory is needed.
            cached = re.search(r"^inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            left.append(int(limit) - int(used) + (int(cached[1]) if cached else 0))
        folder = folder.parent
    return left


def _text(file: Path) -> str:
    """Empty where there is no such file: an older kernel, another kind of container."""
    try:
        return file.read_text()
    except OSError:
        return ""
