"""Fast schedules for memory-bound work: dispatch regions, their classes, and the kernels of each."""

from __future__ import annotations
