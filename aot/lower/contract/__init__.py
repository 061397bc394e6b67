"""Products of matrices from tensor level: matched, brought into one form, and given to a kernel."""

from __future__ import annotations
