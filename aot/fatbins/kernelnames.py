"""Kernels by the names that their source gives them, in what ptxas says of them by their symbols.

In: a text with symbols between quotes. Out: the text with names, and their gpu.module where two kernels have one name.

>>> Names((Kernel("k", "m", "m__k"),)).told("Entry function 'm__k' uses too much shared data")
"Entry function 'k' uses too much shared data"
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from aot.errors import AotError
from aot.model import Kernel

_QUOTED = re.compile(r"'([\w$.]+)'")


@dataclass(frozen=True)
class Names:
    """Those of a source's kernels."""

    kernels: Sequence[Kernel]

    def told(self, text: str) -> str:
        """The text as a user reads it."""
        return _QUOTED.sub(lambda found: self._names.get(found[1], found[0]), text)

    @contextlib.contextmanager
    def in_errors(self) -> Iterator[None]:
        """Errors of the block, with their diagnostics."""
        try:
            yield
        except AotError as error:
            error.message = self.told(error.message)
            error.diagnostics = tuple(replace(each, message=self.told(each.message)) for each in error.diagnostics)
            raise

    @cached_property
    def _names(self) -> dict[str, str]:
        count = Counter(each.name for each in self.kernels)
        return {
            each.symbol: f"'{each.name}'" + (f" of gpu.module '{each.module}'" if count[each.name] > 1 else "")
            for each in self.kernels
        }
